"""The order in which a recorded graph's nodes are issued, by hand, and that lowering and engines keep to it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.program.issue_order import Job, circle, issue_order
from accelsim.program.lower_recorded import lower_recorded
from accelsim.program.recorded import NodeKind, RecordedDevice, RecordedNode


def test_first_come_first_served() -> None:
    jobs = [Job((0,), 10, ()), Job((0,), 10, (2,)), Job((1,), 5, ()), Job((0,), 10, ())]
    assert issue_order(jobs) == [2, 0, 3, 1] or issue_order(jobs) == [0, 2, 3, 1]
    starts = [job for job in issue_order(jobs) if 0 in jobs[job].resources]
    assert starts == [0, 3, 1]  # 3 asked at 0, 1 at 5


def test_a_job_of_two_resources_is_not_overtaken() -> None:
    """2 needs both and asked at 0; 3 asks for resource 1 at 1, which is free, but stands behind 2."""
    jobs = [Job((0,), 10, ()), Job((), 1, ()), Job((0, 1), 4, ()), Job((1,), 4, (1,))]
    order = issue_order(jobs)
    assert order.index(2) < order.index(3)


def test_circles_are_found() -> None:
    jobs = [Job((), 1, ()), Job((), 1, (3,)), Job((), 1, (1, 0)), Job((), 1, (2,)), Job((), 1, (3,))]
    assert issue_order(jobs) == [0]
    assert circle(jobs, {1, 2, 3, 4}) == [1, 3, 2]
    assert circle(jobs, {4, 3, 2, 1})[0] == 1


@settings(max_examples=60)
@given(st.data())
def test_engines_start_tiles_when_the_order_says(data: st.DataObject) -> None:
    """Random graphs of tiles on two units: the engines' times are those of a naive list scheduler."""
    count = data.draw(st.integers(1, 9))
    nodes = [
        RecordedNode(
            row,
            f"n{row}",
            NodeKind.COMPUTE,
            tuple(data.draw(st.sets(st.integers(0, row - 1), max_size=2))) if row else (),
            duration_ns=data.draw(st.integers(1, 5)),
            on_host=data.draw(st.booleans()),
        )
        for row in range(count)
    ]
    ends: dict[int, int] = {}
    free = {True: 0, False: 0}
    left = set(range(count))
    starts = {}
    while left:  # always the node that could start first; of those, the one that was ready first, then by number
        ready = {
            row: max((ends[p] for p in nodes[row].parents), default=0)
            for row in left
            if ends.keys() >= set(nodes[row].parents)
        }
        row = min(ready, key=lambda row: (max(ready[row], free[nodes[row].on_host]), ready[row], row))
        starts[row] = max(ready[row], free[nodes[row].on_host])
        ends[row] = free[nodes[row].on_host] = starts[row] + (nodes[row].duration_ns or 0)
        left.remove(row)
    run = simulate(lower_recorded([RecordedDevice(0, "", nodes)], None, "test"))
    names = [run.program.operator_names[run.program.activities.operator[one]] for one in run.events.activity]
    assert dict(zip(names, run.events.start_cycles.tolist(), strict=True)) == {
        f"n{row}": at for row, at in starts.items()
    }

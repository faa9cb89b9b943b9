"""Timeline files: what is written is read again, equal timelines are equal bytes, and nothing damaged is believed."""

import dataclasses
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from accelsim.errors import FormatError, InputError
from accelsim.formats import load_timeline, save_timeline
from accelsim.formats.timeline_npz import write_timeline
from accelsim.program.check import same_program
from tests.timelines import worked_example

NAME_OF_PATH = "timeline.npz"


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME_OF_PATH


def members(timeline=None):
    """The members of a good file, by name."""
    with zipfile.ZipFile(io.BytesIO(write_timeline(timeline or worked_example()))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def array_bytes(values, **options):
    file = io.BytesIO()
    np.save(file, values, **options)
    return file.getvalue()


def write(path, contents, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def header_of(contents):
    return json.loads(np.load(io.BytesIO(contents["header.json.npy"])).tobytes())


def with_header(contents, text):
    values = np.frombuffer(text.encode() if isinstance(text, str) else text, dtype=np.uint8)
    return {**contents, "header.json.npy": array_bytes(values)}


def test_round_trip(path):
    timeline = worked_example(scheduler="pencil", seed=3, nested={"a": [1, "b", None]})
    save_timeline(timeline, path)
    again = load_timeline(path)
    assert same_program(again.program, timeline.program)
    assert again.program.operator_macs.tolist() == [5000, 0, 4000]
    for found, expected in zip(again.events, timeline.events, strict=True):
        assert found.tolist() == expected.tolist()
    assert (again.engine, again.provenance) == (timeline.engine, timeline.provenance)
    assert write_timeline(again) == write_timeline(timeline)


def test_numpy_opens_it_without_pickles(path):
    save_timeline(worked_example(), path)
    with np.load(path, allow_pickle=False) as file:
        assert file["events.start_cycles"].tolist()[:4] == [0, 20, 30, 30]
        assert json.loads(file["header.json"].tobytes())["schema"] == 1


def test_measured_durations_do_not_change_the_bytes():
    one, other = worked_example(simulate_seconds=1.0, seed=1), worked_example(simulate_seconds=2.0, seed=1)
    assert write_timeline(one) == write_timeline(other)
    assert write_timeline(one) != write_timeline(worked_example(seed=2))


def test_odd_names_survive(path):
    names = ("<script>", "a\nb\0c", "\ud800 \N{SNOWMAN}")
    timeline = worked_example()
    timeline = dataclasses.replace(timeline, program=dataclasses.replace(timeline.program, operator_names=names))
    save_timeline(timeline, path)
    assert load_timeline(path).program.operator_names == names


def test_nothing_is_half_written(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        save_timeline(worked_example(), tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        save_timeline(worked_example(), tmp_path / "missing" / "timeline.npz")
    assert list(tmp_path.iterdir()) == []


def test_missing_file_and_folder(path, tmp_path):
    with pytest.raises(FormatError, match=r"timeline\.npz: cannot be read as a timeline: No such file"):
        load_timeline(path)
    with pytest.raises(FormatError, match=r"Is a directory|No such file"):
        load_timeline(tmp_path)


@pytest.mark.parametrize("kept", [0, 1, 100, 5000, -1])
def test_truncated(path, kept):
    path.write_bytes(write_timeline(worked_example())[:kept])
    with pytest.raises(FormatError, match="cut short or damaged"):
        load_timeline(path)


def test_every_damaged_byte_is_noticed_or_harmless(path):
    """One byte in 97 is turned round: the file is refused, or still says the same in every number."""
    content = write_timeline(worked_example())
    refused = 0
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            found = load_timeline(path)
        except FormatError:
            refused += 1
        else:
            assert write_timeline(found) == content
    assert refused > len(content) // 97 // 2


@pytest.mark.parametrize("name", ["header.json", "events.cause", "activities.queue", "energy_pj", "operator_macs"])
def test_missing_column(path, name):
    contents = members()
    del contents[f"{name}.npy"]
    write(path, contents)
    with pytest.raises(FormatError, match=f"column '{name}' is missing"):
        load_timeline(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (array_bytes(np.zeros(11)), r"is float64 of shape \(11,\); must be int64, 1-dimensional"),
        (array_bytes(np.zeros(11, ">i8")), "must be int64"),
        (array_bytes(np.zeros((11, 1), np.int64)), "1-dimensional"),
        (array_bytes(np.array([{"a": 1}] * 11, dtype=object)), "pickled objects, which are never loaded"),
        (array_bytes(np.zeros(11, np.int64))[:-8], "do not fill the shape"),
        (
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999,), }",
            "NumPy array",
        ),
        (b"not an array", "is no NumPy array"),
        (b"", "is no NumPy array"),
        (pickle.dumps([1]), "is no NumPy array"),
    ],
)
def test_wrong_column(path, content, message):
    write(path, {**members(), "events.cause.npy": content})
    with pytest.raises(FormatError, match=message):
        load_timeline(path)


def test_a_claimed_shape_allocates_nothing(path):
    good = array_bytes(np.zeros(11, np.int64))
    huge = good.replace(b"(11,), }" + b" " * 11, b"(111111111111,), } ")
    assert len(huge) == len(good) and huge != good
    write(path, {**members(), "events.cause.npy": huge})
    with pytest.raises(FormatError, match="do not fill the shape"):
        load_timeline(path)


def test_nothing_is_unpickled(path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(path.parent / "sprung"),)

    write(path, {**members(), "events.cause.npy": array_bytes(np.array([Trap()] * 11, dtype=object))})
    with pytest.raises(FormatError, match="pickled"):
        load_timeline(path)
    assert not (path.parent / "sprung").exists()


def test_compressed_parts_are_refused(path):
    write(path, {**members(), "bomb.npy": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="compressed"):
        load_timeline(path)


def test_parts_that_share_their_bytes_are_refused(path):
    """The central directory can list one stretch of the file many times."""
    contents = members()
    write(path, contents)
    raw = path.read_bytes()
    start = raw.rindex(b"PK\x05\x06")
    size, offset = (int.from_bytes(raw[start + place : start + place + 4], "little") for place in (12, 16))
    directory = raw[offset : offset + size]
    first = directory[: directory.index(b"PK\x01\x02", 4)]
    name_length = int.from_bytes(first[28:30], "little")
    extra = b"".join(
        first[:46] + f"{number:0{name_length}d}".encode() + first[46 + name_length :] for number in range(2000)
    )
    whole = len(directory) + len(extra)
    count = (len(contents) + 2000).to_bytes(2, "little")
    end = raw[start : start + 8] + count + count + whole.to_bytes(4, "little") + raw[start + 16 :]
    path.write_bytes(raw[:offset] + directory + extra + end)
    with pytest.raises(FormatError, match="claim more bytes than the file has"):
        load_timeline(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_column_that_stands_there_twice(path):
    write(path, members())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("events.cause.npy", b"x")
    with pytest.raises(FormatError, match="twice"):
        load_timeline(path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "its header is not JSON"),
        (b"\xff", "its header is not JSON"),
        ("[" * 100_000, "its header is not JSON"),
        ("[]", "its header"),
        ('{"schema": 2}', "schema 2, this version reads 1; it was written by a newer accelsim"),
        ('{"schema": 1}', "engine: Field required"),
        ('{"schema": NaN}', "NaN is no number"),
    ],
)
def test_wrong_header(path, text, message):
    write(path, with_header(members(), text))
    with pytest.raises(FormatError, match=message):
        load_timeline(path)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"extra": 1}, "extra"),
        ({"engine": 3}, "engine"),
        ({"operator_names": "ABC"}, "operator_names"),
        ({"operator_names": ["A"]}, r"operator_macs has shape \(3,\), must be \(1,\)"),
        ({"part_names": ["mac"]}, r"energy_pj has shape \(11, 3\), must be \(11, 1\)"),
        ({"resource_names": ["core"]}, "resource_names has 1 names, resources has 2 rows"),
        ({"static_pj_per_cycle": -1.0}, "static_pj_per_cycle"),
        ({"facts": {"macs": 10**400}}, "facts"),
        ({"facts": {"macs": [1]}}, "facts"),
    ],
)
def test_wrong_field_of_the_header(path, change, message):
    contents = members()
    write(path, with_header(contents, json.dumps({**header_of(contents), **change})))
    with pytest.raises(FormatError, match=message):
        load_timeline(path)


@pytest.mark.parametrize(
    "column, row, value, message",
    [
        ("activity", 3, 11, r"events\.activity\[3\] is 11, must be from 0 to below 11"),
        ("activity", 3, -1, r"events\.activity\[3\] is -1"),
        ("cause", 0, 9, r"events\.cause\[0\] is 9"),
        ("cause_activity", 2, -2, r"events\.cause_activity\[2\]"),
        ("finish_cycles", 10, 1 << 62, r"events\.finish_cycles\[10\]"),
        ("ready_cycles", 2, 31, "event 2 starts before it asked"),
        ("end_cycles", 2, 29, "event 2 ends before it starts"),
        ("finish_cycles", 2, 59, "event 2 finishes before it ends"),
        ("queue", 2, 1, "event 2 is not on the queue of its activity"),
        ("resource", 2, 1, "event 2 is not on the resource of its queue"),
        ("start_cycles", 3, 29, "event 3 starts before the one that stands before it|starts before it asked"),
        ("bytes", 3, 5, "activity 7 does not move its bytes"),
    ],
)
def test_events_that_cannot_be(path, column, row, value, message):
    timeline = worked_example()
    values = getattr(timeline.events, column).copy()
    values[row] = value
    write(path, members(dataclasses.replace(timeline, events=timeline.events._replace(**{column: values}))))
    with pytest.raises(FormatError, match=message):
        load_timeline(path)


def test_events_that_overlap_or_lack(path):
    timeline = worked_example()
    end = timeline.events.end_cycles.copy()
    end[0] = 21
    late = np.maximum(end, timeline.events.finish_cycles)
    events = timeline.events._replace(end_cycles=end, finish_cycles=late)
    write(path, members(dataclasses.replace(timeline, events=events)))
    with pytest.raises(FormatError, match="event 1 starts while its resource is still busy"):
        load_timeline(path)
    events = type(timeline.events)(*(column[:-1] for column in timeline.events))
    write(path, members(dataclasses.replace(timeline, events=events)))
    with pytest.raises(FormatError, match="activity 10 has no event"):
        load_timeline(path)
    contents = members()
    contents["events.bytes.npy"] = array_bytes(np.zeros(5, np.int64))
    write(path, contents)
    with pytest.raises(FormatError, match=r"events\.bytes has 5 rows, must have 11"):
        load_timeline(path)


def test_a_program_that_cannot_run(path):
    contents = members()
    contents["dependencies.before.npy"] = array_bytes(np.full(8, 99))
    write(path, contents)
    with pytest.raises(FormatError, match=r"the program inside cannot run: .*dependencies\.before"):
        load_timeline(path)


def test_files_from_before_queues_had_rules_are_read(path):
    """Such queues stand for themselves, as all did."""
    contents = members()
    old = {name: content for name, content in contents.items() if not name.startswith("queues.") or "resource" in name}
    header = header_of(contents)
    del header["tenant_names"]
    write(path, with_header(old, json.dumps(header)))
    assert same_program(load_timeline(path).program, worked_example().program)

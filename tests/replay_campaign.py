"""Record and replay: every network on every template with every scheduler that ships; by hand, since it takes hours.

    python -m tests.replay_campaign --seconds 600

takes the combinations in a random order (``--seed``) until the time is over, so that a part is a fair
sample. Of each run the file is saved, read and replayed: the same events, the same bytes of the file. With twice
the bandwidth of DRAM, the replay must be what lowering the same schedule for that machine gives. What cannot run
is counted by reason.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

from accelsim.engine import simulate
from accelsim.errors import AccelsimError
from accelsim.library import list_accelerators, list_workloads, load_accelerator, load_workload
from accelsim.program.check import same_program
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.search import SCHEDULERS
from accelsim.search.objective import Objective
from accelsim.search.session import Watch
from accelsim.timeline.provenance import with_provenance
from accelsim.workload.cut import cut_to_fit
from tests.unit.test_replay import check_replay

SLOW = ("llama2", "mixtral")


def check(network: str, hardware: str, scheduler: str, seconds: float, folder: Path) -> None:
    """Raises AssertionError where a replay differs, AccelsimError where the combination cannot run."""
    machine = load_accelerator(hardware)
    workload = cut_to_fit(load_workload(network), machine.buffers["global"].capacity_bytes)
    search = SCHEDULERS[scheduler].from_options(Objective(1, 1), 0)
    found = search.search(workload, machine, Watch(seconds))
    program = lower(workload, machine, found.schedule)
    run = with_provenance(simulate(program), scheduler=found.scheduler, hardware_template=machine.source)
    check_replay(run, folder)
    rate = round(2 * machine.dram.bytes_per_cycle * machine.clock_hz)
    faster = load_accelerator(hardware, [f"dram.bandwidth={rate} B/s"])
    assert same_program(rebind(program, faster, machine), lower(workload, faster, found.schedule))


def main() -> None:
    """Until the time is over; ends with status 1 if any replay differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--search-seconds", type=float, default=1.0, help="for each search")
    parser.add_argument("--all", action="store_true", help="the networks of many billion parameters, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scheduler", action="append", choices=list(SCHEDULERS), help="only these")
    options = parser.parse_args()
    networks = [name for name in list_workloads() if options.all or not name.startswith(SLOW)]
    combinations = list(product(networks, list_accelerators(), options.scheduler or SCHEDULERS))
    random.Random(options.seed).shuffle(combinations)
    began, same, refused, different = time.monotonic(), Counter[str](), Counter[str](), []
    for number, combination in enumerate(combinations):
        if time.monotonic() - began > options.seconds:
            print(f"time is over after {number} of {len(combinations)} combinations")
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(*combination, options.search_seconds, Path(folder))
                same[combination[2]] += 1
            except AccelsimError as error:
                refused[f"{type(error).__name__} on {combination[1]}"] += 1
            except AssertionError:
                different.append(combination)
                print("DIFFERENT", *combination, flush=True)
    print(f"identical: {sum(same.values())} ({', '.join(f'{name} {count}' for name, count in sorted(same.items()))})")
    print(
        f"cannot run: {sum(refused.values())}", *(f"  {count} {why}" for why, count in refused.most_common()), sep="\n"
    )
    print(f"different: {len(different)}")
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()

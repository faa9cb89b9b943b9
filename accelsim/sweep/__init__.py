"""Many runs from one description: their grid, their processes, their results in a file that outlives them, their
tables."""

from accelsim.sweep.runner import SweepCounts, run_sweep
from accelsim.sweep.spec import Point, read_sweep
from accelsim.sweep.store import ResultStore
from accelsim.sweep.study import Study, load_study

__all__ = ["Point", "ResultStore", "Study", "SweepCounts", "load_study", "read_sweep", "run_sweep"]

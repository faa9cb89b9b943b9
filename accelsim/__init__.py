"""accelsim: a cycle-level simulator of machine-learning accelerators.

From a model over a schedule to a simulated timeline::

    workload = accelsim.load_workload("soma.resnet50")
    accelerator = accelsim.load_accelerator("soma_edge")
    schedule = accelsim.Layerwise().search(workload, accelerator).schedule
    timeline = accelsim.simulate(accelsim.lower(workload, accelerator, schedule))
    print(accelsim.report(timeline))

The public names below are imported when they are first used, so that ``import accelsim`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelsim.analysis.advice import Advice as Advice
    from accelsim.analysis.advise import advise as advise
    from accelsim.analysis.compare_report import Comparison as Comparison
    from accelsim.analysis.compare_report import compare as compare
    from accelsim.analysis.compare_runs import Runs as Runs
    from accelsim.analysis.compare_runs import compare_runs as compare_runs
    from accelsim.analysis.ledger_report import LedgerReport as LedgerReport
    from accelsim.analysis.ledger_report import ledger_report as ledger_report
    from accelsim.analysis.report import report as report
    from accelsim.analysis.roofs_file import Roofs as Roofs
    from accelsim.analysis.roofs_file import measured_roofs as measured_roofs
    from accelsim.analysis.sharing import Sharing as Sharing
    from accelsim.analysis.sharing import sharing as sharing
    from accelsim.engine import simulate as simulate
    from accelsim.engine.replay import replay as replay
    from accelsim.errors import AccelsimError as AccelsimError
    from accelsim.formats import load_timeline as load_timeline
    from accelsim.formats import load_trace as load_trace
    from accelsim.formats import save_timeline as save_timeline
    from accelsim.formats.torch.export import from_torch as from_torch
    from accelsim.hardware.accelerator import Accelerator as Accelerator
    from accelsim.hardware.dataflow.systolic_activity import active_elements as active_elements
    from accelsim.hardware.dataflow.systolic_cycles import clocked_product as clocked_product
    from accelsim.hardware.memory.dram import DramMemory as DramMemory
    from accelsim.hardware.memory.memory import MemoryRequests as MemoryRequests
    from accelsim.hardware.memory.memory import MemoryRun as MemoryRun
    from accelsim.job import Job as Job
    from accelsim.library import load_accelerator as load_accelerator
    from accelsim.library import load_memory as load_memory
    from accelsim.library import load_workload as load_workload
    from accelsim.plot.roofline import Roofline as Roofline
    from accelsim.plot.roofline import roofline as roofline
    from accelsim.program.explain import explain as explain
    from accelsim.program.lower import lower as lower
    from accelsim.program.tables import Program as Program
    from accelsim.schedule.notation import DramTensor as DramTensor
    from accelsim.schedule.notation import Schedule as Schedule
    from accelsim.search import Cocco as Cocco
    from accelsim.search import Interleave as Interleave
    from accelsim.search import Layerwise as Layerwise
    from accelsim.search import Objective as Objective
    from accelsim.search import SearchResult as SearchResult
    from accelsim.search import SoMa as SoMa
    from accelsim.search import Watch as Watch
    from accelsim.sparsity import Sparsity as Sparsity
    from accelsim.sparsity import parse_sparsity as parse_sparsity
    from accelsim.timeline.contention import bandwidth_by_queue as bandwidth_by_queue
    from accelsim.timeline.contention import link_waits as link_waits
    from accelsim.timeline.cycles import CYCLE_CAUSES as CYCLE_CAUSES
    from accelsim.timeline.cycles import CycleActivity as CycleActivity
    from accelsim.timeline.cycles import cycle_activity as cycle_activity
    from accelsim.timeline.table import Timeline as Timeline
    from accelsim.workload.graph import Workload as Workload
    from accelsim.workload.operator import Operand as Operand
    from accelsim.workload.operator import Operator as Operator
    from accelsim.workload.operator import Source as Source
    from accelsim.workload.sparse import with_sparsity as with_sparsity
    from accelsim.workload.tensor import Tensor as Tensor

_HOMES = {
    "Accelerator": "hardware.accelerator",
    "AccelsimError": "errors",
    "Advice": "analysis.advice",
    "Cocco": "search",
    "CYCLE_CAUSES": "timeline.cycles",
    "Comparison": "analysis.compare_report",
    "Runs": "analysis.compare_runs",
    "CycleActivity": "timeline.cycles",
    "DramMemory": "hardware.memory.dram",
    "DramTensor": "schedule.notation",
    "Interleave": "search",
    "Job": "job",
    "Layerwise": "search",
    "LedgerReport": "analysis.ledger_report",
    "MemoryRequests": "hardware.memory.memory",
    "MemoryRun": "hardware.memory.memory",
    "Objective": "search",
    "Operand": "workload.operator",
    "Operator": "workload.operator",
    "Program": "program.tables",
    "Roofline": "plot.roofline",
    "Roofs": "analysis.roofs_file",
    "Schedule": "schedule.notation",
    "SearchResult": "search",
    "SoMa": "search",
    "Sharing": "analysis.sharing",
    "Source": "workload.operator",
    "Sparsity": "sparsity",
    "Tensor": "workload.tensor",
    "Timeline": "timeline.table",
    "Watch": "search",
    "Workload": "workload.graph",
    "active_elements": "hardware.dataflow.systolic_activity",
    "advise": "analysis.advise",
    "bandwidth_by_queue": "timeline.contention",
    "clocked_product": "hardware.dataflow.systolic_cycles",
    "compare": "analysis.compare_report",
    "compare_runs": "analysis.compare_runs",
    "cycle_activity": "timeline.cycles",
    "explain": "program.explain",
    "ledger_report": "analysis.ledger_report",
    "from_torch": "formats.torch.export",
    "link_waits": "timeline.contention",
    "load_accelerator": "library",
    "load_memory": "library",
    "load_timeline": "formats",
    "load_trace": "formats",
    "load_workload": "library",
    "lower": "program.lower",
    "measured_roofs": "analysis.roofs_file",
    "parse_sparsity": "sparsity",
    "replay": "engine.replay",
    "report": "analysis.report",
    "roofline": "plot.roofline",
    "save_timeline": "formats",
    "sharing": "analysis.sharing",
    "simulate": "engine",
    "with_sparsity": "workload.sparse",
}

__version__ = "0.1.0"
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    """Imports a public name from its home when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'accelsim' has no attribute '{name}'")
    value = getattr(import_module(f"accelsim.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

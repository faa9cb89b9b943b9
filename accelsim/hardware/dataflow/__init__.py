"""The dataflows that a template may name, one line each."""

from accelsim.hardware.dataflow.dataflow import Dataflow
from accelsim.hardware.dataflow.direct_convolution import DirectConvolution
from accelsim.hardware.dataflow.in_memory import InMemory
from accelsim.hardware.dataflow.input_stationary import InputStationary
from accelsim.hardware.dataflow.output_stationary import OutputStationary
from accelsim.hardware.dataflow.row_stationary import RowStationary
from accelsim.hardware.dataflow.spatial_cores import SpatialCores
from accelsim.hardware.dataflow.weight_stationary import WeightStationary

DATAFLOWS: dict[str, type[Dataflow]] = {
    "output_stationary": OutputStationary,
    "weight_stationary": WeightStationary,
    "input_stationary": InputStationary,
    "row_stationary": RowStationary,
    "direct_convolution": DirectConvolution,
    "in_memory": InMemory,
    "spatial_cores": SpatialCores,
}

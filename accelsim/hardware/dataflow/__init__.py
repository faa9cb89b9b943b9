"""The dataflows that a template may name, one line each."""

from accelsim.hardware.dataflow.dataflow import Dataflow
from accelsim.hardware.dataflow.output_stationary import OutputStationary
from accelsim.hardware.dataflow.spatial_cores import SpatialCores

DATAFLOWS: dict[str, type[Dataflow]] = {
    "output_stationary": OutputStationary,
    "spatial_cores": SpatialCores,
}

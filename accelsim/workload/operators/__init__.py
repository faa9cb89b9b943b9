"""The operators that accelsim knows, one file each. A new one is a file and a line here."""

from accelsim.workload.operator import Operator
from accelsim.workload.operators.conv2d import Conv2d
from accelsim.workload.operators.conv_transpose2d import ConvTranspose2d
from accelsim.workload.operators.elementwise import Elementwise
from accelsim.workload.operators.embedding import Embedding
from accelsim.workload.operators.matmul import MatMul
from accelsim.workload.operators.move import Move
from accelsim.workload.operators.normalization import LocalResponseNorm, Normalization
from accelsim.workload.operators.pool import Pool
from accelsim.workload.operators.recurrent import Recurrent
from accelsim.workload.operators.reduction import Reduction
from accelsim.workload.operators.resample import Resample
from accelsim.workload.operators.softmax import Softmax
from accelsim.workload.operators.transpose import Transpose
from accelsim.workload.operators.upsample import Upsample

OPERATORS: dict[str, type[Operator]] = {
    operator.kind: operator
    for operator in (
        Conv2d,
        ConvTranspose2d,
        Elementwise,
        Embedding,
        LocalResponseNorm,
        MatMul,
        Move,
        Normalization,
        Pool,
        Recurrent,
        Reduction,
        Resample,
        Softmax,
        Transpose,
        Upsample,
    )
}

__all__ = [
    "OPERATORS",
    "Conv2d",
    "ConvTranspose2d",
    "Elementwise",
    "Embedding",
    "LocalResponseNorm",
    "MatMul",
    "Move",
    "Normalization",
    "Pool",
    "Recurrent",
    "Reduction",
    "Resample",
    "Softmax",
    "Transpose",
    "Upsample",
]

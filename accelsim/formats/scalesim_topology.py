"""SCALE-Sim's topology files: a layer a line, in CSV, as they are found in the wild.

The columns tell what a line is, not its header: name and three numbers are a matrix product M, N, K (A of M x K times
B of K x N); name and seven numbers are a convolution: ifmap height and width, filter height and width, channels,
filters and the stride of both axes, or eight where the axes have strides of their own (a header may call that column a
batch). Either may end with a sparsity ratio N:M, a comment and commas. A name alone is a heading, commas alone are
nothing. Layers are independent of each other and keep their order. Files in which tabs part the columns are read too.

As SCALE-Sim v3.0.0 (``topology_utils.py``) does it: there is no padding; the output size is rounded up,
ceil((ifmap - filter + stride) / stride), its last row and column reading beyond the ifmap; a convolution with "DP" in
its name stands for one layer of a single channel for each of its channels, ``nameChannel_0`` and so on. What its own
reader would refuse or drop without a word, but what can only mean one thing, is read, and a note names the line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from accelsim.errors import FormatError, WorkloadError
from accelsim.sparsity import Pattern, Sparsity
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, MatMul
from accelsim.workload.tensor import Tensor
from accelsim.yaml_source import read_text

LARGEST_SIZE = 1 << 31
MOST_MACS = 1 << 52
"""A layer with more multiply-accumulates is a mistake in a size."""
MOST_LAYERS = 1 << 16
LONGEST_NAME = 200
GEMM = ("M", "N", "K")
CONVOLUTION = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "filters", "stride")
TWO_STRIDES = (*CONVOLUTION[:-1], "row stride", "column stride")
COLUMNS = {len(names): names for names in (GEMM, CONVOLUTION, TWO_STRIDES)}

HEADLESS_NOTE = "is the first one and is read as a layer, since it has numbers; SCALE-Sim takes it for a header"
COMMA_NOTE = "ends without a comma; SCALE-Sim would drop its last column"
STRIDES_NOTE = "has two strides; SCALE-Sim would take the second one for a sparsity ratio"
SPARSITY_NOTE = (
    "has a sparsity ratio, which counts on machines whose pe_array.sparsity.weights is 'structured' (SCALE-Sim: "
    "SparsitySupport); on others the layer runs dense"
)
TABS_NOTE = "has its columns parted by tabs; SCALE-Sim knows commas only"
TRAILING_NOTE = "ends with a word after its numbers, which is left out, as SCALE-Sim leaves out whatever stands last"
BATCH_NOTE = "has a batch of 1; SCALE-Sim would take it for a sparsity ratio"
WHOLE_NOTE = "has the sparsity ratio 1, which is read as 1:1: nothing is left out"
BEYOND_NOTE = "has more behind an empty column, which is left out; SCALE-Sim would stop there"
EMPTY_NOTE = "has commas only and is left out; SCALE-Sim would stop there"
HEADING_NOTE = "has a name only and is read as a heading of the layers below it"
REPEATED_NOTE = "repeats the name of a layer above; '#2' and so on tell them apart"


def read_scalesim_topology(path: str | Path) -> Workload:
    """Reads a topology file as a workload of 8-bit elements whose layers depend on nothing.

    Raises :class:`FormatError` with every line that cannot be understood, as ``file:line: what is wrong``.
    """
    path = Path(path)
    return parse_scalesim_topology(read_text(path, FormatError), str(path), path.stem)


def parse_scalesim_topology(text: str, place: str, name: str) -> Workload:
    """As :func:`read_scalesim_topology`, from the text itself; ``place`` is what messages call it."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        reader.read_line(number, line)
    if reader.mistakes:
        shown = [f"{place}:{line}: {mistake}" for line, mistake in reader.mistakes[:20]]
        more = len(reader.mistakes) - len(shown)
        raise FormatError("\n".join([*shown, *([f"… and {more} more"] if more else [])]))
    if not reader.layers:
        raise FormatError(f"{place}: no layers; expected a header and lines such as 'conv1, 224, 224, 7, 7, 3, 64, 2,'")
    return Workload(
        name=name,
        operators=tuple(operator for operator, _ in reader.layers),
        inputs=tuple(tensor for _, tensor in reader.layers),
        notes=tuple(f"{place}: {_numbers(lines)} {what}" for what, lines in reader.notes.items()),
    )


class _Mistake(Exception):  # noqa: N818  (caught below: the reader adds the line)
    """A line that cannot be understood."""


Layer = tuple[Operator, Tensor]
"""An operator, and the external input that it reads."""


@dataclass
class _Reader:
    layers: list[Layer] = field(default_factory=list)
    mistakes: list[tuple[int, str]] = field(default_factory=list)
    notes: dict[str, list[int]] = field(default_factory=dict)
    """What is to be said of which lines."""
    names: set[str] = field(default_factory=set)
    before_header: bool = True
    header: list[str] = field(default_factory=list)
    sparsity: Sparsity | None = None
    """Of the line that is being read."""

    def read_line(self, number: int, line: str) -> None:
        """Adds the line's layers, or its mistake."""
        has_tabs = "," not in line and line.count("\t") >= len(GEMM)
        cells = [cell.strip() for cell in line.split("\t" if has_tabs else ",")]
        ends_with_comma = has_tabs or not cells[-1]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            if "," in line:
                self._note(EMPTY_NOTE, number)
            return
        first, self.before_header = self.before_header, False
        if first and not any(cell.isdecimal() for cell in cells[1:]):
            self.header = [cell.lower() for cell in cells]
            return
        try:
            self._read_cells(number, cells)
        except (_Mistake, WorkloadError) as mistake:
            self.mistakes.append((number, str(mistake)))
        if first:
            self._note(HEADLESS_NOTE, number)
        if has_tabs:
            self._note(TABS_NOTE, number)
        # A word that stands last is what SCALE-Sim drops, so nothing is lost.
        if not ends_with_comma and not {TRAILING_NOTE, HEADING_NOTE} & self._said_of(number):
            self._note(COMMA_NOTE, number)

    def _read_cells(self, number: int, cells: list[str]) -> None:
        name, *values = cells
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise _Mistake(f"the layer's name is {name[:40]!r}; expected 1 to {LONGEST_NAME} printable characters")
        if not values:
            self._note(HEADING_NOTE, number)
            return
        if "" in values and values.index("") == len(CONVOLUTION):
            del values[len(CONVOLUTION) :]
            self._note(BEYOND_NOTE, number)
        if len(values) - 1 in COLUMNS and _is_word(values[-1]):
            values.pop()
            self._note(TRAILING_NOTE, number)
        called = self.header[len(values)] if len(values) < len(self.header) else ""
        self.sparsity = None
        if len(values) > 3 and (":" in values[-1] or "sparsity" in called):
            if values[-1] == "1":
                values[-1] = "1:1"
                self._note(WHOLE_NOTE, number)
            self.sparsity = _sparsity(values.pop())
            if self.sparsity is not None:
                self._note(SPARSITY_NOTE, number)
        if len(values) - 1 in COLUMNS and "batch" in called:
            if values.pop() != "1":
                raise _Mistake(f"layer '{name}' has a batch of its own; run the file with --batch instead")
            self._note(BATCH_NOTE, number)
        if len(values) not in COLUMNS:
            raise _Mistake(
                f"layer '{name}' has {len(values)} numbers; a matrix product has 3 ({', '.join(GEMM)}), "
                f"a convolution 7 ({', '.join(CONVOLUTION)})"
            )
        columns = COLUMNS[len(values)]
        sizes = [_size(name, column, value) for column, value in zip(columns, values, strict=True)]
        if columns is TWO_STRIDES:
            self._note(STRIDES_NOTE, number)
        if columns is GEMM:
            self._add(number, name, _matrix_product, sizes)
            return
        if sizes[2] > sizes[0] or sizes[3] > sizes[1]:
            raise _Mistake(
                f"layer '{name}': its filter, {sizes[2]} x {sizes[3]}, is larger than its ifmap, "
                f"{sizes[0]} x {sizes[1]}; padding belongs into the size of the ifmap"
            )
        if "DP" not in name:
            self._add(number, name, _convolution, sizes)
            return
        self._check_room(name, sizes[4])
        for channel in range(sizes[4]):
            self._add(number, f"{name}Channel_{channel}", _convolution, [*sizes[:4], 1, *sizes[5:]])

    def _add(self, line: int, name: str, make: Callable[[str, list[int]], Layer], sizes: list[int]) -> None:
        self._check_room(name, 1)
        unique, count = name, 1
        while self.names & {unique, _input_name(unique)}:
            count += 1
            unique = f"{name}#{count}"
        if unique != name:
            self._note(REPEATED_NOTE, line)
        self.names |= {unique, _input_name(unique)}
        operator, given = make(unique, sizes)
        if self.sparsity is not None:
            weights = (replace(operator.weights[0], sparsity=self.sparsity),)
            operator = replace(operator, weights=weights)
        self.layers.append((operator, given))

    def _check_room(self, name: str, more: int) -> None:
        if len(self.layers) + more > MOST_LAYERS:
            raise _Mistake(f"layer '{name}': with it the file has more than {MOST_LAYERS} layers")

    def _said_of(self, line: int) -> set[str]:
        return {what for what, lines in self.notes.items() if line in lines[-1:]}

    def _note(self, what: str, line: int) -> None:
        lines = self.notes.setdefault(what, [])
        if line not in lines[-1:]:
            lines.append(line)


def _numbers(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = f" and {len(lines) - 10} more" if len(lines) > 10 else ""
    return f"each of the lines {', '.join(map(str, lines[:10]))}{more}"


def _is_word(text: str) -> bool:
    """Whether this is neither a number nor a ratio, but something that people write behind them."""
    return ":" not in text and not any(character.isdecimal() for character in text[:1])


def _size(name: str, column: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and 1 <= int(text) <= LARGEST_SIZE):
        raise _Mistake(f"layer '{name}': {column} is {text[:40]!r}; expected a whole number from 1 to 2^31")
    return int(text)


def _sparsity(ratio: str) -> Sparsity | None:
    """A ratio N:M; None where it leaves nothing out."""
    kept, _, of = (part.strip() for part in ratio.partition(":"))
    if not (len(ratio) <= 20 and ratio.isascii() and kept.isdecimal() and of.isdecimal() and 1 <= int(kept) <= int(of)):
        raise _Mistake(f"the sparsity ratio is {ratio[:40]!r}; expected N:M, whole numbers, 1 <= N <= M, such as 2:4")
    return None if int(kept) == int(of) else Sparsity(int(kept), int(of), Pattern.STRUCTURED)


def _input_name(layer: str) -> str:
    return f"{layer}.input"


def _matrix_product(name: str, sizes: list[int]) -> Layer:
    M, N, K = sizes
    _check_macs(name, M, N, K)
    given = Tensor(_input_name(name), (M, K))
    product = MatMul(
        name=name,
        operands=(Operand((Source(given.name),), given.shape),),
        output=Tensor(name, (M, N)),
        weights=(Tensor(f"{name}.weight", (K, N)),),
    )
    return product, given


def _convolution(name: str, sizes: list[int]) -> Layer:
    rows, columns, kernel_rows, kernel_columns, channels, filters, *strides = sizes
    stride = strides[0], strides[-1]
    output = -(-(rows - kernel_rows + stride[0]) // stride[0]), -(-(columns - kernel_columns + stride[1]) // stride[1])
    _check_macs(name, *output, kernel_rows, kernel_columns, channels, filters)
    given = Tensor(_input_name(name), (channels, rows, columns))
    convolution = Conv2d(
        name=name,
        operands=(Operand((Source(given.name),), given.shape),),
        output=Tensor(name, (filters, *output)),
        weights=(Tensor(f"{name}.weight", (filters, channels, kernel_rows, kernel_columns)),),
        kernel=(kernel_rows, kernel_columns),
        stride=stride,
    )
    return convolution, given


def _check_macs(name: str, *sizes: int) -> None:
    if prod(sizes) > MOST_MACS:
        raise _Mistake(f"layer '{name}' has {prod(sizes):.1e} multiply-accumulates, more than 2^52: is a size wrong?")

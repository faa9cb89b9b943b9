"""Everything that accelsim raises on purpose.

::

    AccelsimError
    ├── InputError               a value, name or file that cannot be used
    │   ├── UnknownName          no workload, template, scheduler, field … of that name
    │   ├── UnitError            a quantity whose unit is missing, unknown or of the wrong kind
    │   ├── TemplateError        a hardware template with mistakes (all of them, each with its place)
    │   ├── FormatError          a file that is not what its name says, or is cut short
    │   ├── WorkloadError        a graph that is not a workload: cycles, shapes that do not meet, …
    │   │   └── UnsupportedOperator   an operator whose cost is not known
    │   └── MissingExtra         a feature that needs an optional package
    ├── ScheduleError            a schedule that breaks a rule of the notation
    │   ├── OrderError           the computing order is no topological permutation
    │   ├── CutError             cuts out of range, or a DRAM cut that is no fusion cut
    │   ├── TilingNumberError    a tiling number below 1, or one that cannot be realised
    │   ├── TransposeTilingError a fused group cut along a dimension that its transpose exchanges
    │   ├── DramTensorError      the DRAM tensors listed are not those of the schedule
    │   ├── LivingDurationError  a living duration outside its legal range
    │   ├── DramOrderError       an order that the in-order channel could never serve
    │   └── DependencyOrderError a tensor loaded before it was stored, or stored before its inputs
    └── ProgramError             a program that cannot run
        ├── MalformedProgram     ids out of range, negative sizes, overflow of the clock
        ├── MappingError         a tile that the PE array's own buffers cannot hold in any mapping
        ├── BufferOverflow       more bytes alive than the buffer holds
        └── Deadlock             work left and nothing that can start

A message says what, where, how much, and what to do about it. The command line prints any of these without a
traceback and ends with exit status 2.
"""


class AccelsimError(Exception):
    """Root of all errors that accelsim raises on purpose."""


class InputError(AccelsimError):
    """A value, name or file that cannot be used."""


class UnknownName(InputError):
    """A name that nothing answers to; the message gives the nearest ones."""


class UnitError(InputError):
    """A quantity whose unit is missing, unknown or of the wrong kind."""


class TemplateError(InputError):
    """A hardware template with mistakes; the message lists all of them with file, line and column."""


class FormatError(InputError):
    """A file that is not what it should be, or is cut short."""


class WorkloadError(InputError):
    """A graph of operators that is no valid workload."""


class UnsupportedOperator(WorkloadError):
    """An operator whose cost is not known; the message names node, type and shapes."""


class MissingExtra(InputError):
    """A feature that needs an optional package; the message says which extra to install."""


class ScheduleError(AccelsimError):
    """A schedule that breaks a rule of the tensor-centric notation."""


class OrderError(ScheduleError):
    """The computing order is not a topological permutation of the operators."""


class CutError(ScheduleError):
    """A cut lies outside the order, stands twice, or a DRAM cut is not a fusion cut."""


class TilingNumberError(ScheduleError):
    """A tiling number below 1, of the wrong count, or too large for the shapes it cuts."""


class TransposeTilingError(ScheduleError):
    """A fused group is cut along a dimension that a transpose inside it exchanges with the channels."""


class DramTensorError(ScheduleError):
    """The listed DRAM tensors are not exactly those that order and cuts imply."""


class LivingDurationError(ScheduleError):
    """A living duration lies outside the range that its tensor allows."""


class DramOrderError(ScheduleError):
    """A DRAM tensor waits for a position that itself waits for a tensor later in the order."""


class DependencyOrderError(ScheduleError):
    """The DRAM tensor order contradicts the data dependencies."""


class ProgramError(AccelsimError):
    """A program that cannot run to its end."""


class MalformedProgram(ProgramError):
    """A program whose tables contradict themselves."""


class MappingError(ProgramError):
    """A tile that the PE array's own buffers cannot hold in any mapping."""


class BufferOverflow(ProgramError):
    """More bytes are alive at once than a buffer holds."""


class Deadlock(ProgramError):
    """Activities are left and none of them can ever start."""

"""The schedule (LIR): thunks in execution order, in two phases, with buffers as byte offsets.

A thunk names its kind and parameters; `codegen.kernels` builds the kernel of each
kind. Thunks with equal `kernel_key` share one kernel. Control flow is a structured thunk with
sub-schedules whose buffers are in the same arena.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import Any, TypeAlias

from rlx.codegen.loops.nodes import Const, Kernel
from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.ir.lowering import Lowering
from rlx.ir.op import Attrs
from rlx.ir.shape import Extent, Symbol, symbols_of, upper
from rlx.ir.symbols import attribute_symbols
from rlx.ir.types import TensorType


class Phase(enum.Enum):
    """`setup` runs after params change: what depends on params and constants only."""

    SETUP = "setup"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Advance:
    """Increment of an address per step of the enclosing loop at `depth`, which has `steps` steps.

    Rows are contiguous at the extents of a run, not at their bounds: `stride` may be symbolic.
    """

    depth: int
    stride: Extent
    steps: int


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A buffer of a thunk: a byte offset into the arena, and a type.

    Inside loops it may be a row of an array: the offset then counts from step 0.
    """

    offset: int
    type: TensorType
    advances: tuple[Advance, ...] = ()
    label: str = field(default="", compare=False)
    """What a person calls the tensor."""

    @property
    def stop(self) -> int:
        """The first byte after all that the reference may touch."""
        moved = sum(upper(a.stride) * max(a.steps - 1, 0) for a in self.advances)
        return self.offset + moved + self.type.bytes

    def shifted(self, distance: int, type: TensorType) -> BufferRef:
        """Return the reference to `type`, `distance` bytes further."""
        return BufferRef(self.offset + distance, type, self.advances)


@dataclass(frozen=True, slots=True)
class OpenExtents:
    """The types of a kernel whose extents are arguments, and the extents of one thunk.

    Thunks that differ in these numbers alone share the kernel.
    """

    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    is_large: bool
    """True if the work is worth several threads."""
    numbers: tuple[tuple[str, int], ...] = field(compare=False)
    """The extent of each symbol of the types."""


@dataclass(frozen=True, slots=True)
class Thunk:
    """One kernel call.

    `attrs` are the op's attributes; for a `fused` thunk they hold the body graph. `aliased`
    lists (operand, result) positions that share memory: the kernel works in place there.
    `lowering` is the node's record of how it is computed. `known` lists operands, by position,
    all of whose elements are one float: the kernel may hold that instead of taking them.
    """

    kind: str
    attrs: Attrs
    operands: tuple[BufferRef, ...]
    results: tuple[BufferRef, ...]
    phase: Phase
    node: Node = field(compare=False)
    scratch: BufferRef | None = None
    aliased: tuple[tuple[int, int], ...] = ()
    lowering: Lowering | None = None
    known: tuple[tuple[int, Const], ...] = ()
    number: int | None = field(default=None, compare=False)
    """The node's among all of the program (`ir.numbering`); its index where none was given."""
    opened: OpenExtents | None = None

    @property
    def operand_types(self) -> tuple[TensorType, ...]:
        """The types that its kernel is built for."""
        return self.opened.operands if self.opened else tuple(ref.type for ref in self.operands)

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return self.opened.results if self.opened else tuple(ref.type for ref in self.results)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of its types and attributes, sorted by name: i64 arguments of its kernel."""
        types = (*self.operand_types, *self.result_types)
        own = (symbols_of(type.shape) for type in types)
        return tuple(sorted(attribute_symbols(self.attrs).union(*own)))

    @property
    def kernel_key(self) -> tuple[Any, ...]:
        """Equal for thunks that one kernel serves: everything but the offsets."""
        return (
            self.kind,
            self.attrs,
            self.lowering,
            self.operand_types,
            self.result_types,
            self.opened,
            None if self.scratch is None else self.scratch.type,
            self.aliased,
            self.known,
        )

    def passed(self, kernel: Kernel) -> tuple[BufferRef, ...]:
        """Return what its kernel takes: everything, or all but the operands that are known."""
        scratch = () if self.scratch is None else (self.scratch,)
        refs = (*self.operands, *self.results, *scratch)
        if len(kernel.buffers) == len(refs):
            return refs
        known = {position for position, _ in self.known}
        return tuple(ref for position, ref in enumerate(refs) if position not in known)


@dataclass(frozen=True, slots=True)
class LoopThunk:
    """`scan` and `while`: a body run repeatedly in this arena.

    A scan has `steps`, and references inside advance with the step at `depth`. A while
    evaluates `condition`, whose result is at `predicate`, before every trip, makes at most
    `steps` trips if that is not None, and counts them at `trips`.
    """

    node: Node = field(compare=False)
    phase: Phase
    body: tuple[AnyThunk, ...]
    steps: int | None = None
    depth: int = 0
    reverse: bool = False
    condition: tuple[AnyThunk, ...] = ()
    predicate: BufferRef | None = None
    trips: BufferRef | None = None
    number: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BranchThunk:
    """`switch`: exactly one of `branches`, picked by the integer or bool at `selector`.

    Selectors below 0 pick the first, those above the last one.
    """

    node: Node = field(compare=False)
    phase: Phase
    selector: BufferRef
    branches: tuple[tuple[AnyThunk, ...], ...]
    number: int | None = field(default=None, compare=False)


AnyThunk: TypeAlias = Thunk | LoopThunk | BranchThunk


def number_of(thunk: AnyThunk) -> int:
    """Return the number of the thunk's node among all nodes of the program."""
    return thunk.node.index if thunk.number is None else thunk.number


@dataclass(frozen=True, slots=True)
class Schedule:
    """All thunks of one executable, in order."""

    name: str
    thunks: tuple[AnyThunk, ...]
    arena_bytes: int

    def phase(self, phase: Phase) -> tuple[AnyThunk, ...]:
        return tuple(thunk for thunk in self.thunks if thunk.phase is phase)

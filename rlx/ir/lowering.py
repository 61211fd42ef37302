"""Lowering records: the choice of a kernel for a node; its semantics are those of the op.

    %3: f32[8, 384] = matmul %0, %1 lowering = schedule(rows = 8, columns = 32, lanes = 16)

A pass attaches a record where it has chosen among kernels; code generation looks kernels up by
op and kind of record. A record never changes what a node means: the reference interpreter,
derivatives and batching do not look at it, and a pass that replaces a node
drops it. Only a copy, over operands of equal types and with equal attributes, keeps it.

A kind of record is a frozen dataclass, declared with `@record`. Which ops take it, and what must
hold, is registered with the op:

    @lowered_by(matmul, Schedule)
    def matmul_in_tiles(schedule: Schedule, a: TensorType, b: TensorType) -> None: ...
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from rlx.dataclass import dataclass
from rlx.errors import GraphError, InternalError, ShapeError
from rlx.ir.attributes import conform
from rlx.ir.op import Attrs, OpDef
from rlx.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Lowering:
    """Base of the records; `name` is what the text form calls the kind."""

    @property
    def name(self) -> str:
        return record_name(type(self))

    @property
    def calls_library(self) -> bool:
        """True if memory is all that the kernel reads and writes: nothing is fused with it."""
        return False


RECORDS: dict[str, type[Lowering]] = {}
"""Every kind of record by its name in the text form. Filled at import, read-only afterwards."""

Kind = TypeVar("Kind", bound=type[Lowering])
Check: TypeAlias = Callable[..., None]
_CHECKS: dict[tuple[str, type[Lowering]], Check] = {}
_LAYOUTS: dict[tuple[str, type[Lowering]], tuple[int, ...]] = {}


def record_name(kind: type[Lowering]) -> str:
    """Return a class's name in the text form: `one_kernel` for `OneKernel`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def record(kind: Kind) -> Kind:
    """Declare a kind of record; names are unique."""
    name = record_name(kind)
    if name in RECORDS:
        raise InternalError(f"lowering record {name} is declared twice")
    RECORDS[name] = kind
    return kind


def lowered_by(
    definition: OpDef, kind: type[Lowering], *, layouts: tuple[int, ...] = ()
) -> Callable[[Check], Check]:
    """Declare that nodes of an op may have records of `kind`.

    The decorated function raises an RlxError for a record that does not fit: it takes the record
    and the operands' types, and the attributes as keywords. `layouts` lists the operands that may
    have another layout than row-major.
    """

    def register(check: Check) -> Check:
        key = definition.name, kind
        if key in _CHECKS:
            raise InternalError(f"{definition.name} is declared lowered by {kind.__name__} twice")
        _CHECKS[key] = check
        _LAYOUTS[key] = layouts
        return check

    return register


def check_lowering(
    lowering: Lowering, definition: OpDef, operands: tuple[TensorType, ...], attrs: Attrs
) -> None:
    """Raise an RlxError unless a node of `definition` may be computed as `lowering` says."""
    check = _CHECKS.get((definition.name, type(lowering)))
    if check is None:
        kinds = [record_name(kind) for name, kind in _CHECKS if name == definition.name]
        raise GraphError(
            f"{definition.name} has no lowering {lowering.name} "
            f"(has: {', '.join(kinds) or 'none'})",
            remedy="name one that it has, or leave the choice to the passes",
        )
    for name, value in fields_of(lowering).items():
        conform(name, _hints(lowering.name)[name], value)
    check(lowering, *operands, **attrs.as_dict())


def reads_layout(definition: OpDef, lowering: Lowering | None, position: int) -> bool:
    """True if a node may read an operand with this layout."""
    if lowering is None:
        return definition.holds_bodies
    return definition.holds_bodies or position in _LAYOUTS[definition.name, type(lowering)]


def fields_of(lowering: Lowering) -> Mapping[str, Any]:
    """Return the fields of a record by name."""
    return {f.name: getattr(lowering, f.name) for f in dataclasses.fields(lowering)}


@functools.cache
def _hints(name: str) -> dict[str, Any]:
    return typing.get_type_hints(RECORDS[name])


ROWS, PANELS = "rows", "panels"
"""Parts of an item of work, in the order of a schedule: blocks of rows, and groups of panels."""


@record
@dataclass(frozen=True, slots=True)
class Schedule(Lowering):
    """How the loops of a contraction run: its register tile, their order, how operands are read.

        schedule(rows = 12, columns = 32, lanes = 16, order = ("batch", "rows", "panels"))

    The left operand has rows (positions, of a convolution), the right one columns (channels), cut
    into panels. A schedule without `order` is completed by the pass that attaches it. The result
    does not depend on it but for rounding: sums run along the folded axes in their order.
    """

    rows: int = 1
    """Rows of a tile; of a convolution, positions along the last spatial axis but one."""
    columns: int = 1
    """Columns of a tile, which are those of a panel."""
    lanes: int = 1
    """Columns of a vector."""
    across: int = 1
    """Positions of a tile along the last spatial axis of a convolution."""
    order: tuple[str, ...] = ()
    """The outer loops, the last fastest: axes of the result by name, `"rows"` and `"panels"`."""
    blocks: int = 1
    """Equal parts that the tiles down an axis of rows are cut in."""
    groups: int = 1
    """Equal parts that panels are cut in."""
    depth: int = 0
    """Steps of a folded axis between which sums are kept in memory; 0 for all at once."""
    left: Literal["in_place", "copied", "registers"] = "in_place"
    """How the rows of a tile are read: copied first, to memory or for few rows to registers."""
    right: Literal["in_place", "panels"] = "panels"
    """How columns are read: as stored, or from panels that are packed before."""
    prefetch: int = 0
    """Rows of a panel that are prefetched before their use; 0 for none."""
    prefetch_left: bool = False
    """True if the rows of the next tile are prefetched."""
    unroll: int = 0
    """Steps that are unrolled; 0 for four of a small tile, and one of a large."""
    inner: Literal["across", "panels"] = "across"
    """The inner loop of an item: positions along the last spatial axis, or panels."""
    border: Literal["padded", "in_place"] = "padded"
    """How windows that reach outside are computed: over a padded copy, or without their taps."""
    unit: Literal["vectors", "matrix", "squares"] = "vectors"
    """What multiplies: vectors, a matrix unit with tile registers of its own (AMX), or vectors that
    are two rows by two columns (`smmla`)."""
    library: Literal["none", "blas"] = "none"
    """A library that is called in place of all loops."""

    @property
    def calls_library(self) -> bool:
        return self.library != "none"

    def require_tile(self) -> None:
        """Raise a ShapeError for a tile without elements, or of no whole vectors."""
        if self.unit != "vectors":
            raise ShapeError(
                "matrix units multiply words of four bytes alone",
                remedy=f'leave out unit = "{self.unit}"',
            )
        counts = (self.rows, self.across, self.columns, self.lanes, self.blocks, self.groups)
        if min(counts) < 1 or self.columns % self.lanes or min(self.depth, self.unroll) < 0:
            raise ShapeError(
                f"a tile of {self.rows} by {self.across} rows and {self.columns} columns in "
                f"vectors of {self.lanes}, in {self.blocks} blocks and {self.groups} groups, has "
                "no elements, or no whole vectors",
                remedy="give each at least one, and columns that the lanes divide",
            )


@record
@dataclass(frozen=True, slots=True)
class Windowed(Lowering):
    """A depthwise convolution whose taps stay in registers: `lanes` positions of a row at once."""

    lanes: int


@record
@dataclass(frozen=True, slots=True)
class Winograd(Lowering):
    """A Winograd convolution by tiles of `step` by `step` results, some `tiles` at a time.

    Their points are multiplied in register tiles of `rows` by `columns`, in vectors of `lanes`.
    The output channels are computed in `groups`, each of which transforms the tiles again, and
    `workers` have memory of their own.
    """

    step: int
    tiles: int
    rows: int
    columns: int
    lanes: int
    groups: int
    workers: int


@record
@dataclass(frozen=True, slots=True)
class RegisterTranspose(Lowering):
    """A transpose in registers: squares of `lanes` rows of `lanes` elements."""

    lanes: int


@record
@dataclass(frozen=True, slots=True)
class BatchInLanes(Lowering):
    """Short rows sorted by a network: `lanes` of them at once, each in a lane of vectors."""

    lanes: int


@record
@dataclass(frozen=True, slots=True)
class Bitonic(Lowering):
    """Rows sorted by a bitonic network, each in all `lanes` of vectors."""

    lanes: int


@record
@dataclass(frozen=True, slots=True)
class GatherFromPanels(Lowering):
    """Columns that are chosen at run time are read from the panels that a product reads too."""


@record
@dataclass(frozen=True, slots=True)
class OneKernel(Lowering):
    """A loop and its bodies in one kernel, carries in registers or in small local arrays.

    The bodies belong to code generation: no pass touches them again.
    """


@record
@dataclass(frozen=True, slots=True)
class Library(Lowering):
    """A call of a library that is linked."""

    library: Literal["lapack"]

    @property
    def calls_library(self) -> bool:
        return True

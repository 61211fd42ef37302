"""Gathers, scatters and dynamic slices: kernels whose indices are known at run time only.

An index outside its range ends the kernel with a status before anything is accessed through
it. Sums of slices run in ascending order of their position, so that results do not depend on
the number of threads: threads share out columns, never the slices that are added to one.

A large gather checks its indices after its loop, which clamps them: so threads can share the
loop, and the checks stay with one (`codegen.checks`).
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.folds import (
    Fold,
    State,
    across_columns,
    max_fold,
    min_fold,
    prod_fold,
    sum_fold,
)
from rlx.codegen.kernels.parallel import is_large, rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.shape import coordinates
from rlx.codegen.kernels.slices import column_blocks
from rlx.codegen.kernels.values import Complex, Scalar, compute_prim, load, named, parts_of, store
from rlx.codegen.loops.expr import E, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim, Status
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.layout import Panels
from rlx.ir.lowering import GatherFromPanels
from rlx.ir.shape import Extent, normalize_axis, product, upper
from rlx.ir.types import TensorType


def checked_index(scope: Scope, indices: GroupedReader, at: E, size: E, name: str = "index") -> E:
    """Read the index at flat position `at` and leave the kernel if it is not in [0, size)."""
    k = scope.k
    given = k.let(name, indices.read_real(at))
    if not given.type.prim.is_float:
        chosen = given.cast(Prim.I64)
        with k.if_((chosen < 0) | (chosen >= size)):
            k.fail(Status.INDEX_OUT_OF_RANGE, at, chosen, size)
        return chosen
    # Truncation takes everything above -1 to 0 or more; a NaN fails both comparisons.
    wide = given.cast(Prim.F64)
    inside = (wide > -1.0) & (wide < size.cast(Prim.F64))
    with k.if_(~inside):
        k.fail(Status.INDEX_OUT_OF_RANGE, at)
    return k.let(f"whole_{name}", given.cast(Prim.I64))


@kernel("gather")
def gather(scope: Scope, table: Reader, indices: Reader, y: Writer, *, axis: int = 0) -> None:
    """Copy one slice of the table per index."""
    k = scope.k
    axis = normalize_axis(axis, len(table.shape))
    clamps = _checks_last(table, indices, y, axis)
    source = table.grouped(_around(len(table.shape), axis, 1))
    target = y.grouped(_around(len(y.shape), axis, len(indices.shape)))
    chosen = indices.grouped((tuple(range(len(indices.shape))),))
    count = target.extent(1)
    with rows(k, "row", target.extent(0) * count, y.type.elements) as row:
        outer, position = row / count, row % count
        if target.extent_of(0) == 1:
            outer, position = scope.extents(0), row
        if clamps:
            index = clamped_index(scope, chosen, position, source.extent(1))
        else:
            index = checked_index(scope, chosen, position, source.extent(1))
        slice_, result = source.at(outer, index), target.at(outer, position)
        with k.loop("i", result.extent(0), kind=LoopKind.SIMD) as i:
            result.write(i, value=slice_.read(i))
    if clamps:
        with k.loop("position", count) as position:
            checked_index(scope, chosen, position, source.extent(1))


@kernel("gather", lowering=GatherFromPanels)
def gather_from_panels(
    scope: Scope,
    table: Reader,
    indices: Reader,
    y: Writer,
    **_: object,
) -> None:
    """Copy one column of the table per index; panels are whole."""
    k, memory, layout = scope.k, table.memory, table.type.layout
    if memory is None or not isinstance(layout, Panels):
        raise InternalError(f"gather: a table of type {table.type} has no panels in memory")
    depth, size = scope.extents(table.shape[0]), scope.extents(table.shape[1])
    chosen = indices.grouped((tuple(range(len(indices.shape))),))
    target = y.grouped(((0,), tuple(range(1, len(y.shape)))))
    count = target.extent(1)
    with rows(k, "position", count, y.type.elements) as position:
        column = clamped_index(scope, chosen, position, size)
        first = k.let(
            "first", column / layout.width * (depth * layout.width) + column % layout.width
        )
        with k.loop("i", depth) as i:
            target.write(i, position, value=load(k, memory, table.dtype, first + i * layout.width))
    with k.loop("position", count) as position:
        checked_index(scope, chosen, position, size)


_SLICE = 16
"""Elements per index from which a copy takes much longer than the check of its index."""


def _checks_last(table: Reader, indices: Reader, y: Writer, axis: int) -> bool:
    """True for large gathers where any index can be clamped to one in the table."""
    size, slice_ = table.shape[axis], (*table.shape[:axis], *table.shape[axis + 1 :])
    if not isinstance(size, int) or size == 0 or compute_prim(indices.dtype).is_float:
        return False
    return is_large(y.type.elements) and upper(product(slice_)) >= _SLICE


def clamped_index(scope: Scope, indices: GroupedReader, at: E, size: E) -> E:
    """Read an index and move it into [0, size); `checked_index` also checks it."""
    given = indices.read_real(at).cast(Prim.I64)
    return scope.k.let("index", maximum(minimum(given, size - 1), 0))


def _around(rank: int, axis: int, width: int) -> Groups:
    """Group the axes before, in and after `width` axes from `axis` on."""
    axes = tuple(range(rank))
    return axes[:axis], axes[axis : axis + width], axes[axis + width :]


def _scatter(fold_of: Callable[[DType], Fold]) -> Callable[..., None]:
    """Return the kernel that folds slices of updates into slices of the fold's start."""

    def build(
        scope: Scope, updates: Reader, indices: Reader, y: Writer, *, axis: int = 0, **_: object
    ) -> None:
        axis = normalize_axis(axis, len(y.shape))
        source = updates.grouped(_around(len(updates.shape), axis, len(indices.shape)))
        _fold_slices(scope, source, indices, y, axis, across_columns(fold_of(y.dtype)))

    return build


def folds_scratch(*_: TensorType, results: list[TensorType], **__: object) -> int:
    """Folds of 16-bit floats grow in f32 and are rounded once."""
    dtype = results[0].dtype
    single = results[0].bytes // dtype.size * Prim.F32.size
    return single if dtype.is_low_precision else 0


_SCATTERED = {
    "gather_backward": sum_fold,
    "scatter_add": sum_fold,
    "scatter_mul": prod_fold,
    "scatter_max": max_fold,
    "scatter_min": min_fold,
}
for _name, _fold in _SCATTERED.items():
    kernel(_name)(_scatter(_fold))
    scratch(_name)(folds_scratch)


def _fold_slices(
    scope: Scope, source: GroupedReader, indices: Reader, y: Writer, axis: int, fold: Fold
) -> None:
    k = scope.k
    chosen = indices.grouped((tuple(range(len(indices.shape))),))
    groups = _around(len(y.shape), axis, 1)
    target = y.grouped(groups)
    outer, inner = target.extent_of(0), target.extent_of(2)
    stride = scope.extents(inner)
    height = target.extent(1)
    work = product(source.grid.shape) + y.type.elements
    found = _Folded(scope, y, fold)
    with column_blocks(scope, outer, inner, work) as columns:
        base = k.let("base", columns.outer * (height * stride) + columns.start)
        with k.loop("r", height) as r, k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
            found.start(base + r * stride + j)
        with k.loop("n", source.extent(1)) as n:
            index = checked_index(scope, chosen, n, height)
            row = k.let("row", base + index * stride)
            slice_ = source.at(columns.outer, n)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                found.take(row + j, slice_.read(columns.start + j))
        if found.is_scratch:
            with k.loop("r", height) as r, k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                found.round(base + r * stride + j)


class _Folded:
    """The accumulator of a scatter: the result itself, or f32 scratch for 16-bit floats."""

    def __init__(self, scope: Scope, y: Writer, fold: Fold) -> None:
        if y.memory is None:
            raise InternalError("a fold of slices must not have an epilogue")
        self._k = scope.k
        self._fold = fold
        self._result = y.memory
        self._dtype = y.dtype
        self._buffer: Buffer = y.memory
        self.is_scratch = y.dtype.is_low_precision
        if self.is_scratch and y.type.elements != 0:
            self._buffer = scope.scratch_memory

    @property
    def _stored(self) -> DType:
        return DType.F32 if self.is_scratch else self._dtype

    def start(self, at: E) -> None:
        self._set(at, self._fold.start)

    def take(self, at: E, value: Scalar) -> None:
        before = load(self._k, self._buffer, self._stored, at)
        if isinstance(before, Complex):  # both parts are read before one is written
            before = named(self._k, "before", before)
        self._set(at, self._fold.take(parts_of(before), value))

    def _set(self, at: E, state: State) -> None:
        store(self._k, self._buffer, self._stored, at, self._fold.finish(state, at))

    def round(self, at: E) -> None:
        store(self._k, self._result, self._dtype, at, self._k.load(self._buffer, at))


# Blocks at run-time positions


@kernel("dynamic_slice")
def dynamic_slice(
    scope: Scope, x: Reader, starts: Reader, y: Writer, *, sizes: tuple[Extent, ...]
) -> None:
    """Copy a block whose corner is clamped so that it fits."""
    k = scope.k
    corner = _corner(scope, starts, x.shape, sizes)
    if not corner:
        _copy_scalar(scope, x, y)
        return
    source = x.grouped(tuple((axis,) for axis in range(len(x.shape))))
    target = y.grouped((tuple(range(len(sizes) - 1)), (len(sizes) - 1,)))
    with rows(k, "row", target.extent(0), y.type.elements) as row:
        place = coordinates(scope, row, sizes[:-1])
        line = source.at(*(start + at for start, at in zip(corner, place, strict=False)))
        result = target.at(row)
        with k.loop("i", result.extent(0), kind=LoopKind.SIMD) as i:
            result.write(i, value=line.read(corner[-1] + i))


@kernel("dynamic_update_slice")
def dynamic_update_slice(
    scope: Scope, x: Reader, update: Reader, starts: Reader, y: Writer
) -> None:
    """Copy `x` unless it is the result's memory already, and write the block over it."""
    k, rank = scope.k, len(x.shape)
    corner = _corner(scope, starts, x.shape, update.shape)
    if rank == 0:
        _copy_scalar(scope, update, y)
        return
    in_place = x.memory is not None and x.memory.may_alias
    shape = update.shape if in_place else x.shape
    source = x.grouped(vector_groups(x.shape))
    target = y.grouped(tuple((axis,) for axis in range(rank)))
    block = update.grouped(tuple((axis,) for axis in range(rank)))
    with rows(k, "row", scope.extents(product(shape[:-1])), product(shape)) as row:
        place = coordinates(scope, row, shape[:-1])
        inner = place if in_place else [at - c for at, c in zip(place, corner, strict=False)]
        line = [at + c for at, c in zip(place, corner, strict=False)] if in_place else place
        result = target.at(*line)
        if not in_place:
            before = source.at(row)
            with k.loop("i", source.extent(1), kind=LoopKind.SIMD) as i:
                result.write(i, value=before.read(i))
        width = scope.extents(update.shape[-1])
        if not in_place:
            width = k.let("width", select(_inside(scope, inner, update.shape), width, 0))
        with k.loop("i", width, kind=LoopKind.SIMD) as i:
            result.write(corner[-1] + i, value=block.read(*inner, i))


def _corner(
    scope: Scope, starts: Reader, whole: tuple[Extent, ...], block: tuple[Extent, ...]
) -> list[E]:
    """Name the block's first coordinates, clamped so that it fits into `whole`."""
    given = starts.grouped(((0,),))
    corner: list[E] = []
    for axis, (extent, size) in enumerate(zip(whole, block, strict=True)):
        most = scope.extents(extent - size)
        start = given.read_real(scope.extents(axis)).cast(Prim.I64)
        corner.append(scope.k.let(f"start_{axis}", maximum(minimum(start, most), 0)))
    return corner


def _inside(scope: Scope, place: list[E], shape: tuple[Extent, ...]) -> E:
    inside = scope.extents(0).eq(0)
    for at, extent in zip(place, shape, strict=False):
        inside = inside & (at >= 0) & (at < scope.extents(extent))
    return inside


def _copy_scalar(scope: Scope, x: Reader, y: Writer) -> None:
    y.grouped(((),)).write(scope.extents(0), value=x.grouped(((),)).read(scope.extents(0)))

"""Ragged products: the tiles of one group of rows after the other, or plain loops.

Groups and columns are shared by threads; which rows a group has is read from its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Iteration, TileAxes
from rlx.codegen.kernels.contraction.operands import ComputedRows
from rlx.codegen.kernels.contraction.spans import Axis, Number, Range, items
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import accumulate_of, multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.fold_maps import FoldMap
from rlx.ir.index_maps import along
from rlx.ir.lowering import PANELS, Schedule
from rlx.ir.shape import Extent, Shape, floor_divide, product, upper

Axes: TypeAlias = tuple[int, ...]

_COLUMNS = 64
"""Columns of a block of the plain loops."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Which rows the groups have."""

    scope: Scope
    bounds: GroupedReader
    rows: E

    @classmethod
    def of(cls, scope: Scope, bounds: Reader, x: Reader) -> _Groups:
        return cls(scope, bounds.grouped(((0,),)), scope.extents(x.shape[0]))

    def of_group(self, outer: Sequence[E]) -> Range:
        """Return where the rows of a group start and stop."""
        (group,) = outer
        return self._bound("first_row", group), self._bound("end_row", group + 1)

    def or_clear(self, y: Writer, group: E, block: E) -> Range:
        """Return the same; one group more has no rows, and stores 0 in the rows of no group."""
        k, last, target = self.scope.k, self.bounds.extent(0) - 1, y.grouped(((0,), (1,)))
        with k.if_(group.eq(last) & block.eq(0)):
            first, end = self._bound("first", index(0)), self._bound("end", last)
            for start, stop in ((index(0), first), (end, self.rows)):
                with k.loop("row", stop, start=start) as row, k.loop("j", target.extent(1)) as j:
                    target.write(row, j, value=const(0, compute_prim(y.dtype)))
        end = self._bound("end_row", minimum(group + 1, last))
        return self._bound("first_row", group), end

    def _bound(self, name: str, at: E) -> E:
        given = self.bounds.read_real(at).cast(Prim.I64)
        return self.scope.k.let(name, minimum(maximum(given, 0), self.rows))


@kernel("ragged_matmul", lowering=Schedule)
def ragged_matmul_in_tiles(
    scope: Scope, x: Reader, w: Reader, bounds: Reader, y: Writer, *, lowering: Schedule
) -> None:
    """Tiles of the rows of a group by panels of its matrix."""
    groups, (rows, steps) = _Groups.of(scope, bounds, x), x.shape
    found = _map((w.shape[0] + 1, rows, w.shape[2]), steps, x=(1, 3), other=(0, 3, 2))
    store = ColumnStore(scope.k, y.grouped(((0,), (1,))), (1,))
    rows_of = lambda at: groups.or_clear(y, at["group"], at[PANELS])  # noqa: E731
    _in_tiles(scope, found, x, w, store, lowering, rows_of=rows_of)


@kernel("ragged_outer", lowering=Schedule)
def ragged_outer_in_tiles(
    scope: Scope, x: Reader, y: Reader, bounds: Reader, out: Writer, *, lowering: Schedule
) -> None:
    """Tiles of a group's result, summed over the rows of the group."""
    found = _map(out.shape, x.shape[0], x=(3, 1), other=(3, 2))
    store = ColumnStore(scope.k, out.grouped(((0,), (1,), (2,))), (0, 1))
    steps_of = _Groups.of(scope, bounds, x).of_group
    _in_tiles(scope, found, x, y, store, lowering, steps_of=steps_of)


def _map(outer: Shape, folded: Extent, *, x: Axes, other: Axes) -> FoldMap:
    """Return what is summed: which axes of (group, row, column, step) index each operand."""
    positions = tuple(tuple(along(axis, 4) for axis in axes) for axes in (x, other))
    return FoldMap((folded,), positions, outer)


def _in_tiles(
    scope: Scope,
    found: FoldMap,
    x: Reader,
    other: Reader,
    store: ColumnStore,
    schedule: Schedule,
    *,
    rows_of: Callable[[Mapping[str, E]], Range] | None = None,
    steps_of: Callable[[Sequence[E]], Range] | None = None,
) -> None:
    """Build the tiles: rows or steps of a group run along the rows of `x`."""
    group, row, _ = found.outer
    iteration = Iteration(scope, found, TileAxes({"group": (0,)}, (1,), (), 2, ("p",)))
    prim = compute_prim(x.dtype)
    Tiles(
        scope.k,
        scope.extents,
        [("group", group)],
        Axis("row", row, schedule.rows, overlaps=False, is_ragged=rows_of is not None),
        Axis("column"),
        iteration.steps,
        ComputedRows(x.grouped(((0,), (1,))), x.prim, steps_of is not None, 0),
        iteration.panels(other, schedule.columns, ahead=schedule.prefetch),
        store,
        prim,
        accumulate_of(found.combine, other.prim),
        schedule,
        rows_of=rows_of,
        steps_of=steps_of,
    ).compute(product_loop(product((*x.shape, other.shape[-1]))))


@kernel("ragged_matmul")
def ragged_matmul(scope: Scope, x: Reader, w: Reader, bounds: Reader, y: Writer) -> None:
    """Compute each row of a group, some columns at a time."""
    k, groups, prim = scope.k, _Groups.of(scope, bounds, x), compute_prim(y.dtype)
    source, target = x.grouped(((0,), (1,))), y.grouped(((0,), (1,)))
    stack = w.grouped(((0,), (1,), (2,)))
    work, parts = product((*x.shape, w.shape[-1])), [("group", w.shape[0] + 1)]
    with _each_block(scope, parts, y, work) as (outer, block, columns):
        start, stop = groups.or_clear(y, outer[0], block)
        matrix, steps = stack.at(*outer), (index(0), source.extent(1))
        with k.loop("row", stop, start=start) as row:
            _sum(scope, source.at(row), matrix, target.at(row), columns, steps, _width(y), prim)


@kernel("ragged_outer")
def ragged_outer(scope: Scope, x: Reader, y: Reader, bounds: Reader, out: Writer) -> None:
    """Compute each row of a group's result, some columns at a time."""
    groups, source = _Groups.of(scope, bounds, x), y.grouped(((0,), (1,)))
    prim = compute_prim(out.dtype)
    target = out.grouped(((0,), (1,), (2,)))
    rows = [("group", out.shape[0]), ("row", out.shape[1])]
    work, width = product((*x.shape, y.shape[-1])), _width(out)
    with _each_block(scope, rows, out, work) as (outer, _, columns):
        column, steps = x.grouped(((1,), (0,))).at(outer[1]), groups.of_group(outer[:1])
        _sum(scope, column, source, target.at(*outer), columns, steps, width, prim)


@contextmanager
def _each_block(
    scope: Scope, outer: Sequence[tuple[str, Extent]], out: Writer, work: Extent
) -> Iterator[tuple[list[E], E, Range]]:
    """Loop over the outer axes and blocks of the result's columns."""
    k, columns = scope.k, scope.extents(out.shape[-1])
    width = _width(out)
    counts: list[tuple[str, Number]] = [(name, scope.extents.number(n)) for name, n in outer]
    blocks = scope.extents.number(floor_divide(out.shape[-1] + (width - 1), width))
    with items(k, [*counts, ("block", blocks)], product_loop(work)) as at:
        first = k.let("first", at["block"] * width)
        yield (
            [at[name] for name, _ in outer],
            at["block"],
            (first, k.let("count", minimum(columns - first, width))),
        )


def _width(out: Writer) -> int:
    return max(1, min(_COLUMNS, upper(out.shape[-1])))


def _sum(
    scope: Scope,
    factors: GroupedReader,
    matrix: GroupedReader,
    target: GroupedWriter,
    columns: Range,
    steps: Range,
    width: int,
    prim: Prim,
) -> None:
    """Sum factors times rows of a matrix over some steps, for the columns of a block."""
    k, (first, count) = scope.k, columns
    sums = k.local("sums", prim, width)
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        k.store(sums, j, const(0, prim))
    with k.loop("p", steps[1], start=steps[0]) as p:
        factor = k.let("factor", factors.read_real(p))
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            weight = matrix.read_real(p, first + j)
            k.store(sums, j, multiply_add(factor, weight, k.load(sums, j)))
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        target.write(first + j, value=k.load(sums, j))

"""Ragged products: the tiles of one group of rows after the other, or plain loops.

Groups and columns are shared by threads; which rows a group has is read from its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Iteration, TileAxes
from rlx.codegen.kernels.contraction.operands import ComputedRows
from rlx.codegen.kernels.contraction.plain import contract
from rlx.codegen.kernels.contraction.spans import Axis, Range
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import Prim
from rlx.dataclass import dataclass
from rlx.ir.fold_maps import FoldMap
from rlx.ir.index_maps import along
from rlx.ir.lowering import PANELS, Schedule
from rlx.ir.shape import product, upper

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

    def of_group(self, group: E) -> Range:
        """Return where the rows of a group start and stop."""
        return self._bound("first_row", group), self._bound("end_row", group + 1)

    def or_clear(self, y: Writer, group: E, panels: E | None = None) -> Range:
        """Return the same; one group more has no rows, and stores 0 in the rows of no group.

        Of several groups of `panels` the first does so.
        """
        k, last, target = self.scope.k, self.bounds.extent(0) - 1, y.grouped(((0,), (1,)))
        is_last = group.eq(last)
        with k.if_(is_last if panels is None else is_last & panels.eq(0)):
            k.comment("Rows before the first group, and after the last, are 0.")
            first, end = self._bound("first", index(0)), self._bound("end", last)
            for start, stop in ((index(0), first), (end, self.rows)):
                with k.loop("row", stop, start=start) as row, k.loop("j", target.extent(1)) as j:
                    target.write(row, j, value=const(0, compute_prim(y.dtype)))
        return self._bound("first_row", group), self._bound("end_row", minimum(group + 1, last))

    def _bound(self, name: str, at: E) -> E:
        given = self.bounds.read_real(at).cast(Prim.I64)
        return self.scope.k.let(name, minimum(maximum(given, 0), self.rows))


def _rows_by_matrices(x: Reader, w: Reader) -> FoldMap:
    """Return the map over (group, row, column, step), of one group more than there are."""
    (rows, steps), group, (row, column, step) = (
        x.shape,
        along(0, 4),
        (along(n, 4) for n in (1, 2, 3)),
    )
    positions = (row, step), (group, step, column)
    return FoldMap((steps,), positions, (w.shape[0] + 1, rows, w.shape[2]), is_grouped=True)


def _rows_by_rows(x: Reader, out: Writer) -> FoldMap:
    """Return the map over (group, row, column, step) of a result for every group."""
    row, column, step = (along(n, 4) for n in (1, 2, 3))
    return FoldMap(x.shape[:1], ((step, row), (step, column)), out.shape)


@kernel("ragged_matmul", lowering=Schedule)
def ragged_matmul_in_tiles(
    scope: Scope, x: Reader, w: Reader, bounds: Reader, y: Writer, *, lowering: Schedule
) -> None:
    """Tiles of the rows of a group by panels of its matrix."""
    groups, store = (
        _Groups.of(scope, bounds, x),
        ColumnStore(scope.k, y.grouped(((0,), (1,))), (1,)),
    )
    rows_of = lambda at: groups.or_clear(y, at["group"], at[PANELS])  # noqa: E731
    _in_tiles(scope, _rows_by_matrices(x, w), x, w, store, lowering, rows_of=rows_of)


@kernel("ragged_outer", lowering=Schedule)
def ragged_outer_in_tiles(
    scope: Scope, x: Reader, y: Reader, bounds: Reader, out: Writer, *, lowering: Schedule
) -> None:
    """Tiles of a group's result, summed over the rows of the group."""
    groups = _Groups.of(scope, bounds, x)
    store = ColumnStore(scope.k, out.grouped(((0,), (1,), (2,))), (0, 1))
    steps_of = lambda outer: groups.of_group(*outer)  # noqa: E731
    _in_tiles(scope, _rows_by_rows(x, out), x, y, store, lowering, steps_of=steps_of)


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
    groups = _Groups.of(scope, bounds, x)
    found, rows_of = _rows_by_matrices(x, w), lambda point: groups.or_clear(y, point[0])
    contract(scope, x, w, y, width=_width(y), found=found, ranges={1: rows_of})


@kernel("ragged_outer")
def ragged_outer(scope: Scope, x: Reader, y: Reader, bounds: Reader, out: Writer) -> None:
    """Compute each row of a group's result, some columns at a time."""
    groups = _Groups.of(scope, bounds, x)
    found, steps_of = _rows_by_rows(x, out), lambda point: groups.of_group(point[0])
    contract(scope, x, y, out, width=_width(out), found=found, ranges={3: steps_of})


def _width(out: Writer) -> int:
    return max(1, min(_COLUMNS, upper(out.shape[-1])))

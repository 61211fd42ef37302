"""Prefix sums: running sums, products and extrema along any axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.accumulators import accumulators, assign, fill, loaded, local_state, stored
from rlx.codegen.kernels.folds import (
    Fold,
    State,
    across_columns,
    max_fold,
    min_fold,
    prod_fold,
    sum_fold,
)
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import Columns, Slices, column_blocks, slices
from rlx.codegen.kernels.values import compute_prim, named
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.ir.dtype import DType


@kernel("cumsum")
def cumsum(
    scope: Scope,
    x: Reader,
    y: Writer,
    *,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
) -> None:
    """Write the sum up to each element; without the element itself if `exclusive`."""
    fold = sum_fold(x.dtype)
    if not exclusive and not x.dtype.is_int:
        fold = replace(fold, start=(const(-0.0, compute_prim(x.dtype)),) * len(fold.names))
    _running(scope, x, y, fold, axis=axis, exclusive=exclusive, reverse=reverse)


def _along(fold_of: Callable[[DType], Fold]) -> Callable[..., None]:
    """Return the kernel that writes the fold of all elements up to each."""

    def build(scope: Scope, x: Reader, y: Writer, *, axis: int, reverse: bool = False) -> None:
        _running(scope, x, y, across_columns(fold_of(x.dtype)), axis=axis, reverse=reverse)

    return build


for _name, _fold in {"cumprod": prod_fold, "cummax": max_fold, "cummin": min_fold}.items():
    kernel(_name)(_along(_fold))


def _running(
    scope: Scope,
    x: Reader,
    y: Writer,
    fold: Fold,
    *,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
) -> None:
    split = slices(x.shape, axis)
    run = _rows if split.are_rows else _columns
    run(scope, x, y, split, fold, exclusive=exclusive, reverse=reverse)


def _rows(
    scope: Scope, x: Reader, y: Writer, split: Slices, fold: Fold, *, exclusive: bool, reverse: bool
) -> None:
    k = scope.k
    source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        total = accumulators(k, fold)
        with k.loop("i", x_row.extent(0)) as step:
            i = k.let("at", x_row.extent(0) - 1 - step) if reverse else step
            value = named(k, "value", x_row.read(i))
            after = fold.take(tuple(total), value)
            if exclusive:
                y_row.write(i, value=fold.finish(tuple(total), i))
            assign(k, fold, total, after)
            if not exclusive:
                y_row.write(i, value=fold.finish(tuple(total), i))


def _columns(
    scope: Scope, x: Reader, y: Writer, split: Slices, fold: Fold, *, exclusive: bool, reverse: bool
) -> None:
    k = scope.k
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    with column_blocks(scope, split.outer, split.inner, x.type.elements) as columns:
        total = local_state(k, fold, columns.most)
        fill(k, fold, total, columns.width)
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        with k.loop("r", x_block.extent(0)) as step:
            r = k.let("at", x_block.extent(0) - 1 - step) if reverse else step
            _line(scope, x_block.at(r), y_block.at(r), fold, total, columns, exclusive=exclusive)


def _line(
    scope: Scope,
    x: GroupedReader,
    y: GroupedWriter,
    fold: Fold,
    total: Sequence[Buffer],
    columns: Columns,
    *,
    exclusive: bool,
) -> None:
    k = scope.k
    with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
        before = _state(scope, total, j)
        after = fold.take(before, named(k, "value", x.read(columns.start + j)))
        after = tuple(k.let("after", part) for part in after)
        stored(k, fold, total, j, after)
        y.write(columns.start + j, value=fold.finish(before if exclusive else after, j))


def _state(scope: Scope, total: Sequence[Buffer], j: E) -> State:
    return tuple(scope.k.let("before", part) for part in loaded(scope.k, total, j))

"""Prefix sums: running sums, products and extrema along any axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.accumulators import fill, loaded, local_state, stored
from rlx.codegen.kernels.folds import (
    Fold,
    across_columns,
    max_fold,
    min_fold,
    prod_fold,
    sum_fold,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import column_blocks, slices
from rlx.codegen.kernels.values import compute_prim, named
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import LoopKind
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
    k, split = scope.k, slices(x.shape, axis)
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    with column_blocks(scope, split.outer, split.inner, x.type.elements) as columns:
        total = local_state(k, fold, columns.most)
        fill(k, fold, total, columns.width)
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        with k.loop("r", x_block.extent(0)) as step:
            r = k.let("at", x_block.extent(0) - 1 - step) if reverse else step
            x_line, y_line = x_block.at(r), y_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                before = tuple(k.let("before", part) for part in loaded(k, total, j))
                after = fold.take(before, named(k, "value", x_line.read(columns.start + j)))
                after = tuple(k.let("after", part) for part in after)
                stored(k, fold, total, j, after)
                result = fold.finish(before if exclusive else after, j)
                y_line.write(columns.start + j, value=result)

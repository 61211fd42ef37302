"""Softmax and log-softmax along any axis.

Three passes over a slice that stays in the cache: its maximum, the exponentials and their sum,
the quotient. The exponentials wait in the result where nothing follows the softmax, else in a
local array, so that each is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.accumulators import fill, loaded, local_state, stored
from rlx.codegen.kernels.folds import peak_fold, sum_fold
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import (
    COLUMN_CHUNK,
    ROW_CHUNK,
    chunks,
    fold_columns,
    fold_row,
    streams_for,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import Columns, Slices, column_blocks, slices
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind
from rlx.codegen.loops.scalar import scalar_function
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, upper

Keep: TypeAlias = Callable[[E, E], None]
"""Takes an index and the exponential there."""

LOCAL_ROW = 8192
"""Elements of a row that a kernel keeps on the stack: 32 KiB of f32."""


@kernel("softmax")
def softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None:
    """`exp(x - max) / sum(exp(x - max))` along `axis`."""
    split = slices(x.shape, axis)
    (_softmax_rows if split.are_rows else _softmax_columns)(scope, x, y, split)


@kernel("log_softmax")
def log_softmax(scope: Scope, x: Reader, y: Writer, *, axis: int) -> None:
    """`x - max - log(sum(exp(x - max)))` along `axis`."""
    split = slices(x.shape, axis)
    (_log_softmax_rows if split.are_rows else _log_softmax_columns)(scope, x, y, split)


# Rows


def _softmax_rows(scope: Scope, x: Reader, y: Writer, split: Slices) -> None:
    k = scope.k
    source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        largest = row_peak(scope, x, x_row)
        cache = _row_cache(scope, x, y, y_row, split.length)
        total = exponential_sum(scope, x_row, largest, cache.keep)
        scale = k.let("scale", 1.0 / total)
        with k.loop("i", y_row.extent(0), kind=LoopKind.SIMD) as i:
            weight = cache.weight(i) if cache.weight else exponential(x_row, i, largest)
            y_row.write(i, value=weight * scale)


def _log_softmax_rows(scope: Scope, x: Reader, y: Writer, split: Slices) -> None:
    k = scope.k
    source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        largest = row_peak(scope, x, x_row)
        total = exponential_sum(scope, x_row, largest)
        log_sum = k.let("log_sum", scalar_function("log")(total))
        with k.loop("i", y_row.extent(0), kind=LoopKind.SIMD) as i:
            y_row.write(i, value=x_row.read_real(i) - largest - log_sum)


def row_peak(scope: Scope, x: Reader, x_row: GroupedReader) -> E:
    """Name the largest element of a row."""
    fold = peak_fold(x.dtype)
    streams = streams_for(x, x_row.extent_of(0), fold)
    return scope.k.let("largest", fold_row(scope, x_row, fold, streams=streams)[0])


def exponential(x_row: GroupedReader, i: E, largest: E) -> E:
    """Return `exp(x[i] - largest)`."""
    return exp_weight(x_row.read_real(i) - largest)


def exponential_sum(scope: Scope, x_row: GroupedReader, largest: E, keep: Keep | None = None) -> E:
    """Sum the exponentials of a row, a long one by chunks; `keep` is given each of them."""
    k = scope.k
    length = x_row.extent_of(0)
    if upper(length) <= ROW_CHUNK:
        return _sum_between(k, x_row, largest, (scope.extents(0), x_row.extent(0)), keep)
    total = k.mutable("total", const(0.0, largest.type.prim))
    with chunks(scope, length, ROW_CHUNK) as bounds:
        total.set(total + _sum_between(k, x_row, largest, bounds, keep))
    return total


def _sum_between(
    k: KernelBuilder, x_row: GroupedReader, largest: E, bounds: tuple[E, E], keep: Keep | None
) -> Mutable:
    start, stop = bounds
    total = k.mutable("sum", const(0.0, largest.type.prim))
    folded = [(total, BinaryOp.ADD)]
    with k.loop("i", stop, start=start, kind=LoopKind.SIMD, accumulators=folded) as i:
        weight = exponential(x_row, i, largest)
        if keep is not None:
            weight = k.let("weight", weight)
            keep(i, weight)
        total.set(total + weight)
    return total


@dataclass(frozen=True, slots=True)
class RowCache:
    """Where the exponentials of a row wait for their sum; nowhere if they are recomputed."""

    keep: Keep | None = None
    weight: Callable[[E], E] | None = None


def _row_cache(
    scope: Scope, x: Reader, y: Writer, y_row: GroupedWriter, length: Extent
) -> RowCache:
    if y.memory is not None and not y.dtype.is_low_precision:
        return RowCache(lambda i, weight: y_row.write(i, value=weight), y_row.written)
    if upper(length) > LOCAL_ROW:
        return RowCache()
    k = scope.k
    buffer = k.local("weights", x.prim, upper(length))
    return RowCache(lambda i, weight: k.store(buffer, i, weight), lambda i: k.load(buffer, i))


# Columns


def _softmax_columns(scope: Scope, x: Reader, y: Writer, split: Slices) -> None:
    k = scope.k
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    cached = y.memory is not None and not y.dtype.is_low_precision
    elements = x.type.elements
    with column_blocks(scope, split.outer, split.inner, elements, kept=split.length) as columns:
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        keep = y_block if cached else None
        largest, total = _column_sums(scope, x_block, x.dtype, columns, keep)
        with k.loop("r", x_block.extent(0)) as r:
            x_line, y_line = x_block.at(r), y_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j
                peak = k.load(largest, j)
                weight = y_line.written(at) if cached else exponential(x_line, at, peak)
                y_line.write(at, value=weight / k.load(total, j))


def _log_softmax_columns(scope: Scope, x: Reader, y: Writer, split: Slices) -> None:
    k = scope.k
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    elements = x.type.elements
    with column_blocks(scope, split.outer, split.inner, elements, kept=split.length) as columns:
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        largest, total = _column_sums(scope, x_block, x.dtype, columns)
        with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
            k.store(total, j, scalar_function("log")(k.load(total, j)))
        with k.loop("r", x_block.extent(0)) as r:
            x_line, y_line = x_block.at(r), y_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j
                shifted = x_line.read_real(at) - k.load(largest, j)
                y_line.write(at, value=shifted - k.load(total, j))


def _column_sums(
    scope: Scope,
    x: GroupedReader,
    dtype: DType,
    columns: Columns,
    keep: GroupedWriter | None = None,
) -> tuple[Buffer, Buffer]:
    """Return local arrays of each column's maximum and sum of exponentials."""
    k = scope.k
    peak, sum_ = peak_fold(dtype), sum_fold(dtype)
    (largest,), total = local_state(k, peak, columns.most), local_state(k, sum_, columns.most)
    fill(k, peak, [largest], columns.width)
    fill(k, sum_, total, columns.width)
    fold_columns(scope, x, peak, [largest], columns)
    is_long = upper(x.extent_of(0)) > 2 * COLUMN_CHUNK
    part = local_state(k, sum_, columns.most, "part_") if is_long else total
    with ExitStack() as stack:
        bounds = scope.extents(0), x.extent(0)
        if is_long:
            bounds = stack.enter_context(chunks(scope, x.extent_of(0), COLUMN_CHUNK))
            fill(k, sum_, part, columns.width)
        with k.loop("r", bounds[1], start=bounds[0]) as r:
            line, kept = x.at(r), None if keep is None else keep.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j
                weight = k.let("weight", exponential(line, at, k.load(largest, j)))
                if kept is not None:
                    kept.write(at, value=weight)
                stored(k, sum_, part, j, sum_.take(loaded(k, part, j), weight))
        if is_long:
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                stored(k, sum_, total, j, sum_.join(loaded(k, total, j), loaded(k, part, j)))
    return largest, total[0]

"""Layer and root-mean-square normalization along any axis.

Statistics are taken in two passes: the mean, then the mean of the centered squares. The slice
stays in the cache between them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.accumulators import fill, local_state
from rlx.codegen.kernels.folds import sum_fold
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import fold_columns, fold_row, streams_for
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import Columns, Slices, column_blocks, slices
from rlx.codegen.kernels.values import Scalar, converted, real
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer, LoopKind, UnaryOp
from rlx.ir.dtype import DType

WHOLE = ((0,),)
"""The groups of a vector along the normalized axis."""


@kernel("layer_norm")
def layer_norm(
    scope: Scope, x: Reader, gamma: Reader, beta: Reader, y: Writer, *, axis: int, eps: float
) -> None:
    """`(x - mean) / sqrt(variance + eps) * gamma + beta`."""
    split = slices(x.shape, axis)
    build = _layer_norm_rows if split.are_rows else _layer_norm_columns
    build(scope, (x, gamma, beta), y, split, eps)


@kernel("rms_norm")
def rms_norm(
    scope: Scope,
    x: Reader,
    gamma: Reader,
    *rest: Reader | Writer,
    axis: int,
    eps: float,
) -> None:
    """`x / sqrt(mean(x * x) + eps) * gamma`, plus `beta` if it is given."""
    *beta, y = rest
    assert isinstance(y, Writer)  # the result follows the operands
    split = slices(x.shape, axis)
    build = _rms_norm_rows if split.are_rows else _rms_norm_columns
    build(scope, (x, gamma, *(b for b in beta if isinstance(b, Reader))), y, split, eps)


def _layer_norm_rows(
    scope: Scope, operands: tuple[Reader, ...], y: Writer, split: Slices, eps: float
) -> None:
    k = scope.k
    x, gamma, beta = operands
    source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    scale, shift = gamma.grouped(WHOLE), beta.grouped(WHOLE)
    count = converted(scope.extents(split.length), x.prim)
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        mean = k.let("mean", _row_sum(scope, x, x_row) / count)
        variance = k.let("variance", _row_sum(scope, x, x_row, center=mean) / count)
        inverse = k.let("inverse_deviation", inverse_root(variance + eps))
        with k.loop("i", x_row.extent(0), kind=LoopKind.SIMD) as i:
            normalized = (x_row.read_real(i) - mean) * inverse
            y_row.write(i, value=normalized * scale.read_real(i) + shift.read_real(i))


def _rms_norm_rows(
    scope: Scope, operands: tuple[Reader, ...], y: Writer, split: Slices, eps: float
) -> None:
    k = scope.k
    x, gamma, *beta = operands
    source, target = x.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    vectors = [vector.grouped(WHOLE) for vector in (gamma, *beta)]
    count = converted(scope.extents(split.length), x.prim)
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        mean_square = _row_sum(scope, x, x_row, square=True) / count
        inverse = k.let("inverse_root", inverse_root(mean_square + eps))
        with k.loop("i", x_row.extent(0), kind=LoopKind.SIMD) as i:
            normalized = x_row.read_real(i) * inverse
            y_row.write(i, value=_affine(normalized, vectors, i))


def _row_sum(
    scope: Scope, x: Reader, x_row: GroupedReader, *, center: E | None = None, square: bool = False
) -> E:
    """Sum a row, its squares, or its squared distances from `center`."""
    k = scope.k
    fold = sum_fold(x.dtype)
    streams = streams_for(x, x_row.extent_of(0), fold)

    def prepare(value: Scalar) -> Scalar:
        if center is not None:
            distance = k.let("centered", real(value) - center)
            return distance * distance
        if square:
            element = k.let("value", real(value))
            return element * element
        return value

    return fold_row(scope, x_row, fold, streams=streams, prepare=prepare)[0]


def _layer_norm_columns(
    scope: Scope, operands: tuple[Reader, ...], y: Writer, split: Slices, eps: float
) -> None:
    k = scope.k
    x, gamma, beta = operands
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    scale, shift = gamma.grouped(WHOLE), beta.grouped(WHOLE)
    count = converted(scope.extents(split.length), x.prim)
    with _blocks(scope, x, split) as columns:
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        mean = _column_sum(scope, "mean", x_block, x.dtype, columns)
        _update(scope, mean, columns, lambda total: total / count)
        inverse = _column_sum(scope, "inverse", x_block, x.dtype, columns, center=mean)
        _update(scope, inverse, columns, lambda total: inverse_root(total / count + eps))
        with k.loop("r", x_block.extent(0)) as r:
            x_line, y_line = x_block.at(r), y_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j
                centered = x_line.read_real(at) - k.load(mean, j)
                normalized = centered * k.load(inverse, j)
                y_line.write(at, value=normalized * scale.read_real(r) + shift.read_real(r))


def _rms_norm_columns(
    scope: Scope, operands: tuple[Reader, ...], y: Writer, split: Slices, eps: float
) -> None:
    k = scope.k
    x, gamma, *beta = operands
    source, target = x.grouped(split.groups), y.grouped(split.groups)
    vectors = [vector.grouped(WHOLE) for vector in (gamma, *beta)]
    count = converted(scope.extents(split.length), x.prim)
    with _blocks(scope, x, split) as columns:
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        inverse = _column_sum(scope, "inverse", x_block, x.dtype, columns, square=True)
        _update(scope, inverse, columns, lambda total: inverse_root(total / count + eps))
        with k.loop("r", x_block.extent(0)) as r:
            x_line, y_line = x_block.at(r), y_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                at = columns.start + j
                normalized = x_line.read_real(at) * k.load(inverse, j)
                y_line.write(at, value=_affine(normalized, vectors, r))


def _blocks(scope: Scope, x: Reader, split: Slices) -> AbstractContextManager[Columns]:
    """Loop over blocks of columns, which are read once for each statistic and once more."""
    elements = x.type.elements
    return column_blocks(scope, split.outer, split.inner, elements, kept=split.length)


def _column_sum(
    scope: Scope,
    name: str,
    x: GroupedReader,
    dtype: DType,
    columns: Columns,
    *,
    center: Buffer | None = None,
    square: bool = False,
) -> Buffer:
    """Return a local array of sums: of the elements, their squares, or distances squared."""
    k = scope.k
    fold = replace(sum_fold(dtype), names=(name,))
    (total,) = local_state(k, fold, columns.most)
    fill(k, fold, [total], columns.width)

    def prepare(j: E, value: Scalar) -> Scalar:
        if center is not None:
            distance = k.let("centered", real(value) - k.load(center, j))
            return distance * distance
        if square:
            element = k.let("value", real(value))
            return element * element
        return value

    fold_columns(scope, x, fold, [total], columns, prepare=prepare)
    return total


def _update(scope: Scope, buffer: Buffer, columns: Columns, change: Callable[[E], E]) -> None:
    with scope.k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
        scope.k.store(buffer, j, change(scope.k.load(buffer, j)))


def inverse_root(value: E) -> E:
    """Return `1 / sqrt(value)`, rounded twice and no worse."""
    return 1.0 / value.unary(UnaryOp.SQRT)


def _affine(value: E, vectors: list[GroupedReader], at: E) -> E:
    gamma, *beta = vectors
    scaled = value * gamma.read_real(at)
    return scaled + beta[0].read_real(at) if beta else scaled

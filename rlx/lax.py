"""JAX's array operators under their names and with their arguments: `rlx.lax.dynamic_slice_in_dim`.

Most are functions of `rlx.numpy` by another name. Operands promote as they do there, where JAX
asks for equal types. Loops, branches and collective operations are those of `rlx`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.ops.conv_geometry import same_padding
from rlx.nn.activations import erf as erf
from rlx.nn.activations import sigmoid
from rlx.numpy import cumulative, elementwise, indexing, reductions, shaping, sorting
from rlx.numpy.axes import static_shape
from rlx.numpy.convolutions import ConvDimensionNumbers as ConvDimensionNumbers
from rlx.numpy.convolutions import conv as conv
from rlx.numpy.convolutions import conv_dimension_numbers as conv_dimension_numbers
from rlx.numpy.convolutions import conv_general_dilated as conv_general_dilated
from rlx.numpy.convolutions import conv_transpose as conv_transpose
from rlx.numpy.convolutions import conv_with_general_padding as conv_with_general_padding
from rlx.numpy.dimension_numbers import GatherDimensionNumbers as GatherDimensionNumbers
from rlx.numpy.dimension_numbers import ScatterDimensionNumbers as ScatterDimensionNumbers
from rlx.numpy.dimension_numbers import gather as gather
from rlx.numpy.dimension_numbers import scatter as scatter
from rlx.numpy.dimension_numbers import scatter_add as scatter_add
from rlx.numpy.dimension_numbers import scatter_max as scatter_max
from rlx.numpy.dimension_numbers import scatter_min as scatter_min
from rlx.numpy.dimension_numbers import scatter_mul as scatter_mul
from rlx.numpy.dimension_numbers import scatter_sub as scatter_sub
from rlx.numpy.reduce_windows import fold_windows
from rlx.scipy.special import betainc as betainc
from rlx.scipy.special import digamma as digamma
from rlx.scipy.special import erfc as erfc
from rlx.scipy.special import erfinv, gammainc, gammaincc, gammaln, i0e, i1e
from rlx.scipy.special import polygamma as polygamma
from rlx.scipy.special import zeta as zeta
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact, promoted
from rlx.tracing.trace import element_type, shape_of
from rlx.tracing.widths import canonical
from rlx.transforms.associative import associative_scan as associative_scan
from rlx.transforms.branches import cond as cond
from rlx.transforms.branches import switch as switch
from rlx.transforms.collectives import all_gather as all_gather
from rlx.transforms.collectives import all_to_all as all_to_all
from rlx.transforms.collectives import axis_index as axis_index
from rlx.transforms.collectives import axis_size as axis_size
from rlx.transforms.collectives import pmax as pmax
from rlx.transforms.collectives import pmean as pmean
from rlx.transforms.collectives import pmin as pmin
from rlx.transforms.collectives import ppermute as ppermute
from rlx.transforms.collectives import psum as psum
from rlx.transforms.collectives import psum_scatter as psum_scatter
from rlx.transforms.control import fori_loop as fori_loop
from rlx.transforms.control import map as map
from rlx.transforms.control import scan as scan
from rlx.transforms.control import while_loop as while_loop
from rlx.transforms.custom_modes import CustomModes
from rlx.transforms.differentiate import stop_gradient as stop_gradient
from rlx.transforms.implicit import custom_linear_solve as custom_linear_solve
from rlx.transforms.implicit import custom_root as custom_root

# By other names

nextafter = rnp.nextafter
logistic, lgamma, erf_inv = sigmoid, gammaln, erfinv
igamma, igammac, bessel_i0e, bessel_i1e = gammainc, gammaincc, i0e, i1e
abs, acos, acosh, asin, asinh = rnp.abs, rnp.arccos, rnp.arccosh, rnp.arcsin, rnp.arcsinh
atan, atan2, atanh, cbrt, ceil = rnp.arctan, rnp.arctan2, rnp.arctanh, rnp.cbrt, rnp.ceil
conj, cos, cosh, exp, exp2, expm1 = rnp.conj, rnp.cos, rnp.cosh, rnp.exp, rnp.exp2, rnp.expm1
floor, imag, is_finite, log, log1p = rnp.floor, rnp.imag, rnp.isfinite, rnp.log, rnp.log1p
neg, real, reciprocal, sign, sin = rnp.negative, rnp.real, rnp.reciprocal, rnp.sign, rnp.sin
sinh, sqrt, square, tan, tanh = rnp.sinh, rnp.sqrt, rnp.square, rnp.tan, rnp.tanh
add, sub, mul, pow, rem = rnp.add, rnp.subtract, rnp.multiply, rnp.power, rnp.fmod
max, min = rnp.maximum, rnp.minimum
bitwise_and, bitwise_or, bitwise_xor = rnp.bitwise_and, rnp.bitwise_or, rnp.bitwise_xor
bitwise_not, shift_left = rnp.bitwise_not, rnp.left_shift
shift_right_arithmetic = rnp.right_shift
eq, ne, lt, le, gt, ge = rnp.equal, rnp.not_equal, rnp.less, rnp.less_equal, rnp.greater, (
    rnp.greater_equal
)  # fmt: skip
empty, split, stack, unstack = rnp.empty, rnp.split, rnp.stack, rnp.unstack
expand_dims, squeeze, transpose = rnp.expand_dims, rnp.squeeze, rnp.transpose
concatenate, tile = rnp.concatenate, rnp.tile
broadcast_shapes = rnp.broadcast_shapes
cumsum, cumprod, cummax = cumulative.cumsum, cumulative.cumprod, cumulative.cummax
cummin, cumlogsumexp = cumulative.cummin, cumulative.cumlogsumexp


# Elementwise


@function
def population_count(x: Any) -> Any:
    """How many bits are set in each integer, in the dtype of `x`."""
    return convert(rnp.bitwise_count(x), element_type(x).dtype)


@function
def div(x: Any, y: Any) -> Any:
    """`x / y`; of integers, cut off towards zero."""
    x, y = promoted([x, y])
    return emit(ops.div, x, y) if x.value.dtype.is_int else elementwise.divide(x, y)


@function
def rsqrt(x: Any) -> Any:
    """`1 / sqrt(x)`."""
    (x,) = inexact(x)
    return emit(ops.rsqrt, x)


@function
def integer_pow(x: Any, y: int) -> Any:
    """`x ** y` for a known integer."""
    return elementwise.power(x, y)


@function
def round(x: Any, rounding_method: Any = 0) -> Any:
    """The nearest integer: halves away from zero, or to even for rounding method 1."""
    if int(getattr(rounding_method, "value", rounding_method)) == 1:
        return elementwise.round(x)
    half = elementwise.floor(elementwise.add(elementwise.abs(x), 0.5))
    return elementwise.astype(elementwise.multiply(elementwise.sign(x), half), as_tracer(x).dtype)


@function
def clamp(min: Any, x: Any, max: Any) -> Any:
    """`x` limited to [min, max]."""
    return elementwise.clip(x, min, max)


@function
def complex(x: Any, y: Any) -> Any:
    """The number of real part `x` and imaginary part `y`."""
    return emit(ops.complex, x, y)


@function
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred` holds."""
    return elementwise.where(pred, on_true, on_false)


@function
def select_n(which: Any, *cases: Any) -> Any:
    """The case whose number stands in `which`; of two, the second where it is true."""
    found = cases[0]
    for number, case in enumerate(cases[1:], 1):
        found = elementwise.where(elementwise.equal(which, number), case, found)
    return found


@function
def convert_element_type(x: Any, new_dtype: Any) -> Any:
    """`x` in another type."""
    return elementwise.astype(x, new_dtype)


@function
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of each element as another type of the same size."""
    return emit(ops.bitcast, operand, to=canonical(as_array_dtype(new_dtype)))


@function
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """`operand` rounded to a format of fewer bits, halves to even, without denormal numbers.

    Beyond its range are infinities and, too close to 0, zeros. Derivatives are rounded, too.
    """
    x, bits = as_tracer(operand), (int(exponent_bits), int(mantissa_bits))
    if x.value.dtype not in _FORMATS:
        raise DTypeError(
            f"operand has dtype {x.value.dtype}; only f16, bf16, f32 and f64 are rounded",
            remedy="convert it with .astype('f32'), or round its real and imaginary parts",
        )
    if bits[0] < 1 or bits[1] < 0:
        raise InputError(
            f"exponent_bits is {bits[0]} and mantissa_bits {bits[1]}; they must be at least 1 and "
            "0",
            remedy="5 and 10 are the bits of f16, 8 and 7 those of bf16",
        )
    return _rounded_as(x, *bits)


_FORMATS = {DType.F16: (5, 10), DType.BF16: (8, 7), DType.F32: (8, 23), DType.F64: (11, 52)}
"""Bits of exponent and of mantissa."""


def _in_fewer_bits(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    dtype = as_tracer(x).value.dtype
    unsigned = as_array_dtype(f"uint{8 * dtype.size}")
    word = emit(ops.bitcast, x, to=unsigned)
    if mantissa_bits < _FORMATS[dtype][1]:
        word = _shorter_mantissa(word, dtype, mantissa_bits)
    if exponent_bits < _FORMATS[dtype][0]:
        word = _shorter_exponent(word, dtype, exponent_bits)
    return elementwise.where(elementwise.isnan(x), x, emit(ops.bitcast, word, to=dtype))


def _shorter_mantissa(word: Any, dtype: DType, mantissa_bits: int) -> Any:
    """Round to even; what a mantissa carries counts the exponent up."""
    cut = _FORMATS[dtype][1] - mantissa_bits
    odd = elementwise.bitwise_and(elementwise.right_shift(word, cut), 1)
    half = elementwise.add(odd, (1 << (cut - 1)) - 1)
    kept = convert((1 << (8 * dtype.size)) - (1 << cut), word.value.dtype)
    return elementwise.bitwise_and(elementwise.add(word, half), kept)


def _shorter_exponent(word: Any, dtype: DType, exponent_bits: int) -> Any:
    widest, longest = _FORMATS[dtype]
    middle, reach = (1 << (widest - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    sign, infinity, largest, smallest = (
        convert(bits << longest, word.value.dtype)
        for bits in (1 << widest, (1 << widest) - 1, middle + reach, middle - reach)
    )
    negative, exponent = (
        elementwise.bitwise_and(word, sign),
        elementwise.bitwise_and(word, infinity),
    )
    unbounded = elementwise.bitwise_or(negative, infinity)
    word = elementwise.where(elementwise.greater(exponent, largest), unbounded, word)
    return elementwise.where(elementwise.less_equal(exponent, smallest), negative, word)


def _tangent_in_fewer_bits(exponent: int, mantissa: int, primals: Any, tangents: Any) -> Any:
    rounded, moved = (_rounded_as(each[0], exponent, mantissa) for each in (primals, tangents))
    return rounded, moved


def _cotangent_in_fewer_bits(
    exponent: int, mantissa: int, primals: Any, result: Any, cotangent: Any
) -> Any:
    del primals, result
    return (_rounded_as(cotangent, exponent, mantissa),)


_rounded_as = CustomModes(
    _in_fewer_bits, _tangent_in_fewer_bits, _cotangent_in_fewer_bits, nondiff_argnums=(1, 2)
)


@function
def shift_right_logical(x: Any, y: Any) -> Any:
    """`x >> y`, zeros moved in."""
    x, y = promoted([x, y])
    shifted = elementwise.right_shift(x, y)
    if not x.value.dtype.is_signed_int:
        return shifted
    bits = x.value.dtype.size * 8
    high = elementwise.left_shift(elementwise.left_shift(-1, elementwise.subtract(bits - 1, y)), 1)
    masked = elementwise.bitwise_and(shifted, elementwise.bitwise_not(convert(high, x.value.dtype)))
    return elementwise.where(elementwise.equal(y, 0), x, masked)


# Arrays


@function
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of one value."""
    return rnp.full(shape, fill_value, dtype)


@function
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """An array like `x`, of one value."""
    return rnp.full_like(x, fill_value, dtype, shape)


@function
def iota(dtype: Any, size: int) -> Any:
    """0, 1, 2, ..."""
    return rnp.arange(size, dtype=dtype)


@function
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Any:
    """The index on one axis, in an array of `shape`."""
    line: list[Any] = [1] * len(shape)
    line[dimension] = -1
    return rnp.broadcast_to(rnp.reshape(iota(dtype, shape[dimension]), line), shape)


@function
def reshape(operand: Any, new_sizes: Any, dimensions: Any = None) -> Any:
    """The elements in another shape, after `dimensions` reorders the axes."""
    moved = operand if dimensions is None else shaping.transpose(operand, dimensions)
    return shaping.reshape(moved, new_sizes)


@function
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """`operand` with a range of axes as one."""
    shape = shape_of(operand)
    start, stop, _ = slice_of(start_dimension, stop_dimension).indices(len(shape))
    return shaping.reshape(operand, (*shape[:start], -1, *shape[stop:]))


slice_of = slice


@function
def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """`operand` with new leading axes."""
    return shaping.broadcast_to(operand, (*sizes, *shape_of(operand)))


@function
def broadcast_in_dim(operand: Any, shape: Any, broadcast_dimensions: Sequence[int]) -> Any:
    """`operand`, whose axes become the named ones of `shape`."""
    line: list[Any] = [1] * len(shape)
    for extent, axis in zip(shape_of(operand), broadcast_dimensions, strict=True):
        line[axis] = extent
    return shaping.broadcast_to(shaping.reshape(operand, line), shape)


@function
def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """`operand` with some axes reversed."""
    return shaping.flip(operand, tuple(dimensions))


@function
def pad(operand: Any, padding_value: Any, padding_config: Any) -> Any:
    """`operand` with values around and between its elements: (low, high, interior) per axis.

    A negative width cuts elements off.
    """
    x = as_tracer(operand)
    for axis, (low, high, interior) in enumerate(padding_config):
        extent = static_shape(x)[axis]
        spread = np.full(extent + interior * (extent - 1 if extent else 0), extent)
        spread[:: interior + 1] = np.arange(extent)
        before, behind = np.maximum([low, high], 0)
        places = np.concatenate([np.full(before, extent), spread, np.full(behind, extent)])
        places = places[-low if low < 0 else 0 : high if high < 0 else None]
        shape = tuple(1 if a == axis else e for a, e in enumerate(x.shape))
        filler = shaping.broadcast_to(convert(padding_value, x.value.dtype), shape)
        x = indexing.take(shaping.concatenate([x, filler], axis), places, axis)
    return x


@function
def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    """The block from `start_indices` up to `limit_indices`."""
    steps = strides or (1,) * len(start_indices)
    bounds = zip(start_indices, limit_indices, steps, strict=True)
    return indexing.getitem(operand, tuple(slice_of(*each) for each in bounds))


@function
def slice_in_dim(
    operand: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0
) -> Any:
    """A part of one axis."""
    lead = axis % len(shape_of(operand))
    whole = (slice_of(None),) * lead
    return indexing.getitem(operand, (*whole, slice_of(start_index, limit_index, stride)))


@function
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """One slice of an axis."""
    found = indexing.take(operand, index, axis)
    return shaping.expand_dims(found, axis) if keepdims else found


@function
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any) -> Any:
    """A block at traced positions, moved inside where it sticks out."""
    return indexing.dynamic_slice(operand, _starts(operand, start_indices), slice_sizes)


@function
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """`operand` with a block at traced positions replaced."""
    return indexing.dynamic_update_slice(operand, update, _starts(operand, start_indices))


@function
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """A part of one axis at a traced position."""
    sizes = list(shape_of(operand))
    sizes[axis] = slice_size
    return dynamic_slice(operand, _on_axis(operand, start_index, axis), sizes)


@function
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """One slice of an axis at a traced position."""
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    return found if keepdims else shaping.squeeze(found, axis)


@function
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """`operand` with a part of one axis replaced."""
    return dynamic_update_slice(operand, update, _on_axis(operand, start_index, axis))


@function
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """`operand` with one slice of an axis replaced."""
    if len(shape_of(update)) < len(shape_of(operand)):
        update = shaping.expand_dims(update, axis)
    return dynamic_update_slice_in_dim(operand, update, index, axis)


def _on_axis(operand: Any, start: Any, axis: int) -> list[Any]:
    starts: list[Any] = [0] * len(shape_of(operand))
    starts[axis] = start
    return starts


def _starts(operand: Any, starts: Any) -> Any:
    """Return positions of which negative ones count from the end, as in JAX."""
    if not isinstance(starts, (tuple, list)):
        starts = [starts[place] for place in range(static_shape(starts)[0])]
    pairs = zip(starts, static_shape(operand), strict=True)
    return [elementwise.where(elementwise.less(s, 0), elementwise.add(s, e), s) for s, e in pairs]


# Products and folds


@function
def dot(lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product of vectors and matrices."""
    del precision
    return _preferred(rnp.dot(lhs, rhs), preferred_element_type)


@function
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """The products of matrices."""
    del precision
    return rnp.matmul(lhs, rhs)


@function
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Sum products over paired axes, apart for paired batch axes."""
    del precision
    (left, right), (left_batch, right_batch) = dimension_numbers
    found = emit(
        ops.dot_general, *promoted([lhs, rhs]), lhs_contracting=tuple(left),
        rhs_contracting=tuple(right), lhs_batch=tuple(left_batch), rhs_batch=tuple(right_batch),
    )  # fmt: skip
    return _preferred(found, preferred_element_type)


def _preferred(x: Any, dtype: Any) -> Any:
    return x if dtype is None else elementwise.astype(x, dtype)


def _fold(fold: Callable[..., Any], name: str, doc: str) -> Callable[[Any, Any], Any]:
    def apply(operand: Any, axes: Any) -> Any:
        found = fold(operand, tuple(axes))
        return elementwise.astype(found, as_tracer(operand).dtype)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return function(apply)


reduce_sum = _fold(reductions.sum, "reduce_sum", "The sum over axes.")
reduce_prod = _fold(reductions.prod, "reduce_prod", "The product over axes.")
reduce_max = _fold(reductions.max, "reduce_max", "The largest over axes.")
reduce_min = _fold(reductions.min, "reduce_min", "The smallest over axes.")
reduce_and = _fold(reductions.all, "reduce_and", "The conjunction over axes.")
reduce_or = _fold(reductions.any, "reduce_or", "The disjunction over axes.")


@function
def reduce(
    operand: Any, init_value: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int]
) -> Any:
    """`computation`, which is associative, over axes, and `init_value`: halves at a time."""
    x = as_tracer(operand)
    start = convert(init_value, x.value.dtype)
    count = len(dimensions)
    rows = shaping.moveaxis(x, tuple(dimensions), tuple(range(count)))
    shape = static_shape(rows)
    rows = shaping.reshape(rows, (int(np.prod(shape[:count])), *shape[count:]))
    extent = static_shape(rows)[0]
    if not extent:
        return shaping.broadcast_to(start, static_shape(rows)[1:])
    while extent > 1:
        half = extent // 2
        pairs = computation(rows[: 2 * half : 2], rows[1 : 2 * half : 2])
        rows = shaping.concatenate([pairs, rows[2 * half :]], 0) if extent % 2 else pairs
        extent -= half
    return computation(start, rows[0])


@function
def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the largest along an axis."""
    return elementwise.astype(reductions.argmax(operand, axis), index_dtype)


@function
def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the smallest along an axis."""
    return elementwise.astype(reductions.argmin(operand, axis), index_dtype)


# Order


@function
def top_k(operand: Any, k: int, *, axis: int = -1) -> Any:
    """The `k` largest along an axis and their indices (i32)."""
    return sorting.top_k(operand, k, axis=axis)


@function
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Ascending order; several arrays in that of the first `num_keys`."""
    del is_stable
    if not isinstance(operand, (tuple, list)):
        return sorting.sort(operand, dimension)
    order = sorting.lexsort([*operand[:num_keys]][::-1], dimension)
    return [indexing.take_along_axis(x, order, dimension) for x in operand]


@function
def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in ascending order, and the values in theirs."""
    return tuple(sort([keys, values], dimension, is_stable))


class Precision:
    """Names that programs mention: products are of the operands' precision."""

    DEFAULT, HIGH, HIGHEST = "default", "high", "highest"


def optimization_barrier(operand: Any) -> Any:
    """`operand` itself."""
    return operand


# Windows


@function
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """`computation` over the elements of every window, and `init_value`, which also pads."""
    x = as_tracer(operand)
    ones = (1,) * x.ndim
    apart = tuple(window_dilation or ones)
    inner = [each - 1 for each in base_dilation or ones]
    if isinstance(padding, str):
        spread = [n + (n - 1) * i for n, i in zip(static_shape(x), inner, strict=True)]
        reach = [(n - 1) * d + 1 for n, d in zip(window_dimensions, apart, strict=True)]
        same = [same_padding(*side) for side in zip(spread, reach, window_strides, strict=True)]
        padding = same if padding.upper() in ("SAME", "SAME_LOWER") else [(0, 0)] * x.ndim
    widths = [(low, high, i) for (low, high), i in zip(padding, inner, strict=True)]
    start = convert(init_value, x.value.dtype)
    x = x if set(widths) <= {(0, 0, 0)} else pad(x, start, widths)
    folded = fold_windows(x, computation, window_dimensions, window_strides, apart)
    return computation(start, folded)

"""Folds over axes and windows, and order, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy import cumulative, elementwise, indexing, reductions, shaping, sorting
from rlx.numpy.axes import static_shape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function


def _fold(fold: Callable[..., Any], name: str, doc: str) -> Callable[[Any, Any], Array]:
    def apply(operand: Any, axes: Any) -> Array:
        found = fold(operand, tuple(axes))
        return elementwise.astype(found, as_tracer(operand).dtype)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return function(apply)


reduce_sum = _fold(reductions.sum, "reduce_sum", "The sum over axes.")
reduce_prod = _fold(reductions.prod, "reduce_prod", "The product over axes.")
reduce_max = _fold(reductions.max, "reduce_max", "The largest over axes.")
reduce_min = _fold(reductions.min, "reduce_min", "The smallest over axes.")


def _bits(fold: Callable[..., Any], start: int, name: str, doc: str) -> Callable[[Any, Any], Array]:
    """Return a fold of bools by one of NumPy's, of integers bit by bit."""
    bitwise = {"reduce_and": elementwise.bitwise_and, "reduce_or": elementwise.bitwise_or}[name]

    def apply(operand: Any, axes: Any) -> Array:
        x = as_tracer(operand)
        if x.value.dtype is DType.BOOL:
            return fold(x, tuple(axes))
        if not x.value.dtype.is_int:
            raise DTypeError(
                f"{name} has dtype {x.value.dtype.value}; it folds bits of integers and bools",
                remedy="compare first, or view the bits: rlx.lax.bitcast_convert_type",
            )
        identity = np.bitwise_not(np.zeros((), x.dtype)) if start else np.zeros((), x.dtype)
        return reduce(x, identity, bitwise, tuple(axes))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return function(apply)


reduce_and = _bits(reductions.all, 1, "reduce_and", "The conjunction over axes, of each bit.")
reduce_or = _bits(reductions.any, 0, "reduce_or", "The disjunction over axes, of each bit.")


@function
def reduce_xor(operand: Any, axes: Any) -> Array:
    """The exclusive or over axes."""
    return reduce(operand, 0, elementwise.bitwise_xor, tuple(axes))


@function
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """`computation`, which is associative, over axes, and `init_values`: halves at a time.

    Of several arrays of one shape, `computation` is of two lists of elements and returns one.
    """
    if isinstance(operands, (list, tuple)):
        return type(operands)(_reduced(operands, init_values, computation, dimensions))

    def fold(left: list[Any], right: list[Any]) -> list[Any]:
        return [computation(left[0], right[0])]

    return _reduced([operands], [init_values], fold, dimensions)[0]


def _reduced(
    operands: Sequence[Any],
    init_values: Sequence[Any],
    computation: Callable[[list[Any], list[Any]], list[Any]],
    dimensions: Sequence[int],
) -> list[Any]:
    arrays: list[Any] = [as_tracer(x) for x in operands]
    pairs = zip(init_values, arrays, strict=True)
    start = [convert(init, x.value.dtype) for init, x in pairs]
    rows: list[Any] = [_as_rows(x, tuple(dimensions)) for x in arrays]
    extent = static_shape(rows[0])[0]
    if not extent:
        return [
            shaping.broadcast_to(s, static_shape(x)[1:]) for s, x in zip(start, rows, strict=True)
        ]
    while extent > 1:
        half = extent // 2
        firsts, seconds = ([x[i : 2 * half : 2] for x in rows] for i in (0, 1))
        pairs = zip(computation(firsts, seconds), rows, strict=True)
        rows = [shaping.concatenate([p, x[2 * half :]], 0) if extent % 2 else p for p, x in pairs]
        extent -= half
    return list(computation(start, [x[0] for x in rows]))


def _as_rows(x: Any, dimensions: tuple[int, ...]) -> Any:
    """Return `x` with the axes `dimensions` as its first."""
    count = len(dimensions)
    rows = shaping.moveaxis(x, dimensions, tuple(range(count)))
    shape = static_shape(rows)
    return shaping.reshape(rows, (int(np.prod(shape[:count])), *shape[count:]))


def _running(fold: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    def apply(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        x = as_tracer(operand)
        flipped = shaping.flip(x, axis) if reverse else x
        found = elementwise.astype(fold(flipped, axis), x.dtype)
        return shaping.flip(found, axis) if reverse else found

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return function(apply)


cumsum = _running(cumulative.cumsum, "cumsum", "The running sum along an axis, in the dtype.")
cumprod = _running(cumulative.cumprod, "cumprod", "The running product along an axis.")
cummax = _running(cumulative.cummax, "cummax", "The largest so far along an axis.")
cummin = _running(cumulative.cummin, "cummin", "The smallest so far along an axis.")
cumlogsumexp = _running(cumulative.cumlogsumexp, "cumlogsumexp",
                        "The logarithm of the running sum of exponentials.")  # fmt: skip


@function
def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The index of the largest along an axis."""
    return _as_index(reductions.argmax(operand, axis), index_dtype)


@function
def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The index of the smallest along an axis."""
    return _as_index(reductions.argmin(operand, axis), index_dtype)


def _as_index(found: Any, dtype: Any) -> Any:
    index = elementwise.astype(found, dtype)
    if not as_tracer(index).value.dtype.is_int:
        raise DTypeError(
            f"index_dtype is {index.dtype}", remedy="pass a dtype of integers, such as 'int32'"
        )
    return index


@function
def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest along an axis and their indices (i32); 0.0 is larger than -0.0."""
    x = as_tracer(operand)
    dtype = x.value.dtype
    if not dtype.is_float and dtype is not DType.BOOL:
        return sorting.top_k(x, k, axis=axis)
    keys = _total_order(x) if dtype.is_float else elementwise.astype(x, DType.U8)
    _, places = sorting.top_k(keys, k, axis=axis)
    return indexing.take_along_axis(x, places, axis), places


def _total_order(x: Array) -> Any:
    """Return integers that are ordered as floats are, -0.0 below 0.0 and NaN above all."""
    dtype = {2: DType.I16, 4: DType.I32, 8: DType.I64}[x.value.dtype.size]
    greatest = int(np.iinfo(dtype.numpy).max)
    bits: Any = emit(ops.bitcast, x, to=dtype)
    keys = elementwise.where(bits < 0, bits ^ greatest, bits)
    return elementwise.where(elementwise.isnan(x), greatest, keys)


@function
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Ascending order; several arrays in that of the first `num_keys`."""
    several = isinstance(operand, (tuple, list))
    if not 1 <= num_keys <= (len(operand) if several else 1):
        raise InputError(
            f"num_keys is {num_keys}, of {len(operand) if several else 1} arrays",
            remedy="let one of the arrays or more be keys",
        )
    if not several:
        return sorting.sort(operand, dimension)
    order = sorting.lexsort([*operand[:num_keys]][::-1], dimension)
    return type(operand)(indexing.take_along_axis(x, order, dimension) for x in operand)


@function
def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Keys in ascending order, and the values in theirs."""
    return tuple(sort([keys, values], dimension, is_stable))


@function
def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:  # fmt: skip
    """The `k` largest along an axis and their indices: all of them, as there is no faster way."""
    return top_k(operand, k, axis=reduction_dimension)


@function
def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:  # fmt: skip
    """The `k` smallest along an axis and their indices."""
    values, places = top_k(elementwise.negative(operand), k, axis=reduction_dimension)
    return elementwise.negative(values), places

"""Folds over axes and windows, and order, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError
from rlx.lax.arrays import pad
from rlx.lax.windows import padtype_to_pads
from rlx.numpy import cumulative, elementwise, indexing, reductions, shaping, sorting
from rlx.numpy.axes import require_per_axis, static_shape
from rlx.numpy.reduce_windows import fold_windows
from rlx.tracing.apply import as_tracer, convert, function


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
def reduce_xor(operand: Any, axes: Any) -> Any:
    """The exclusive or over axes."""
    return reduce(operand, 0, elementwise.bitwise_xor, tuple(axes))


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


def _running(fold: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    def apply(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        x = as_tracer(operand)
        turned = shaping.flip(x, axis) if reverse else x
        found = elementwise.astype(fold(turned, axis), x.dtype)
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
def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """The index of the largest along an axis."""
    return _as_index(reductions.argmax(operand, axis), index_dtype)


@function
def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
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
def top_k(operand: Any, k: int, *, axis: int = -1) -> Any:
    """The `k` largest along an axis and their indices (i32)."""
    return sorting.top_k(operand, k, axis=axis)


@function
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Ascending order; several arrays in that of the first `num_keys`."""
    del is_stable
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
def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in ascending order, and the values in theirs."""
    return tuple(sort([keys, values], dimension, is_stable))


@function
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """`computation` over the elements of every window, and `init_value`, which also pads."""
    x = as_tracer(operand)
    require_per_axis(
        x.ndim, window_dimensions=window_dimensions, window_strides=window_strides,
        padding=None if isinstance(padding, str) else padding, base_dilation=base_dilation,
        window_dilation=window_dilation,
    )  # fmt: skip
    ones = (1,) * x.ndim
    steps, apart = tuple(window_strides or ones), tuple(window_dilation or ones)
    inner = [each - 1 for each in base_dilation or ones]
    if isinstance(padding, str):
        spread = [n + (n - 1) * i for n, i in zip(static_shape(x), inner, strict=True)]
        reach = [(n - 1) * d + 1 for n, d in zip(window_dimensions, apart, strict=True)]
        padding = padtype_to_pads(spread, reach, steps, padding)
    widths = [(low, high, i) for (low, high), i in zip(padding, inner, strict=True)]
    start = convert(init_value, x.value.dtype)
    x = x if set(widths) <= {(0, 0, 0)} else pad(x, start, widths)
    folded = fold_windows(x, computation, window_dimensions, steps, apart)
    return computation(start, folded)


@function
def approx_max_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> Any:  # fmt: skip
    """The `k` largest along an axis and their indices: all of them, as there is no faster way."""
    del recall_target, reduction_input_size_override, aggregate_to_topk
    return top_k(operand, k, axis=reduction_dimension)


@function
def approx_min_k(
    operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
    reduction_input_size_override: int = -1, aggregate_to_topk: bool = True,
) -> Any:  # fmt: skip
    """The `k` smallest along an axis and their indices."""
    del recall_target, reduction_input_size_override, aggregate_to_topk
    values, places = top_k(elementwise.negative(operand), k, axis=reduction_dimension)
    return elementwise.negative(values), places

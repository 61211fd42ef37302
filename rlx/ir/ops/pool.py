"""Pooling: folds of sliding windows over the spatial axes.

The spatial axes are the last ones but `inner`: `[N, C, H, W]` has no inner axes, channels last
`[N, H, W, C]` and channel blocks `[N, C/8, H, W, 8]` have one. All axes in front are alike.
Padding is never an element: it is excluded from a maximum, and nothing is added for it.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.ir.composite import composite
from rlx.ir.declaration import SingleResultOp, declare_op, op, takes
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.pool_geometry import Padding, PoolAttributes, Sizes, WindowAxis, window_axes
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype, require_shape
from rlx.ir.ops.shape import expand, pad, slice
from rlx.ir.shape import Extent, product
from rlx.ir.types import TensorType

_FAMILY = "pool"

_MOST_COUNTED = 1 << 20
"""Windows whose positions are counted when the graph is built; those of more are at run time."""
_WINDOWED = (Trait.ALL_ELEMENTS, Trait.WINDOWED)

Divisor: TypeAlias = Literal["window", "padded", "inside"]
"""What a mean divides by: the window's size, always; its positions in the operand or its
padding, without what `ceil_mode` adds; or its positions in the operand alone."""


def _pool(name: str, doc: str, *traits: Trait, decompose: Any = None) -> SingleResultOp:
    def infer(x: TensorType, windows: PoolAttributes) -> TensorType:
        require_dtype(x, "float int")
        return x.with_shape(windows.result(x.shape))

    around = (Trait.EPILOGUE, Trait.PROLOGUE, Trait.STORES_ONCE)
    return declare_op(
        name, _FAMILY, infer, traits=(*_WINDOWED, *around, *traits), doc=doc, decompose=decompose,
        attributes=PoolAttributes,
    )  # fmt: skip


max_pool = _pool("max_pool", "Largest element of each window; NaN wins; -inf if it has none.")
min_pool = _pool("min_pool", "Smallest element of each window; NaN wins; +inf if it has none.")
sum_pool = _pool("sum_pool", "Sum of each window.", Trait.LINEAR)


@in_single_precision
@takes(PoolAttributes)
def prod_pool_formula(x: Value, windows: PoolAttributes) -> Value:
    """Multiply the taps of one axis after another: derivatives without a division."""
    axes = windows.axes(x.shape)
    first = x.rank - windows.inner - len(axes)
    for position, axis in enumerate(axes, start=first):
        x = functools.reduce(operator.mul, _taps(x, position, axis))
    return x


prod_pool = _pool("prod_pool", "Product of each window.", decompose=prod_pool_formula)


@composite(_FAMILY, *_WINDOWED)
@in_single_precision
def mean_pool(
    x: Value,
    *,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Padding = (),
    dilation: Sizes = (),
    ceil_mode: bool = False,
    inner: int = 0,
    divisor: Divisor = "window",
) -> Value:
    """Mean of each window: its sum, divided by what `divisor` counts."""
    require_dtype(x.type, "float")
    geometry: dict[str, Any] = {
        "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
        "ceil_mode": ceil_mode, "inner": inner,
    }  # fmt: skip
    total: Value = sum_pool(x, **geometry)
    axes = window_axes(x.shape, **geometry)
    if divisor == "window" or _never_counts_less(axes, divisor):
        return total / float(np.prod(kernel_size))
    windows = product(axis.count for axis in axes)
    if isinstance(windows, int) and windows <= _MOST_COUNTED:
        counts = [_counts(axis, divisor) for axis in axes]
        if all(count is not None for count in counts):
            return total / x.graph.constant(_outer(counts, inner), x.dtype)
    ones = expand(x.graph.constant(1.0, x.dtype), shape=x.shape)
    return total / sum_pool(ones, **geometry)


@op(_FAMILY, *_WINDOWED, attributes=PoolAttributes)
def max_pool_take(x: TensorType, values: TensorType, windows: PoolAttributes) -> TensorType:
    """Element of `values` where each window of `x` has its first maximum; 0 if it has none.

    The first NaN is the maximum of a window that holds one.
    """
    require_dtype(x, "float", "x")
    require_dtype(values, "float int", "values")
    require_shape(values, x.shape, "values")
    return values.with_shape(windows.result(x.shape))


@op(_FAMILY, *_WINDOWED, attributes=PoolAttributes)
def max_pool_backward(x: TensorType, dy: TensorType, windows: PoolAttributes) -> TensorType:
    """Gradient of `max_pool` by `x`: `dy` of each window is added at its first maximum."""
    require_dtype(x, "float", "x")
    require_dtype(dy, "f32 f64", "dy")
    require_shape(dy, windows.result(x.shape), "dy")
    return dy.with_shape(x.shape)


def _taps(x: Value, position: int, axis: WindowAxis) -> list[Value]:
    """Return, for each tap of the windows along one axis, the elements that it reads."""
    before: list[Extent] = [0] * x.rank
    after: list[Extent] = [0] * x.rank
    before[position] = axis.low
    missing = axis.span - axis.low - axis.extent
    if not isinstance(missing, int) or missing > 0:
        after[position] = missing
    padded = pad(x, low=tuple(before), high=tuple(after), value=1)
    return [_strided(padded, position, axis, tap) for tap in range(axis.size)]


def _strided(x: Value, position: int, axis: WindowAxis, tap: int) -> Value:
    start, stop, step = [0] * x.rank, list(x.shape), [1] * x.rank
    start[position], step[position] = tap * axis.dilation, axis.stride
    stop[position] = (axis.count - 1) * axis.stride + (tap * axis.dilation + 1)
    return slice(x, start=tuple(start), stop=tuple(stop), step=tuple(step))


def _never_counts_less(axes: tuple[WindowAxis, ...], divisor: Divisor) -> bool:
    """True if every window has all of its positions where `divisor` counts them."""
    if divisor == "inside":
        return all(axis.is_inside for axis in axes)
    ends = (axis.extent + axis.low + axis.high - axis.span for axis in axes)
    return all(not isinstance(end, int) or end >= 0 for end in ends)


def _counts(axis: WindowAxis, divisor: Divisor) -> NDArray[Any] | None:
    """Return how many positions of each window count, or None where extents are symbolic."""
    if not isinstance(axis.extent, int) or not isinstance(axis.count, int):
        return None
    low, high = (axis.low, axis.high) if divisor == "padded" else (0, 0)
    starts = np.arange(axis.count)[:, None] * axis.stride - axis.low
    positions = starts + np.arange(axis.size) * axis.dilation
    return ((positions >= -low) & (positions < axis.extent + high)).sum(axis=1)


def _outer(counts: list[NDArray[Any] | None], inner: int) -> NDArray[Any]:
    """Return the counts of whole windows; 1 for those that hold none, whose sum is 0."""
    known = [count for count in counts if count is not None]
    whole = functools.reduce(np.multiply.outer, known)
    return np.maximum(whole, 1).reshape(whole.shape + (1,) * inner)

"""Folds over windows: by any function, and as pooling ops where there is one.

`select_and_gather_add` and `select_and_scatter_add` are XLA's derivatives of the folds by the
largest and the least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.op import OpDef
from rlx.lax import elementwise as own
from rlx.lax.arrays import pad
from rlx.lax.windows import padtype_to_pads
from rlx.numpy import elementwise, shaping
from rlx.numpy.axes import require_per_axis, static_shape
from rlx.numpy.creation import arange
from rlx.numpy.reduce_windows import fold_windows
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function
from rlx.transforms.differentiate import vjp

_POOLS: dict[Callable[..., Any], tuple[OpDef, float]] = {
    elementwise.add: (ops.sum_pool, 0.0),
    **dict.fromkeys((elementwise.maximum, own.max), (ops.max_pool, -np.inf)),
    **dict.fromkeys((elementwise.minimum, own.min), (ops.min_pool, np.inf)),
}
"""The op of a fold, and the value of a window without elements."""
_MOST_AXES = 3
"""Axes that the windows of a pool have at most."""

Padding = str | Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows over all axes of an array."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    inner: tuple[int, ...]
    """How many paddings are put between elements."""
    apart: tuple[int, ...]

    @staticmethod
    def of(
        x: Any, sizes: Any, steps: Any, padding: Padding, base_dilation: Any, dilation: Any
    ) -> _Windows:
        require_per_axis(
            x.ndim, window_dimensions=sizes, window_strides=steps,
            padding=None if isinstance(padding, str) else padding, base_dilation=base_dilation,
            window_dilation=dilation,
        )  # fmt: skip
        ones = (1,) * x.ndim
        steps, apart = tuple(steps or ones), tuple(dilation or ones)
        inner = tuple(each - 1 for each in base_dilation or ones)
        if isinstance(padding, str):
            spread = [n + (n - 1) * i for n, i in zip(static_shape(x), inner, strict=True)]
            reach = [(n - 1) * d + 1 for n, d in zip(sizes, apart, strict=True)]
            padding = padtype_to_pads(spread, reach, steps, padding)
        sides = tuple((int(low), int(high)) for low, high in padding)
        return _Windows(tuple(sizes), steps, sides, inner, apart)

    def pool(self) -> dict[str, Any] | None:
        """Return the attributes of a pool of these windows, if there is one."""
        axes = zip(self.sizes, self.steps, self.padding, strict=True)
        folded = [i for i, each in enumerate(axes) if each != (1, 1, (0, 0))]
        first, last = (folded[0], folded[-1] + 1) if folded else (0, 1)
        narrow = last - first <= _MOST_AXES
        if any(self.inner) or not narrow or min(map(min, self.padding)) < 0:
            return None
        here = slice(first, last)
        return {
            "kernel_size": self.sizes[here],
            "stride": self.steps[here],
            "dilation": self.apart[here],
            "padding": self.padding[here],
            "inner": len(self.sizes) - last,
        }

    def fold(self, arrays: Sequence[Any], starts: Sequence[Any], computation: Any) -> list[Any]:
        """Fold windows of arrays, padded by `starts`, and `starts` themselves."""
        pairs = zip(self.padding, self.inner, strict=True)
        widths = [(low, high, i) for (low, high), i in pairs]
        if any(map(any, widths)):
            arrays = [pad(x, s, widths) for x, s in zip(arrays, starts, strict=True)]
        folded = fold_windows(arrays, computation, self.sizes, self.steps, self.apart)
        return list(computation(list(starts), folded))


@function
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """`computation` over the elements of every window, and `init_value`, which also pads.

    Of several arrays of one shape, `computation` is of two lists of elements and returns one.
    """
    several = isinstance(operand, (list, tuple))
    arrays = [as_tracer(x) for x in (operand if several else [operand])]
    inits = init_value if several else [init_value]
    windows = _Windows.of(
        arrays[0], window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    pairs = zip(inits, arrays, strict=True)
    starts = [convert(init, x.value.dtype) for init, x in pairs]
    if several:
        return type(operand)(windows.fold(arrays, starts, computation))
    pooled = _pooled(arrays[0], init_value, computation, windows)
    if pooled is not None:
        return pooled

    def fold(left: list[Any], right: list[Any]) -> list[Any]:
        return [computation(left[0], right[0])]

    return windows.fold(arrays, starts, fold)[0]


def _pooled(x: Any, init_value: Any, computation: Any, windows: _Windows) -> Any:
    """Return the fold as a pooling op, where there is one; None for others."""
    given = isinstance(init_value, (int, float, np.number, np.ndarray))
    op, identity = _POOLS.get(computation, (None, 0.0))
    if op is None or not x.value.dtype.is_float or not given or np.shape(init_value):
        return None
    attributes = windows.pool() if init_value == identity else None
    return None if attributes is None else emit(op, x, **attributes)


@function
def select_and_gather_add(
    tangents: Any,
    operand: Any,
    is_greatest: bool,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """The element of `tangents` where each window of `operand` has its first greatest element.

    Its first least one where not `is_greatest`.
    """
    x, t = as_tracer(operand), as_tracer(tangents)
    windows = _Windows.of(
        x, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    attributes = windows.pool()
    if attributes is not None and x.value.dtype.is_float:
        given = x if is_greatest else elementwise.negative(x)
        return emit(ops.max_pool_take, given, t, **attributes)
    selects = elementwise.greater_equal if is_greatest else elementwise.less_equal

    def choose(left: list[Any], right: list[Any]) -> list[Any]:
        first = selects(left[0], right[0])
        pairs = zip(left, right, strict=True)
        return [elementwise.where(first, a, b) for a, b in pairs]

    start = convert(_identity(x.dtype, is_greatest), x.value.dtype)
    return windows.fold([x, t], [start, convert(0, t.value.dtype)], choose)[1]


def _chosen_places(x: Any, windows: _Windows, is_greatest: bool) -> Any:
    """Return the number, among all elements, of the one that each window chooses."""
    selects = elementwise.greater_equal if is_greatest else elementwise.less_equal

    def choose(left: list[Any], right: list[Any]) -> list[Any]:
        is_padding = [elementwise.less(place, 0) for _, place in (left, right)]
        first = elementwise.logical_and(
            elementwise.logical_not(is_padding[0]),
            elementwise.logical_or(selects(left[0], right[0]), is_padding[1]),
        )
        return [elementwise.where(first, a, b) for a, b in zip(left, right, strict=True)]

    numbers = shaping.reshape(arange(x.size), x.shape)
    starts = [convert(0, x.value.dtype), convert(-1, numbers.value.dtype)]
    return windows.fold([x, numbers], starts, choose)[1]


def _identity(dtype: np.dtype[Any], is_greatest: bool) -> Any:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if is_greatest else limits.max
    return -np.inf if is_greatest else np.inf


@function
def select_and_scatter_add(
    operand: Any,
    source: Any,
    is_greatest: bool,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> Array:
    """Zeros, with `source` of each window of `operand` added at its first greatest element.

    At its first least one where not `is_greatest`.
    """
    x = as_tracer(operand)
    windows = _Windows.of(x, window_dimensions, window_strides, padding, None, None)
    attributes = windows.pool()
    if attributes is not None and as_tracer(source).value.dtype.is_float and x.dtype.itemsize > 2:
        given = x if is_greatest else elementwise.negative(x)
        return emit(ops.max_pool_backward, given, source, **attributes)

    zeros = elementwise.multiply(x, 0)
    if x.value.dtype.is_float:

        def gathered(t: Any) -> Any:
            return select_and_gather_add(
                t, operand, is_greatest, window_dimensions, window_strides, padding
            )

        return vjp(gathered, zeros)[1](source)[0]
    places = _chosen_places(x, windows, is_greatest)
    added = shaping.ravel(zeros).at[shaping.ravel(places)].add(shaping.ravel(source))
    return shaping.reshape(added, x.shape)

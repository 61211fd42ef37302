"""Rules of reductions, windows, orders and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.stablehlo.interpret import Operation, rule
from rlx.stablehlo.regions import (
    combiner,
    function_of_combiner,
    identity,
    is_sum,
    of_elements,
    of_pairs,
    order,
    trees,
)
from rlx.tracing.trace import shape_of

_FOLDS = {
    "add": lax.reduce_sum,
    "and": lax.reduce_and,
    "maximum": lax.reduce_max,
    "minimum": lax.reduce_min,
    "multiply": lax.reduce_prod,
    "or": lax.reduce_or,
    "xor": lax.reduce_xor,
}
_OF_BOOLS = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
_RUNNING = {
    "add": lax.cumsum, "maximum": lax.cummax, "minimum": lax.cummin, "multiply": lax.cumprod,
}  # fmt: skip


def _combiner(operation: Operation, count: int) -> str | None:
    """Return the name of a reducer of one array that is one operation."""
    if count != 1:
        return None
    (tree,) = trees(operation, 0)
    name = combiner(tree, 0, 1)
    return None if name == "subtract" else name


def _is_identity(name: str, start: Any, x: Any) -> bool:
    return isinstance(start, np.ndarray) and bool(np.all(start == identity(name, x)))


@rule("stablehlo.reduce")
def reduce(operation: Operation, *operands: Any) -> Any:
    count = len(operands) // 2
    axes, name = operation.integers("dimensions"), _combiner(operation, count)
    arrays, starts = operands[:count], operands[count:]
    if name is None:
        return lax.reduce(list(arrays), list(starts), of_pairs(operation, 0), axes)
    (x,), (start,) = arrays, starts
    kind = _OF_BOOLS.get(name, name) if np.dtype(x.dtype).kind == "b" else name
    found = _FOLDS[kind](x, axes) if axes else x
    if _is_identity(kind, start, x):
        return found
    return function_of_combiner(name, operation, 0)(start, found)


@rule("stablehlo.map")
def map_elements(operation: Operation, *operands: Any) -> Any:
    """A region of numbers for each element."""
    (found,) = of_elements(operation, 0)(*operands)
    return found


@rule("stablehlo.reduce_window")
def reduce_window(operation: Operation, *operands: Any) -> Any:
    count = len(operands) // 2
    arrays, starts, window = operands[:count], operands[count:], _window(operation)
    name = _combiner(operation, count)
    if name is None:
        return lax.reduce_window(list(arrays), list(starts), of_pairs(operation, 0), **window)
    (x,), (start,) = arrays, starts
    running = _running(window, shape_of(x))
    if running is not None and name in _RUNNING and _is_identity(name, start, x):
        return _RUNNING[name](x, *running)
    return lax.reduce_window(x, start, function_of_combiner(name, operation, 0), **window)


def _window(operation: Operation) -> dict[str, Any]:
    """Return the arguments that say which elements a window holds."""
    sizes = operation.integers("window_dimensions")
    ones, none = (1,) * len(sizes), (0,) * (2 * len(sizes))
    sides = operation.integers("padding", none)
    return {
        "window_dimensions": sizes,
        "window_strides": operation.integers("window_strides", ones),
        "padding": list(zip(sides[::2], sides[1::2], strict=True)),
        "base_dilation": operation.integers("base_dilations", ones),
        "window_dilation": operation.integers("window_dilations", ones),
    }


def _running(window: dict[str, Any], shape: tuple[Any, ...]) -> tuple[int, bool] | None:
    """Return the axis of windows of all elements up to each, and whether they are of all after."""
    steps = (window["window_strides"], window["base_dilation"], window["window_dilation"])
    axes = [i for i, size in enumerate(window["window_dimensions"]) if size != 1]
    if any(n != 1 for each in steps for n in each) or len(axes) != 1:
        return None
    (axis,) = axes
    size = window["window_dimensions"][axis]
    others = [pair for i, pair in enumerate(window["padding"]) if i != axis]
    if size != shape[axis] or any(map(any, others)):
        return None
    sides = window["padding"][axis]
    return {(size - 1, 0): (axis, False), (0, size - 1): (axis, True)}.get(sides)


@rule("stablehlo.select_and_scatter")
def select_and_scatter(operation: Operation, x: Any, source: Any, start: Any) -> Any:
    (test,) = trees(operation, 0)
    direction = test[1][0] if isinstance(test, tuple) and test[2:] == (0, 1) else ""
    if direction not in ("GE", "GT", "LE", "LT") or not is_sum(operation, 1):
        raise UnsupportedError(
            "from_stablehlo: select_and_scatter with other regions than a comparison and a sum",
            source=operation.source,
            remedy="select by GE or LE, and scatter by add",
        )
    window = _window(operation)
    padding = window["padding"]
    if any(map(any, padding)):  # what pads has no place of its own in the result
        worst = identity("maximum" if direction[0] == "G" else "minimum", x)
        inner = [(low, low + extent) for (low, _), extent in zip(padding, x.shape, strict=True)]
        x = lax.pad(x, worst, [(low, high, 0) for low, high in padding])
        window["padding"] = [(0, 0)] * len(padding)
    found = lax.select_and_scatter_add(
        x, source, direction[0] == "G", window["window_dimensions"], window["window_strides"],
        window["padding"],
    )  # fmt: skip
    if any(map(any, padding)):
        found = lax.slice(found, [low for low, _ in inner], [high for _, high in inner])
    is_zero = isinstance(start, np.ndarray) and not start.any()
    return found if is_zero else lax.add(found, start)


@rule("stablehlo.sort")
def sort(operation: Operation, *operands: Any) -> Any:
    """Sort by operands that the comparison reads, or by any other comparison through ranks."""
    axis, keys = operation.integer("dimension", -1), order(operation)
    if keys is None:
        return _sorted_by_ranks(operation, operands, axis)
    places = [place for place, _ in keys]
    if places == list(range(len(keys))) and not any(down for _, down in keys):
        return list(lax.sort(tuple(operands), axis, True, len(keys)))
    numbers = lax.broadcasted_iota(np.int32, shape_of(operands[0]), axis)
    given = [_descending(operands[place]) if down else operands[place] for place, down in keys]
    *_, found = lax.sort((*given, numbers), axis, True, len(keys))
    return [rnp.take_along_axis(x, found, axis) for x in operands]


def _descending(x: Any) -> Any:
    """Return keys that ascend as `x` descends."""
    if np.dtype(x.dtype).kind in "iub":
        return lax.bitwise_not(x)
    return lax.neg(x)


def _sorted_by_ranks(operation: Operation, operands: tuple[Any, ...], axis: int) -> Any:
    """Sort by a comparison of any form: an element's rank is how many precede it."""
    last = [rnp.moveaxis(x, axis, -1) for x in operands]
    pairs = [y for x in last for y in (rnp.expand_dims(x, -1), rnp.expand_dims(x, -2))]
    (before,) = of_elements(operation, 0)(*pairs)
    count = shape_of(last[0])[-1]
    place = rnp.arange(count)
    is_tie = rnp.logical_not(rnp.logical_or(before, rnp.swapaxes(before, -1, -2)))
    earlier = rnp.logical_or(before, rnp.logical_and(is_tie, place[:, None] < place))
    ranks = rnp.sum(rnp.astype(earlier, np.int32), -2)
    found = rnp.argsort(ranks, -1)
    return [rnp.moveaxis(rnp.take_along_axis(x, found, -1), -1, axis) for x in last]


@rule("chlo.top_k")
def top_k(operation: Operation, x: Any) -> Any:
    return list(lax.top_k(x, operation.integer("k")))


@rule("stablehlo.batch_norm_inference")
def batch_norm_inference(
    operation: Operation, x: Any, scale: Any, offset: Any, mean: Any, variance: Any
) -> Any:
    scale, offset, mean, variance = _on_channels(operation, x, scale, offset, mean, variance)
    return (x - mean) * lax.rsqrt(variance + operation.number("epsilon")) * scale + offset


@rule("stablehlo.batch_norm_training")
def batch_norm_training(operation: Operation, x: Any, scale: Any, offset: Any) -> Any:
    axes = _but_channels(operation, x)
    mean, variance = rnp.mean(x, axes), rnp.var(x, axes)
    return [batch_norm_inference(operation, x, scale, offset, mean, variance), mean, variance]


@rule("stablehlo.batch_norm_grad")
def batch_norm_grad(
    operation: Operation, x: Any, scale: Any, mean: Any, variance: Any, slope: Any
) -> Any:
    axes = _but_channels(operation, x)
    scale, mean, variance = _on_channels(operation, x, scale, mean, variance)
    rate = lax.rsqrt(variance + operation.number("epsilon"))
    unit = (x - mean) * rate
    of_scale, of_offset = rnp.sum(slope * unit, axes), rnp.sum(slope, axes)
    means = [rnp.mean(each, axes, keepdims=True) for each in (slope, slope * unit)]
    return [scale * rate * (slope - means[0] - unit * means[1]), of_scale, of_offset]


def _but_channels(operation: Operation, x: Any) -> tuple[int, ...]:
    channels = operation.integer("feature_index")
    return tuple(axis for axis in range(len(shape_of(x))) if axis != channels)


def _on_channels(operation: Operation, x: Any, *operands: Any) -> list[Any]:
    shape = [1] * len(shape_of(x))
    shape[operation.integer("feature_index")] = -1
    return [rnp.reshape(each, tuple(shape)) for each in operands]

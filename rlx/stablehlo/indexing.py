"""Rules of gathers and scatters."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.numpy.indexing import dynamic_slice as block
from rlx.stablehlo.extents import extents_of, plain
from rlx.stablehlo.interpret import Operation, rule
from rlx.stablehlo.regions import combiner, of_elements, trees
from rlx.tracing.trace import shape_of


def _vectors_last(indices: Any, axis: int) -> Any:
    """Return indices with their vectors along the last axis."""
    rank = len(shape_of(indices))
    if axis == rank:
        return rnp.expand_dims(indices, -1)
    return indices if axis == rank - 1 else rnp.moveaxis(indices, axis, -1)


@rule("stablehlo.gather")
def gather(operation: Operation, x: Any, indices: Any) -> Any:
    return _gathered(operation, x, indices, operation.integers("slice_sizes"))


@rule("stablehlo.dynamic_gather", takes_numbers=True)
def dynamic_gather(operation: Operation, x: Any, indices: Any, sizes: Any) -> Any:
    return _gathered(operation, plain(x), plain(indices), extents_of(sizes, operation.name))


def _gathered(operation: Operation, x: Any, indices: Any, sizes: Any) -> Any:
    given = stablehlo.GatherDimensionNumbers(operation.attribute("dimension_numbers"))
    axes = (
        given.offset_dims,
        given.collapsed_slice_dims,
        given.start_index_map,
        given.operand_batching_dims,
        given.start_indices_batching_dims,
    )
    numbers = lax.GatherDimensionNumbers(*(tuple(each) for each in axes))
    rows = _vectors_last(indices, given.index_vector_dim)
    if len(shape_of(rows)) == 1:
        return _one_slice(x, rows, numbers, sizes)
    return lax.gather(x, rows, numbers, sizes, mode="clip")


def _one_slice(x: Any, start: Any, numbers: lax.GatherDimensionNumbers, sizes: Any) -> Any:
    """Return the slice at one place, which may have symbolic extents."""
    starts: list[Any] = [np.int32(0)] * len(sizes)
    for place, axis in enumerate(numbers.start_index_map):
        starts[axis] = start[place]
    if isinstance(start, np.ndarray) and not start.any():
        found = lax.slice(x, (0,) * len(sizes), sizes)
    else:
        found = block(x, starts, sizes)
    kept = [n for axis, n in enumerate(sizes) if axis not in numbers.collapsed_slice_dims]
    return found if len(kept) == len(sizes) else lax.reshape(found, tuple(kept))


_SCATTERS = {
    "add": lax.scatter_add, "maximum": lax.scatter_max, "minimum": lax.scatter_min,
    "multiply": lax.scatter_mul, "subtract": lax.scatter_sub,
}  # fmt: skip


@rule("stablehlo.scatter")
def scatter(operation: Operation, *operands: Any) -> Any:
    """Windows of updates; those that are not inside as a whole are left out."""
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    given = stablehlo.ScatterDimensionNumbers(operation.attribute("scatter_dimension_numbers"))
    axes = (
        given.update_window_dims,
        given.inserted_window_dims,
        given.scattered_dims_to_operand_dims,
        given.input_batching_dims,
        given.scatter_indices_batching_dims,
    )
    numbers = lax.ScatterDimensionNumbers(*(tuple(each) for each in axes))
    rows = _vectors_last(indices, given.index_vector_dim)
    return [
        _scattered(operation, place, x, rows, update, numbers)
        for place, (x, update) in enumerate(zip(arrays, updates, strict=True))
    ]


def _scattered(
    operation: Operation, place: int, x: Any, rows: Any, update: Any, numbers: Any
) -> Any:
    found = trees(operation, 0)
    count, is_unique = len(found), operation.flag("unique_indices")
    arguments: dict[str, Any] = {"unique_indices": is_unique, "mode": "drop"}
    if found[place] == count + place:
        return lax.scatter(x, rows, update, numbers, **arguments)
    name = combiner(found[place], place, count + place)
    if name is not None:
        return _SCATTERS[name](x, rows, update, numbers, **arguments)
    if count == 1 and not list(operation.block(0).arguments[1].uses):
        shape, change = shape_of(update), of_elements(operation, 0)
        func = lambda old: change(old, old)[0]  # noqa: E731  the region reads the first alone
        return lax.scatter_apply(x, rows, func, numbers, update_shape=shape, **arguments)
    if count > 1 or not is_unique:
        raise UnsupportedError(
            "from_stablehlo: a scatter whose region is neither a sum, product, extremum nor the "
            "update itself, at indices that may be equal",
            source=operation.source,
            remedy="scatter at unique indices (unique_indices=True)",
        )
    sizes = _window_sizes(shape_of(update), numbers, len(shape_of(x)))
    as_gather = lax.GatherDimensionNumbers(*numbers)
    old = lax.gather(x, rows, as_gather, sizes, mode="clip")
    (new,) = of_elements(operation, 0)(old, update)
    return lax.scatter(x, rows, new, numbers, **arguments)


def _window_sizes(shape: tuple[Any, ...], numbers: Any, rank: int) -> tuple[Any, ...]:
    widths = iter([shape[axis] for axis in numbers.update_window_dims])
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return tuple(1 if axis in single else next(widths) for axis in range(rank))

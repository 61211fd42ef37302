"""Updates at an index: implementation of `x.at[i].set(v)` and the like.

One element or block, and positions that are known while tracing, are single operations. Others
are written in turn, by a loop that changes the array in place: an index may repeat.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.index_plan import Plan, as_index, plan_index
from rlx.numpy.indexing import (
    block_sizes,
    block_starts,
    dynamic_slice,
    dynamic_update_slice,
    is_block,
    pick,
    read_block,
)
from rlx.numpy.shaping import broadcast_to, ravel, reshape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, graph, wrap
from rlx.tracing.loops import scan_rows
from rlx.tracing.promotion import promote_types
from rlx.tracing.trace import TracedArray, element_type, innermost

P = ParamSpec("P")
Change = Callable[[Any, Any], Any]
"""An element and the value for it -> the new element."""


def _in_scope(name: str) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Let the nodes of a function bear the name of what the user wrote."""

    def named(body: Callable[P, Any]) -> Callable[P, Any]:
        @functools.wraps(body)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            with graph().scope(name):
                return body(*args, **kwargs)

        return call

    return named


@function
@_in_scope("x.at[index].set")
def index_set(x: Any, index: Any, values: Any) -> Array:
    """`x` with `values` at `index`; of repeated indices the last one stays."""
    x = as_tracer(x)
    plan = plan_index(x, index)
    values = _like_target(x, plan, values)
    if is_block(plan):
        return _set_block(x, plan, values)
    places = _places(x, index, plan)
    if isinstance(places, np.ndarray):
        return _set_static(x, places, values)
    if innermost().runs_once:
        return _set_last(x, ravel(places), ravel(values))
    return _in_turn(x, _rows(x, plan, places, values), lambda _, new: new)


@function
@_in_scope("x.at[index].add")
def index_add(x: Any, index: Any, values: Any) -> Array:
    """`x` with `values` added at `index`; repeated indices add up."""
    x = as_tracer(x)
    plan = plan_index(x, index)
    values = _like_target(x, plan, values)
    if is_block(plan) and plan.arrays:
        return _set_block(x, plan, elementwise.add(_picked(x, plan), values))
    if is_block(plan):
        return elementwise.add(x, _block_in_zeros(x, plan, values))
    places = ravel(_places(x, index, plan))
    total = math.prod(static_shape(x))
    added = emit(ops.scatter_add, ravel(values), as_index(places), size=total)
    return elementwise.add(x, reshape(added, x.shape))


@function
@_in_scope("x.at[index]")
def index_change(x: Any, index: Any, values: Any, change: Change) -> Array:
    """`x` with `change(element, value)` at `index`; one after the other where an index repeats."""
    x = as_tracer(x)
    plan = plan_index(x, index)
    picked = _picked(x, plan)
    values = broadcast_to(values, picked.shape)
    if is_block(plan) or _differ(places := _places(x, index, plan)):
        return index_set(x, index, change(picked, values))
    if innermost().runs_once and change in _FOLDS and _keeps_type(x, values):
        return _fold(x, ravel(places), ravel(values), change)
    return _in_turn(x, _rows(x, plan, places, values), change)


def _picked(x: Any, plan: Plan) -> Any:
    """Return `x[index]`: a block from where it is written to, so that its index is checked once."""
    return read_block(x, plan) if is_block(plan) and plan.arrays else pick(x, plan)


def _set_block(x: Any, plan: Plan, values: Any) -> Any:
    block = reshape(values, block_sizes(plan))
    return emit(ops.dynamic_update_slice, x, block, block_starts(x, plan))


def _block_in_zeros(x: Any, plan: Plan, values: Any) -> Any:
    """Return `values` at their positions in an array of zeros like `x`.

    A negative zero stays one under the sum with another, but not with zero.
    """
    sizes = block_sizes(plan)
    low = tuple(s.start for s in plan.slices)
    room = zip(x.shape, sizes, low, strict=True)
    high = tuple(extent - size - before for extent, size, before in room)
    nothing = -0.0 if x.value.dtype.is_float else 0.0
    return emit(ops.pad, reshape(values, sizes), low=low, high=high, value=nothing)


def _differ(places: Any) -> bool:
    """True for positions that are known not to repeat."""
    if isinstance(places, np.ndarray):
        return len(np.unique(places)) == places.size
    return math.prod(static_shape(places)) < 2


def _like_target(x: Any, plan: Plan, values: Any) -> Any:
    """Convert `values` to the dtype of `x` and broadcast them to the shape of `x[index]`."""
    return broadcast_to(convert(values, x.value.dtype), pick(x, plan).shape)


def _places(x: Any, index: Any, plan: Plan) -> Any:
    """Return the flat positions that `index` picks: known ones as a NumPy array."""
    shape = static_shape(x)
    if not any(isinstance(array, TracedArray) for _, array in plan.arrays):
        return np.asarray(np.arange(math.prod(shape)).reshape(shape)[index])
    return pick(_numbered(shape), plan)


def _numbered(shape: tuple[int, ...]) -> Any:
    """Return the flat position of each element of an array of `shape`."""
    return reshape(wrap(graph().iota(type=TensorType(DType.I64, (math.prod(shape),)))), shape)


def _set_static(x: Any, places: Any, values: Any) -> Any:
    """Every element reads its own value or the last one written to it."""
    source = np.full(math.prod(static_shape(x)), -1)
    source[places.ravel()] = np.arange(places.size)
    if places.size == 0:
        return x
    written = emit(ops.gather, ravel(values), np.maximum(source, 0), axis=0)
    chosen = elementwise.where(source >= 0, written, ravel(x))
    return reshape(chosen, x.shape)


def _set_last(x: Any, places: Any, values: Any) -> Any:
    """Every element reads the last value that is written to it, found by a scatter of numbers."""
    count, total = math.prod(static_shape(places)), math.prod(static_shape(x))
    if count == 0:
        return x
    numbers = wrap(graph().iota(type=TensorType(DType.I64, (count,))))
    source = emit(ops.scatter_max, numbers, as_index(places), size=total)
    written = emit(ops.gather, values, elementwise.maximum(source, 0), axis=0)
    chosen = elementwise.where(elementwise.greater_equal(source, 0), written, ravel(x))
    return reshape(chosen, x.shape)


_FOLDS: dict[Change, OpDef] = {
    elementwise.multiply: ops.scatter_mul,
    elementwise.maximum: ops.scatter_max,
    elementwise.minimum: ops.scatter_min,
}
"""Changes whose order does not matter: values for one element are folded first."""


def _keeps_type(x: Any, values: Any) -> bool:
    """True where folding `values` in the type of `x` is what each change would do."""
    dtype: DType = x.value.dtype
    joined = promote_types([element_type(x), element_type(values)]).dtype
    return joined is dtype and (dtype.is_float or dtype.is_int)


def _fold(x: Any, places: Any, values: Any, change: Change) -> Any:
    values, total = convert(values, x.value.dtype), math.prod(static_shape(x))
    folded = emit(_FOLDS[change], values, as_index(places), size=total)
    return convert(change(x, reshape(folded, x.shape)), x.value.dtype)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of an array seen as a matrix: their positions, and a value for each element."""

    places: Any
    values: Any
    width: int


def _rows(x: Any, plan: Plan, places: Any, values: Any) -> _Rows:
    """Return whole rows where arrays pick from the leading axes alone, else single elements."""
    shape = static_shape(x)
    leading = len(plan.arrays)
    whole = all(plan.slices[a] == slice(0, shape[a], 1) for a in range(leading, len(shape)))
    if plan.new_axes or not whole or [a for a, _ in plan.arrays] != list(range(leading)):
        return _Rows(ravel(places), reshape(values, (-1, 1)), 1)
    width = math.prod(shape[leading:])
    rows = ravel(pick(_numbered(shape[:leading]), _of_leading_axes(plan)))
    return _Rows(rows, reshape(values, (static_shape(rows)[0], width)), width)


def _of_leading_axes(plan: Plan) -> Plan:
    """Return a plan of the leading axes alone, from each of which an array picks."""
    leading = len(plan.arrays)
    return Plan(plan.slices[:leading], (), plan.arrays, (), tuple(range(leading)))


def _in_turn(x: Any, rows: _Rows, change: Change) -> Any:
    """Change one row after the other, in place."""
    if math.prod(static_shape(rows.values)) == 0:
        return x

    def step(matrix: Any, row: tuple[Any, Any]) -> tuple[Any, None]:
        place, value = row
        old = reshape(dynamic_slice(matrix, (place, 0), (1, rows.width)), (rows.width,))
        new = convert(change(old, value), x.value.dtype)
        return dynamic_update_slice(matrix, reshape(new, (1, rows.width)), (place, 0)), None

    matrix, _ = scan_rows(step, reshape(x, (-1, rows.width)), (rows.places, rows.values))
    return reshape(matrix, x.shape)

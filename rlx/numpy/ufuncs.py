"""Functions of two arrays with NumPy's methods: `add.reduce`, `maximum.accumulate`, `equal.outer`.

A fold goes from the first element to the last. Where a function of its own says the same (`sum`,
`cummax`), that one is asked; else the fold is a loop over the rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

from rlx.errors import InputError, MutationError, ShapeError
from rlx.ir.dtype import DType
from rlx.numpy import components, cumulative, elementwise, neighbors, reductions
from rlx.numpy.axes import axes_of, static_shape
from rlx.numpy.creation import dtype_of, full_like
from rlx.numpy.index_updates import without_masks
from rlx.numpy.shaping import broadcast_to, concatenate, expand_dims, moveaxis, reshape
from rlx.numpy.updates import index_add, index_change
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert
from rlx.tracing.apply import function as traced
from rlx.tracing.loops import scan_rows
from rlx.tracing.trace import shape_of

Binary = Callable[[Any, Any], Array]


class BinaryFunction(Protocol):
    """An elementwise function of two arrays; `outer(x, y)` pairs all elements of both."""

    __name__: str
    nin: int
    nout: int
    nargs: int
    identity: Any
    outer: Binary

    def __call__(self, x: Any, y: Any) -> Array: ...


class FoldingFunction(BinaryFunction, Protocol):
    """One whose result may be its argument again.

    `reduce(x, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None)` folds
    axes, `accumulate(x, axis=0, dtype=None, out=None)` keeps what it has after each element.
    `at(x, indices, y, inplace=False)` returns `x` changed at `indices`, by one value after the
    other where an index repeats.
    """

    reduce: Callable[..., Array]
    accumulate: Callable[..., Array]
    at: Callable[..., Array]


def _pairing(apply: Any, identity: Any = None) -> Any:
    """Give a function what all functions of two arrays have."""

    def outer(x: Any, y: Any) -> Any:
        x, y = as_tracer(x), as_tracer(y)
        return apply(reshape(x, (*x.shape, *[1] * y.ndim)), y)

    apply.nin, apply.nout, apply.nargs, apply.identity = 2, 1, 3, identity
    apply.outer = _method(apply, outer)
    return apply


def _folding(
    folded: Any,
    identity: Any = None,
    reduce: Callable[..., Any] | None = None,
    accumulate: Callable[..., Any] | None = None,
) -> Any:
    """Give one its folds: by the functions that do the same, if there are such."""
    apply = _pairing(folded, identity)
    name = apply.__name__

    def reduced(x: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
                initial: Any = None, where: Any = None) -> Any:  # fmt: skip
        if where is not None and initial is None and identity is None:
            raise InputError(
                f"{name} has no identity, which where= needs for rows that it leaves out",
                remedy="pass initial= as well",
            )
        fold = reduce or functools.partial(_reduce, apply)
        return fold(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)

    def accumulated(x: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> Any:
        x = as_tracer(x)
        return (accumulate or functools.partial(_accumulate, apply))(x, _line(axis, x.ndim), dtype)

    def changed(x: Any, indices: Any, y: Any, *, inplace: bool = True) -> Any:
        if inplace:
            raise MutationError(
                f"{name}.at changes no array in place: arrays are values",
                remedy=f"write x = {name}.at(x, indices, y, inplace=False)",
            )
        return index_add(x, indices, y) if name == "add" else index_change(x, indices, y, apply)

    apply.reduce = _method(apply, reduced, "reduce")
    apply.accumulate = _method(apply, accumulated, "accumulate")
    apply.at = _by_places(_method(apply, changed, "at"))
    return apply


def _by_places(method: Callable[..., Any]) -> Callable[..., Any]:
    """Turn masks of known elements into places before a trace makes unknown ones of them."""

    @functools.wraps(method)
    def at(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1:
            args = (args[0], without_masks(args[1], shape_of(args[0])), *args[2:])
        return method(*args, **kwargs)

    return at


def _method(owner: Any, body: Callable[..., Any], name: str = "outer") -> Callable[..., Any]:
    body.__name__ = body.__qualname__ = f"{owner.__name__}.{name}"
    return traced(body)


def _line(axis: Any, rank: int) -> int:
    """Return the one axis of an accumulation: an order of several has no meaning."""
    axes = axes_of(axis, rank)
    if len(axes) != 1:
        raise ShapeError(
            f"axis is {axis} for an array of {rank} axes",
            remedy="accumulate along one axis; rlx.numpy.ravel(x) has one",
        )
    return axes[0]


def _reduce(apply: FoldingFunction, x: Any, axis: Any, dtype: Any, *, keepdims: bool,
            initial: Any, where: Any) -> Any:  # fmt: skip
    x = _prepared(apply, x, dtype)
    axes = axes_of(axis, x.ndim)
    rows = _rows(x, axes)
    start = initial
    if start is None and (where is not None or static_shape(rows)[0] < 2):
        start = _identity(apply, x)  # a single row may change: hypot(0, -3) is 3
    if start is None and not static_shape(rows)[0]:
        raise ShapeError(
            f"{apply.__name__}.reduce over {axis} of shape {x.shape} has no rows, and "
            f"{apply.__name__} has no identity",
            remedy="pass initial=, or check for empty arrays before the call",
        )
    mask = None if where is None else _rows(broadcast_to(convert(where, DType.BOOL), x.shape), axes)
    found = _folded(apply, rows, start, mask)
    return expand_dims(found, axes) if keepdims else found


def _identity(apply: FoldingFunction, x: Any) -> Any:
    """Return what a fold of `x` begins with; -1 means all bits, of unsigned integers as well."""
    if apply.identity == -1 and x.value.dtype.is_unsigned_int:
        return elementwise.bitwise_not(full_like(x, 0, shape=()))
    return apply.identity


def _folded(apply: Binary, rows: Any, start: Any, mask: Any) -> Any:
    if start is None:
        carry, rows = rows[0], rows[1:]
    else:
        carry = full_like(rows, start, shape=rows.shape[1:])

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        row, chosen = given
        new = convert(apply(carry, row), carry.value.dtype)
        return (new if chosen is None else elementwise.where(chosen, new, carry)), None

    carry, _ = scan_rows(step, carry, (rows, mask))
    return carry


def _accumulate(apply: Binary, x: Any, axis: int, dtype: Any) -> Any:
    x = _prepared(apply, x, dtype)
    rows = moveaxis(x, axis, 0)
    if not static_shape(rows)[0]:
        return x

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = convert(apply(carry, row), carry.value.dtype)
        return carry, carry

    _, later = scan_rows(step, rows[0], rows[1:])
    return moveaxis(concatenate([rows[:1], later]), 0, axis)


def _rows(x: Any, axes: tuple[int, ...]) -> Any:
    """Return `x` with `axes` in front, as one."""
    moved = moveaxis(x, axes, tuple(range(len(axes))))
    shape = static_shape(moved)
    return reshape(moved, (math.prod(shape[: len(axes)]), *shape[len(axes) :]))


def _prepared(apply: Binary, x: Any, dtype: Any) -> Any:
    """Return `x` in the dtype of the fold's result."""
    x = as_tracer(x)
    if dtype is not None:
        return convert(x, dtype_of(dtype, x.value.dtype))
    one = full_like(x, 1, shape=())
    return convert(x, apply(one, one).value.dtype)


def _typed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else convert(x, dtype_of(dtype, as_tracer(x).value.dtype))


def _extremum(fold: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis, dtype, **more: fold(_typed(x, dtype), axis, **more)


def _logical(fold: Callable[..., Any], apply: Binary) -> Callable[..., Any]:
    def folded(x: Any, axis: Any, dtype: Any, *, initial: Any, **more: Any) -> Any:
        found = fold(x, axis, **more)
        return _typed(found if initial is None else apply(found, initial), dtype)

    return folded


_logical_and = _logical(reductions.all, elementwise.logical_and)
_logical_or = _logical(reductions.any, elementwise.logical_or)
_max, _cummax = _extremum(reductions.max), _extremum(cumulative.cummax)
_min, _cummin = _extremum(reductions.min), _extremum(cumulative.cummin)

add: FoldingFunction = _folding(elementwise.add, 0, reductions.sum, cumulative.cumsum)
multiply: FoldingFunction = _folding(elementwise.multiply, 1, reductions.prod, cumulative.cumprod)
maximum: FoldingFunction = _folding(elementwise.maximum, None, _max, _cummax)
minimum: FoldingFunction = _folding(elementwise.minimum, None, _min, _cummin)
logical_and: FoldingFunction = _folding(elementwise.logical_and, True, _logical_and)
logical_or: FoldingFunction = _folding(elementwise.logical_or, False, _logical_or)
logical_xor: FoldingFunction = _folding(elementwise.logical_xor, False)
bitwise_and: FoldingFunction = _folding(elementwise.bitwise_and, -1)
bitwise_or: FoldingFunction = _folding(elementwise.bitwise_or, 0)
bitwise_xor: FoldingFunction = _folding(elementwise.bitwise_xor, 0)
subtract: FoldingFunction = _folding(elementwise.subtract)
divide: FoldingFunction = _folding(elementwise.divide)
floor_divide: FoldingFunction = _folding(elementwise.floor_divide)
remainder: FoldingFunction = _folding(elementwise.remainder)
fmod: FoldingFunction = _folding(elementwise.fmod)
power: FoldingFunction = _folding(elementwise.power)
float_power: FoldingFunction = _folding(elementwise.float_power)
arctan2: FoldingFunction = _folding(elementwise.arctan2)
hypot: FoldingFunction = _folding(elementwise.hypot, 0)
logaddexp: FoldingFunction = _folding(elementwise.logaddexp, float("-inf"))
logaddexp2: FoldingFunction = _folding(components.logaddexp2, float("-inf"))
fmax: FoldingFunction = _folding(elementwise.fmax)
fmin: FoldingFunction = _folding(elementwise.fmin)
gcd: FoldingFunction = _folding(components.gcd, 0)
lcm: FoldingFunction = _folding(components.lcm)
copysign: FoldingFunction = _folding(components.copysign)
nextafter: FoldingFunction = _folding(neighbors.nextafter)
heaviside: FoldingFunction = _folding(components.heaviside)
left_shift: FoldingFunction = _folding(elementwise.left_shift)
right_shift: FoldingFunction = _folding(elementwise.right_shift)
equal: BinaryFunction = _pairing(elementwise.equal)
not_equal: BinaryFunction = _pairing(elementwise.not_equal)
less: BinaryFunction = _pairing(elementwise.less)
less_equal: BinaryFunction = _pairing(elementwise.less_equal)
greater: BinaryFunction = _pairing(elementwise.greater)
greater_equal: BinaryFunction = _pairing(elementwise.greater_equal)

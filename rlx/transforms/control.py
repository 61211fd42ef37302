"""Loops over trees of arrays: signatures and meanings are JAX's.

    last, rows = rlx.scan(lambda total, x: (total + x, total), 0.0, xs)

Outside any trace they are evaluated at once. `unroll` is taken and has no effect: how often a
loop is unrolled is the compiler's choice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError
from rlx.ir.shape import Dim, Extent
from rlx.ir.source_lines import calling_source
from rlx.tracing.apply import static_int
from rlx.tracing.bodies import (
    at_once,
    require_arguments,
    require_scalar,
    tracers,
)
from rlx.tracing.loops import count_steps, repeat_while, scan_rows
from rlx.tracing.promotion import ElementType, promote_types
from rlx.tracing.pytree import leaf_names, tree_flatten, tree_map
from rlx.tracing.trace import TracedArray, as_value, element_type, shape_of
from rlx.tracing.tracer import Tracer
from rlx.transforms.batch import vmap

Function = Callable[..., Any]


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: Extent | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,  # noqa: ARG001  part of the signature
    *,
    checkpoints: int | Literal["sqrt"] | None = None,
) -> Any:
    """Run `carry, y = f(carry, x)` over the rows of `xs`; return the last carry and all `y`.

    Without `xs`, `f` is given `None` and `length` says how often. With `reverse` the rows are
    taken from the last to the first. A symbolic number of steps is one within its bound: so many
    are run, the others are skipped. Reverse-mode derivatives store the carries of at most
    `checkpoints` steps, where that is given, and compute the others again; `"sqrt"` means
    the square root of the number of steps, with which memory is least.
    """
    require_arguments("scan", "body", f, ("carry", "x"))

    def run(init: Any, xs: Any) -> Any:
        return scan_rows(f, init, xs, length, reverse, checkpoints)

    return at_once("scan", run, init, xs)


def while_loop(
    cond_fun: Function, body_fun: Function, init_val: Any, *, max_trips: int | None = None
) -> Any:
    """Run `value = body_fun(value)` as long as `cond_fun(value)` holds; return the last value.

    With `max_trips` the loop ends after so many trips at the latest, and reverse-mode
    derivatives exist; they store as many steps.
    """

    require_arguments("while_loop", "condition", cond_fun, ("value",))
    require_arguments("while_loop", "body", body_fun, ("value",))

    def run(init_val: Any) -> Any:
        return repeat_while(cond_fun, body_fun, init_val, max_trips)

    return at_once("while_loop", run, init_val)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: int | bool | None = None,  # noqa: ARG001  part of the signature
) -> Any:
    """Run `value = body_fun(i, value)` for `i` from `lower` up to, and without, `upper`.

    Bounds that are numbers make a scan, which has derivatives in both modes; traced ones make
    a while loop, which has them in forward mode.
    """
    require_arguments("fori_loop", "body", body_fun, ("i", "value"))
    type = _index_type(lower, upper)
    if isinstance(lower, TracedArray) or isinstance(upper, TracedArray):
        return _fori_while(type, lower, upper, body_fun, init_val)
    first, last = (bound if isinstance(bound, Dim) else int(bound) for bound in (lower, upper))

    @functools.wraps(body_fun)
    def step(value: Any, index: Any) -> Any:
        return body_fun(index, value), None

    def run(init_val: Any) -> Any:
        count = last - first
        only = count if isinstance(count, Dim) else None
        counted = rnp.arange(max(count if only is None else only.upper, 0)) + first
        indices = Tracer(counted.owner, as_value(counted, type.dtype), type.weak)
        return scan_rows(step, init_val, indices, only=only)[0]

    return at_once("fori_loop", run, init_val)


def _fori_while(
    type: ElementType, lower: Any, upper: Any, body_fun: Function, init_val: Any
) -> Any:
    (first,) = tracers([as_value(lower, type.dtype)], [type.weak])
    (last,) = tracers([as_value(upper, type.dtype)], [type.weak])

    @functools.wraps(body_fun)
    def step(carry: Any) -> Any:
        index, value = carry
        return index + 1, body_fun(index, value)

    def within(carry: Any) -> Any:
        return carry[0] < last

    return repeat_while(within, step, (first, init_val), None)[1]


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply `f` to the rows of `xs` one after the other; return the stacked results.

    With `batch_size`, so many rows at a time are handled by `rlx.vmap`.
    """

    require_arguments("map", "function", f, ("x",))

    @functools.wraps(f)
    def step(_: None, x: Any) -> Any:
        return None, f(x)

    def run(xs: Any) -> Any:
        if batch_size is None:
            return scan_rows(step, None, xs)[1]
        return _map_batches(f, xs, static_int(batch_size, "batch_size", calling_source()))

    return at_once("map", run, xs)


def _map_batches(f: Function, xs: Any, size: int) -> Any:
    if size < 1:
        raise InputError(
            f"map: batch_size is {size}; it must be at least 1",
            source=calling_source(),
            remedy="give a batch_size of 1 or more, or none",
        )
    leaves, tree = tree_flatten(xs)
    count = count_steps(leaves, leaf_names(tree, "xs"), None)
    if not isinstance(count, int):
        return map(f, xs)  # how many whole batches there are is known at the call
    full = count - count % size

    def batches(x: Any) -> Any:
        return rnp.reshape(x[:full], (full // size, size, *shape_of(x)[1:]))

    def joined(y: Any) -> Any:
        return rnp.reshape(y, (full, *shape_of(y)[2:]))

    done = tree_map(joined, map(vmap(f), tree_map(batches, xs)))
    if full == count:
        return done
    rest = vmap(f)(tree_map(lambda x: x[full:], xs))
    return tree_map(lambda a, b: rnp.concatenate([a, b]), done, rest)


def _index_type(lower: Any, upper: Any) -> ElementType:
    for name, bound in (("lower", lower), ("upper", upper)):
        require_scalar("fori_loop", f"the {name} bound", bound)
        if not element_type(bound).dtype.is_int:
            raise DTypeError(
                f"fori_loop: the {name} bound has dtype {element_type(bound).dtype}; it must be "
                "an integer",
                source=calling_source(),
                remedy="convert the bound with int() or .astype('i64')",
            )
    return promote_types([element_type(lower), element_type(upper)])

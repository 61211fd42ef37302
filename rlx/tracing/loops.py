"""Tracing of loops over the rows of arrays: implementation of `rlx.scan` and the like.

The trace is open and the body takes what it is given; `rlx.transforms.control` sees to both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.ops.bounded_scan import scan_to_extent
from rlx.ir.shape import Dim, Extent, is_at_most
from rlx.ir.source_lines import calling_source
from rlx.passes.rewrite import has_effect
from rlx.tracing.apply import emit, static_int
from rlx.tracing.bodies import (
    apply,
    body_of,
    line_of,
    merged,
    require_carried,
    specified,
    trace_carried,
    tracers,
    values_of,
)
from rlx.tracing.pytree import TreeDef, leaf_names, tree_flatten, tree_unflatten
from rlx.tracing.trace import as_value, shape_of, source_names
from rlx.tracing.traced_function import (
    Specification,
    TracedFunction,
    at_shape,
    trace_body,
    unique_names,
)
from rlx.tracing.tracer import Tracer

Function = Callable[..., Any]


def scan_rows(
    f: Function,
    init: Any,
    xs: Any,
    length: Extent | None = None,
    reverse: bool = False,
    checkpoints: int | Literal["sqrt"] | None = None,
    *,
    only: Dim | None = None,
) -> Any:
    """Append the loop `carry, y = f(carry, x)` to the open trace; the rest as `rlx.scan` has it.

    Steps from `only` on are skipped, none or all where it is below 0 or above their number.
    """
    carries, tree = tree_flatten(init)
    rows, rows_tree = tree_flatten(xs)
    steps = count_steps(rows, leaf_names(rows_tree, "xs"), length)
    if not is_at_most(0, steps):
        raise ShapeError(
            f"scan: the number of steps, {steps}, may be negative",
            source=calling_source(),
            remedy="bound it from below, rlx.Dim(..., min=, max=)",
        )
    if not rows and (not carries or isinstance(steps, Dim)):
        return _scan_of_nothing(f, init, xs, steps, reverse, checkpoints)
    inputs = [*specified(tree, carries, "carry"), *_rows(rows_tree, rows)]
    inputs = _renamed(inputs)
    count = len(carries)

    def call(arrays: list[Tracer]) -> Any:
        carry = tree_unflatten(tree, arrays[:count])
        return f(carry, tree_unflatten(rows_tree, arrays[count:]))

    program, inputs = trace_carried(call, source_names(f, "body"), inputs, count)
    carry_tree, _ = _pair(f, program.tree)
    require_carried("scan", f, inputs[:count], tree, program, carry_tree)
    captured = [as_value(traced) for traced in program.captured]
    given = values_of([*carries, *rows], inputs)
    body = body_of(program, program.captured, leading=count)
    if not body.outputs:
        effects = [node for node in body.nodes if has_effect(node)]
        if not effects:
            return tree_unflatten(program.tree, [])  # a loop that gives nothing is none
        body.set_outputs(effects[-1].results[-1:])
    most = steps.upper if isinstance(steps, Dim) else steps
    results = scan_to_extent(
        given[:count],
        captured,
        given[count:],
        body=body,
        length=steps if only is None else only,
        reverse=bool(reverse),
        checkpoints=_checkpoints(checkpoints, most),
    )
    results = results[: len(program.weak)]
    last, stacked = tree_unflatten(program.tree, tracers(results, program.weak))
    return last, stacked


def repeat_while(
    cond_fun: Function, body_fun: Function, init_val: Any, max_trips: int | None
) -> Any:
    """Append a while loop to the open trace; the rest as `rlx.while_loop` has it."""
    carries, tree = tree_flatten(init_val)

    def with_tree(function: Function) -> Callable[[list[Tracer]], Any]:
        return lambda arrays: function(tree_unflatten(tree, arrays))

    inputs = specified(tree, carries, "carry")
    name = source_names(body_fun, "body")
    body, inputs = trace_carried(with_tree(body_fun), name, inputs, len(carries))
    require_carried("while_loop", body_fun, inputs, tree, body, body.tree)
    condition = trace_body(with_tree(cond_fun), source_names(cond_fun, "condition"), inputs)
    _require_condition(cond_fun, condition)
    captured = merged([body, condition])
    results = apply(
        ops.while_loop,
        [*values_of(carries, inputs), *(as_value(traced) for traced in captured)],
        condition=body_of(condition, captured),
        body=body_of(body, captured),
        num_consts=len(captured),
        max_trips=max_trips,
    )
    return tree_unflatten(tree, tracers(results[:-1], body.weak))


def _require_condition(cond_fun: Function, condition: TracedFunction) -> None:
    name = source_names(cond_fun, "condition")
    if condition.tree.cls is not None:
        raise InputError(
            f"while_loop: condition {name!r} returns {condition.tree}; it must return one bool",
            source=line_of(cond_fun),
            remedy="return one comparison, as in value[0] < 10",
        )
    (output,) = condition.graph.outputs
    if output.shape:
        raise ShapeError(
            f"while_loop: condition {name!r} has shape {output.type.describe_shape()}; it must "
            "be a scalar",
            source=output.node.source or line_of(cond_fun),
            remedy="reduce it with rlx.numpy.all or rlx.numpy.any",
        )
    if output.dtype is not DType.BOOL:
        raise DTypeError(
            f"while_loop: condition {name!r} has dtype {output.dtype}; it must be a bool",
            source=output.node.source or line_of(cond_fun),
            remedy="compare, as in x != 0",
        )


def _scan_of_nothing(
    f: Function, init: Any, xs: Any, steps: Extent, reverse: bool,
    checkpoints: int | Literal["sqrt"] | None,
) -> Any:  # fmt: skip
    """Run steps that are given no arrays over rows that they do not look at."""

    @functools.wraps(f)
    def step(carry: Any, _: Any) -> Any:
        return f(carry, xs)

    rows = emit(ops.expand, np.False_, shape=(steps,))
    return scan_rows(step, init, rows, None, reverse, checkpoints)


def _rows(tree: TreeDef, leaves: Sequence[Any]) -> list[Specification]:
    whole = specified(tree, leaves, "x")
    return [at_shape(s, s.type.shape[1:]) for s in whole]


def _renamed(inputs: Sequence[Specification]) -> list[Specification]:
    names = unique_names([s.name for s in inputs])
    pairs = zip(names, inputs, strict=True)
    return [replace(s, name=name) for name, s in pairs]


def count_steps(rows: Sequence[Any], names: Sequence[str], length: Extent | None) -> Extent:
    """Return the number of steps that `length` and the leading extents of `xs` agree on."""
    found: dict[str, Extent] = {}
    if length is not None:
        known = isinstance(length, Dim)
        found["length"] = (
            length if known else static_int(length, "the length of a scan", calling_source())
        )
    for name, x in zip(names, rows, strict=True):
        shape = shape_of(x)
        if not shape:
            raise ShapeError(
                f"scan: {name} is a number, which has no rows",
                source=calling_source(),
                remedy="let the body capture what is the same at every step",
            )
        found[name] = shape[0]
    if not found:
        raise InputError(
            "scan: neither xs nor length says how many steps to run",
            source=calling_source(),
            remedy="pass length=",
        )
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in found.items())
        raise ShapeError(
            f"scan: the numbers of steps differ: {listed}",
            source=calling_source(),
            remedy="slice xs to one length, and leave length= out",
        )
    return next(iter(found.values()))


def _pair(f: Function, tree: TreeDef) -> tuple[TreeDef, TreeDef]:
    if tree.cls is not tuple or len(tree.children) != 2:
        raise InputError(
            f"scan: body {source_names(f, 'body')!r} returns {tree}; it must return "
            "(carry, output)",
            source=line_of(f),
            remedy="return (carry, None) if the steps have no output",
        )
    carry, output = tree.children
    return carry, output


def _checkpoints(given: int | Literal["sqrt"] | None, steps: int) -> int | None:
    if given == "sqrt":
        return math.isqrt(max(steps, 1) - 1) + 1
    return given if given is None else static_int(given, "checkpoints", calling_source())

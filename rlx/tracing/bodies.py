"""Bodies of loops and branches: user functions traced into graphs of their own.

A body sees nothing of the graph around it, so that what it captures of enclosing traces becomes
further operands. `body_of` makes the graph that an op takes; carries are checked, and weakly
typed ones promoted, here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlx.errors import DTypeError, InputError, ShapeError, Source
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.tracing.promotion import ElementType, promote_types
from rlx.tracing.pytree import TreeDef, leaf_names, leaf_paths, tree_flatten, tree_unflatten
from rlx.tracing.trace import (
    TracedArray,
    as_value,
    captured_name,
    current_trace,
    innermost,
    shape_of,
    source_names,
)
from rlx.tracing.traced_function import (
    Specification,
    TracedFunction,
    specify,
    splice,
    trace,
    trace_body,
    varying_outputs,
)
from rlx.tracing.tracer import Tracer

Function = Callable[..., Any]


def at_once(name: str, function: Function, *trees: Any) -> Any:
    """Call `function`, which needs an open trace; where none is, trace it and evaluate."""
    if current_trace() is not None:
        return function(*trees)
    leaves, tree = tree_flatten(trees)
    inputs = specify(leaf_names(tree, name), leaves)
    program = trace(lambda arrays: function(*tree_unflatten(tree, arrays)), name, inputs)
    results = splice(program.graph, leaves, program.weak)
    return tree_unflatten(program.tree, results)


def specified(tree: TreeDef, leaves: Sequence[Any], name: str) -> list[Specification]:
    return specify(leaf_names(tree, name), leaves)


def trace_carried(
    function: Callable[[list[Tracer]], Any], name: str, inputs: Sequence[Specification], count: int
) -> tuple[TracedFunction, list[Specification]]:
    """Trace a body whose first `count` inputs and outputs are carries.

    A weakly typed carry that comes out as another dtype enters in the common dtype of both, and one
    that varies over more ranks varies over them from the start; the specs are returned
    as they became.
    """
    given = list(inputs)
    while True:
        program = trace_body(function, name, given)
        varying = varying_outputs(program, given)
        carried = [
            replace(_promoted(before, output, weak), varying=before.varying | axes)
            for before, output, weak, axes in zip(
                given[:count], program.graph.outputs, program.weak, varying, strict=False
            )
        ]
        if carried == given[: len(carried)]:  # of the wrong structure, there may be fewer
            return program, given
        given[: len(carried)] = carried


def _promoted(given: Specification, output: Value, weak: bool) -> Specification:
    if not given.weak or output.dtype is given.type.dtype:
        return given
    met = promote_types([ElementType(given.type.dtype, True), ElementType(output.dtype, weak)])
    return replace(given, type=TensorType(met.dtype, given.type.shape), weak=met.weak)


def require_carried(
    what: str,
    function: Function,
    given: Sequence[Specification],
    tree: TreeDef,
    program: TracedFunction,
    returned: TreeDef,
) -> None:
    """Raise unless the body returns carries of the structure and the types that it is given."""
    name = source_names(function, "body")
    if returned != tree:
        raise InputError(
            f"{what}: body {name!r} takes a carry of structure {tree} and returns {returned}",
            source=line_of(function),
            remedy="return the next value of every carry, in the structure of the first",
        )
    labels = leaf_paths(tree, "carry")
    for label, wanted, output in zip(labels, given, program.graph.outputs, strict=False):
        _require_same(what, name, label, wanted.type, output)


def _require_same(what: str, name: str, label: str, type: TensorType, output: Value) -> None:
    if output.type == type:
        return
    changed = "dtype" if output.dtype is not type.dtype else "shape"
    error = DTypeError if changed == "dtype" else ShapeError
    remedy = {
        "dtype": f"cast the result with .astype('{type.dtype}'), or give a first value of "
        f"dtype {output.dtype}",
        "shape": "give a first value of the shape that the body returns",
    }
    raise error(
        f"{what}: body {name!r} changes the {changed} of {label}: it enters as {type} and leaves "
        f"as {output.type}",
        source=output.node.source or calling_source(),
        remedy=remedy[changed],
    )


def require_arguments(what: str, role: str, function: Function, given: Sequence[str]) -> None:
    """Raise unless `function` can be called with positional arguments as many as `given`."""
    try:
        inspect.signature(function).bind(*given)
    except ValueError:  # a function without a signature
        return
    except TypeError as error:
        raise InputError(
            f"{what}: {role} {source_names(function, role)!r} does not take what it is given, "
            f"({', '.join(given)}): {error}",
            source=line_of(function),
            remedy=f"write it as a function of ({', '.join(given)})",
        ) from None


def require_scalar(what: str, name: str, x: Any) -> None:
    if shape_of(x):
        raise ShapeError(
            f"{what}: {name} has shape {TensorType(DType.BOOL, shape_of(x)).describe_shape()}; "
            "it must be a scalar",
            source=calling_source(),
            remedy="choose element by element with rlx.numpy.where, or map with rlx.vmap",
        )


def merged(programs: Sequence[TracedFunction]) -> list[TracedArray]:
    """Return what the programs captured, each value once."""
    found: dict[Value, TracedArray] = {}
    for program in programs:
        for traced in program.captured:
            found.setdefault(traced.value, traced)
    return list(found.values())


def body_of(
    program: TracedFunction,
    captured: Sequence[TracedArray],
    *,
    leading: int | None = None,
    dtypes: Sequence[DType] | None = None,
) -> Graph:
    """Return the graph of a program whose inputs are its arguments and then all of `captured`.

    `leading` arguments come before `captured`, the others after; outputs become `dtypes`.
    """
    graph = Graph(program.graph.name)
    split = len(program.inputs) if leading is None else leading
    values = [_mirrored(graph, value) for value in program.inputs[:split]]
    consts: dict[Value, Value] = {}
    for index, traced in enumerate(captured):
        outer = traced.value
        name = captured_name(traced, index, (*graph.inputs, *program.inputs))
        consts[outer] = graph.input(name, outer.shape, outer.dtype)
    values += [_mirrored(graph, value) for value in program.inputs[split:]]
    values += [consts[traced.value] for traced in program.captured]
    outputs = graph.inline(program.graph, values)
    wanted = dtypes or [output.dtype for output in outputs]
    pairs = zip(outputs, wanted, strict=True)
    graph.set_outputs([o if o.dtype is dtype else graph.cast(o, to=dtype) for o, dtype in pairs])
    return graph


def apply(definition: OpDef, operands: Sequence[Value], **attributes: Any) -> tuple[Value, ...]:
    """Append an op with any number of results to the innermost trace."""
    results = innermost().graph.apply(definition, operands, **attributes)
    return (results,) if isinstance(results, Value) else results


def values_of(leaves: Sequence[Any], given: Sequence[Specification]) -> list[Value]:
    """Return `leaves` as values of the innermost trace, of the types specified."""
    return [as_value(x, s.type.dtype) for x, s in zip(leaves, given, strict=True)]


def tracers(values: Sequence[Value], weak: Sequence[bool]) -> list[Tracer]:
    owner = innermost()
    return [Tracer(owner, value, w) for value, w in zip(values, weak, strict=True)]


def line_of(function: Function) -> Source | None:
    """Return where `function` is defined if that is known, else the user's line."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return calling_source()
    return Source(code.co_filename, code.co_firstlineno, code.co_name)


def _mirrored(graph: Graph, value: Value) -> Value:
    return graph.input(str(value.node.name), value.shape, value.dtype)

"""Traced functions: tracing of Python functions, and splicing of their graphs.

`trace` makes the graph of a call; `splice` binds it: inlined into the innermost trace, or run by
the reference interpreter where none is open. Every transformation goes from one to the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import InputError, RlxError
from rlx.ir.digest import graph_digest
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Shape
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.passes.communication.varying import NONE, Axes, Varying
from rlx.passes.fusion.reroll_reductions import reroll_reductions
from rlx.passes.rewrites.inline_calls import inline_calls
from rlx.runtime.arrays import frozen, unshared
from rlx.tracing import eager
from rlx.tracing.axes import rank_axes, varying_axes
from rlx.tracing.pytree import TreeDef, tree_flatten
from rlx.tracing.trace import (
    Trace,
    TracedArray,
    as_value,
    concrete,
    current_trace,
    element_type,
    opened,
    shape_of,
)
from rlx.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Specification:
    """Specification of an input of a traced function: name, type, and whether the type is weak."""

    name: str
    type: TensorType
    weak: bool = False
    varying: Axes = NONE
    """The axes of a mesh over which it varies."""


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A traced function. The graph's inputs are the arguments, then what the trace captured."""

    graph: Graph
    inputs: tuple[Value, ...]
    captured: tuple[TracedArray, ...]
    tree: TreeDef
    """The structure of the result, whose leaves are the graph's outputs."""
    weak: tuple[bool, ...]

    def append_inputs(self, types: Sequence[TensorType], name: str) -> list[Value]:
        """Declare more inputs, after the captured ones."""
        return [
            self.graph.input(f"{name}_{index}", type.shape, type.dtype)
            for index, type in enumerate(types)
        ]


def trace(
    function: Callable[[list[Tracer]], Any],
    name: str,
    inputs: Sequence[Specification],
    *,
    is_final: bool = False,
) -> TracedFunction:
    """Trace `function`, which is given one array per specification.

    `is_final` says that nothing will take the derivative of the program.
    """
    with opened(name) as opening:
        opening.is_final = is_final
        arrays = [_declare(opening, specification) for specification in inputs]
        leaves, tree = tree_flatten(function(arrays))
        outputs = [_output(leaf, name) for leaf in leaves]
        weak = tuple(element_type(leaf).weak for leaf in leaves)
        opening.graph.set_outputs(outputs)
    gathered = reroll_reductions.rewrite(
        opening.graph
    )  # before any derivative multiplies the nodes
    values = tuple(gathered.value_map[array.value] for array in arrays)
    return TracedFunction(gathered.graph, values, tuple(opening.captured), tree, weak)


def trace_body(
    function: Callable[[list[Tracer]], Any], name: str, inputs: Sequence[Specification]
) -> TracedFunction:
    """Trace what becomes a part of the open trace, and is differentiated with that alone."""
    outer = current_trace()
    return trace(function, name, inputs, is_final=outer is not None and outer.is_final)


def varying_outputs(program: TracedFunction, inputs: Sequence[Specification]) -> list[Axes]:
    """Return the axes of a mesh over which each output varies."""
    if not rank_axes():
        return [NONE] * len(program.graph.outputs)
    captured = program.graph.inputs[len(inputs) :]
    known = {value: s.varying for value, s in zip(program.inputs, inputs, strict=True)}
    known.update(zip(captured, map(varying_axes, program.captured), strict=True))
    varying = Varying(known)
    return [varying.of(output) for output in program.graph.outputs]


def splice(graph: Graph, operands: Sequence[Any], weak: Sequence[bool]) -> list[Any]:
    """Return the outputs of `graph` at `operands`, one per input in order."""
    types = [value.type for value in graph.inputs]
    target = current_trace()
    if target is None:
        graph = inline_calls(graph)  # nothing derives what runs at once
        pairs = zip(graph.inputs, operands, types, strict=True)
        feeds = {str(v.node.name): concrete(x, type.dtype) for v, x, type in pairs}
        made = _compiled_outputs(graph, list(feeds.values()), weak)
        if made is not None:
            return made
        arrays = unshared(evaluate(graph, feeds), operands)
        return [frozen(array, w) for array, w in zip(arrays, weak, strict=True)]
    values = [as_value(x, type.dtype) for x, type in zip(operands, types, strict=True)]
    results = target.graph.inline(graph, values)
    return [Tracer(target, value, w) for value, w in zip(results, weak, strict=True)]


def _compiled_outputs(
    graph: Graph, arrays: Sequence[Any], weak: Sequence[bool]
) -> list[Any] | None:
    """Run a graph of much work compiled, where it ran often enough; None: interpret it.

    Errors are raised by the interpreter, too.
    """
    cost = eager.counted_work(graph)
    key = graph_digest(graph) if cost else None
    if key is None:
        return None
    with contextlib.suppress(RlxError):
        made = eager.run_compiled((key, tuple(weak)), graph, cost, weak, arrays)
        return None if made is None else list(made)
    return None


def specify(names: Sequence[str], leaves: Sequence[Any]) -> list[Specification]:
    """Describe arguments by what they are."""
    return [
        specification(name, leaf) for name, leaf in zip(unique_names(names), leaves, strict=True)
    ]


def specification(name: str, leaf: Any) -> Specification:
    if isinstance(leaf, TensorType):
        return Specification(name, leaf)
    require_array(name, leaf)
    type = element_type(leaf)
    return Specification(
        name, TensorType(type.dtype, shape_of(leaf)), type.weak, varying_axes(leaf)
    )


def at_shape(given: Specification, shape: Shape) -> Specification:
    """Return `given` with another shape."""
    return replace(given, type=replace(given.type, shape=shape))


def is_array(leaf: Any) -> bool:
    """True for arrays and numbers."""
    return isinstance(leaf, (TracedArray, np.ndarray, np.generic, int, float, complex))


def require_array(name: str, leaf: Any) -> None:
    """Raise InputError unless `leaf` counts as an array."""
    if not is_array(leaf):
        raise InputError(
            f"argument {name!r} holds an object of type {type(leaf).__name__}, which is not an "
            "array",
            source=calling_source(),
            remedy="pass arrays, numbers, or trees of them; name other arguments in "
            "static_argnums or static_argnames",
        )


def unique_names(names: Sequence[str]) -> list[str]:
    """Return identifiers made of `names`, made distinct by numbers where they are equal."""
    found: dict[str, None] = {}
    for name in names:
        clean = "".join(c if c.isalnum() and c.isascii() else "_" for c in name) or "x"
        clean = clean if clean[0].isalpha() or clean[0] == "_" else f"x{clean}"
        unique, suffix = clean, 1
        while unique in found:
            suffix += 1
            unique = f"{clean}_{suffix}"
        found[unique] = None
    return list(found)


def _declare(opening: Trace, given: Specification) -> Tracer:
    shape: Shape = given.type.shape
    dtype: DType = given.type.dtype
    value = opening.graph.input(given.name, shape, dtype)
    if given.varying:
        opening.varying.known[value] = given.varying
    return Tracer(opening, value, given.weak)


def _output(leaf: Any, name: str) -> Value:
    if not is_array(leaf):
        raise InputError(
            f"{name} returns an object of type {type(leaf).__name__}, which is not an array",
            source=calling_source(),
            remedy="return arrays, numbers, or trees of them",
        )
    return as_value(leaf)

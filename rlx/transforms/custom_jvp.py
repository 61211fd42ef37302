"""`custom_jvp`: functions with a custom derivative for both modes.

@rlx.custom_jvp
def root(x): return rlx.numpy.sqrt(x)

@root.defjvp
def _(primals, tangents):
    y = root(*primals)
    return y, tangents[0] / (2 * y)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.graph import Graph, Value
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.passes.algebra import or_zeros, zeros
from rlx.passes.autodiff import vjp_in_graph
from rlx.tracing.apply import wrap
from rlx.tracing.arguments import Chosen
from rlx.tracing.bodies import body_of, line_of, merged
from rlx.tracing.pytree import flatten_like, tree_map
from rlx.tracing.trace import TracedArray, innermost, source_names
from rlx.tracing.traced_function import TracedFunction, trace
from rlx.tracing.tracer import Tracer
from rlx.transforms.custom_functions import (
    Captured,
    CustomFunction,
    Stated,
    declared,
    of_type,
    recomputed,
    refuse_symbolic_zeros,
)

Function = Callable[..., Any]


class CustomJvp(CustomFunction):
    """A function whose derivative, in both modes, is given by `defjvp`."""

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """State the derivative: `jvp(*fixed, primals, tangents)` returns result and tangent.

        It is linear in the tangents, of which reverse mode takes the transpose.
        """
        refuse_symbolic_zeros(self.__name__, symbolic_zeros)
        self._rule = functools.partial(_state_jvp, jvp)
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """State it per argument: `jvp(tangent, result, *primals)`; `None` for zero."""
        if self._fixed:
            raise InputError(
                f"custom_jvp: {self.__name__!r} has nondiff_argnums, which defjvps does not take",
                source=calling_source(),
                remedy="use defjvp",
            )

        def jvp(primals: Any, tangents: Any) -> Any:
            result = self(*primals)
            parts = [
                rule(tangent, result, *primals)
                for rule, tangent in zip(jvps, tangents, strict=True)
                if rule is not None
            ]
            if not parts:
                return result, tree_map(rnp.zeros_like, result)
            return result, functools.reduce(lambda a, b: tree_map(rnp.add, a, b), parts)

        self.defjvp(jvp)


def custom_jvp(fun: Function, nondiff_argnums: Sequence[int] = ()) -> CustomJvp:
    """Return `fun` as a function whose derivative, in both modes, `defjvp` states."""
    return CustomJvp(fun, nondiff_argnums)


def _state_jvp(jvp: Function, chosen: Chosen, fixed: list[Any], name: str) -> Stated:
    primal = trace(chosen.call, name, chosen.inputs)
    forward = traced_rule(jvp, primal, chosen, fixed, name)
    captured = merged([primal, forward])
    pushed = pushforward(forward, primal, captured)
    bodies = {
        "body": body_of(primal, captured),
        "jvp_body": pushed,
        "vjp_body": _transposed(pushed, primal, len(captured)),
        "forward": rule_results(forward, primal, captured),
    }
    return Stated(primal.tree, primal.weak, captured, bodies)


def traced_rule(
    jvp: Function, primal: TracedFunction, chosen: Chosen, fixed: list[Any], name: str
) -> TracedFunction:
    """Trace `jvp` as a function of primals and tangents to results and their tangents."""
    count = len(chosen.inputs)
    tangents = [replace(s, name=f"t_{s.name}") for s in chosen.inputs]

    def call(arrays: list[Tracer]) -> list[Any]:
        primals = tuple(chosen.trees_of(arrays[:count]))
        returned = jvp(*fixed, primals, tuple(chosen.trees_of(arrays[count:])))
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise InputError(
                f"custom_jvp: {source_names(jvp, 'jvp')!r} of {name!r} must return "
                "(result, tangent)",
                source=line_of(jvp),
                remedy="return a pair: (result, tangent)",
            )
        results = flatten_like(primal.tree, returned[0], f"custom_jvp: the result of {name!r}")
        leaves = flatten_like(primal.tree, returned[1], f"custom_jvp: the tangent of {name!r}")
        pairs = zip(primal.graph.outputs, leaves, strict=True)
        return [*results, *(_tangent(jvp, name, output.type, leaf) for output, leaf in pairs)]

    return trace(call, source_names(jvp, "jvp"), [*chosen.inputs, *tangents])


def _tangent(jvp: Function, name: str, type: TensorType, leaf: Any) -> Any:
    if not type.dtype.is_differentiable:
        return wrap(zeros(innermost().graph, type))
    return of_type(f"custom_jvp: the tangent of {name!r}", type, leaf, jvp)


def pushforward(
    forward: TracedFunction, primal: TracedFunction, captured: Sequence[TracedArray]
) -> Graph:
    """Return the rule as a function of operands, results and a tangent per operand."""
    graph = Graph(forward.graph.name)
    types = [value.type for value in primal.inputs]
    operands = declared(graph, types, "x")
    consts = Captured(graph, captured)
    results = declared(graph, [output.type for output in primal.graph.outputs], "y")
    tangents = declared(graph, types, "t")
    declared(graph, [const.type for const in consts.values], "t_captured")
    given = [*operands, *tangents, *consts.of(forward)]
    value_map = recomputed(graph, forward, given, results)
    graph.set_outputs(value_map[value] for value in forward.graph.outputs[len(results) :])
    return graph


def rule_results(
    forward: TracedFunction, primal: TracedFunction, captured: Sequence[TracedArray]
) -> Graph | None:
    """Return the rule's results as a function of the operands, if they are the function's."""
    graph = Graph(forward.graph.name)
    types = [value.type for value in primal.inputs]
    operands = declared(graph, types, "x")
    consts = Captured(graph, captured)
    still = [zeros(graph, type) for type in types]
    outputs = graph.inline(forward.graph, [*operands, *still, *consts.of(forward)])
    graph.set_outputs(outputs[: len(primal.graph.outputs)])
    pairs = zip(graph.outputs, primal.graph.outputs, strict=True)
    return graph if all(one.type == other.type for one, other in pairs) else None


def _transposed(pushed: Graph, primal: TracedFunction, num_consts: int) -> Graph:
    """Return the transpose of a pushforward by its tangents, in which it is linear."""
    graph = Graph(f"{pushed.name}_transposed")
    count = len(primal.inputs) + num_consts
    results = len(primal.graph.outputs)
    given = [_again(graph, value) for value in pushed.inputs[: count + results]]
    cotangents = declared(graph, [output.type for output in primal.graph.outputs], "ct")
    tangents = [zeros(graph, value.type) for value in given[:count]]
    moved = graph.inline(pushed, [*given, *tangents])
    flows = [value.dtype.is_differentiable for value in moved]
    wanted = [tangent for tangent in tangents if tangent.dtype.is_differentiable]
    pulled = vjp_in_graph(
        graph,
        [value for value, f in zip(moved, flows, strict=True) if f],
        wanted,
        [value for value, f in zip(cotangents, flows, strict=True) if f],
    )
    found = dict(zip(wanted, pulled, strict=True))
    graph.set_outputs([or_zeros(graph, found.get(t), t.type) for t in tangents])
    return graph


def _again(graph: Graph, value: Value) -> Value:
    return graph.input(str(value.node.name), value.shape, value.dtype)

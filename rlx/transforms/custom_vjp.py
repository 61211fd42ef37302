"""`custom_vjp`: functions with a custom reverse-mode derivative.

@rlx.custom_vjp
def clipped(x): return x
clipped.defvjp(lambda x: (x, None), lambda _, ct: (rlx.numpy.clip(ct, -1, 1),))
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from rlx.errors import InputError
from rlx.ir.graph import Graph, Value
from rlx.passes.algebra import zeros
from rlx.passes.autodiff.complex_cotangents import from_rules, to_rules
from rlx.tracing.apply import wrap
from rlx.tracing.arguments import Chosen
from rlx.tracing.axes import rank_axes
from rlx.tracing.bodies import body_of, line_of, merged
from rlx.tracing.pytree import TreeDef, flatten_like, tree_unflatten
from rlx.tracing.trace import TracedArray, as_value, innermost, source_names
from rlx.tracing.traced_function import Specification, TracedFunction, trace, varying_outputs
from rlx.tracing.tracer import Tracer
from rlx.transforms import rank_cotangents
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


class CustomVjp(CustomFunction):
    """A function whose reverse-mode derivative is given by `defvjp`."""

    def defvjp(
        self,
        fwd: Function,
        bwd: Function,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,  # noqa: ARG002  part of the signature
    ) -> None:
        """State the derivative.

        `fwd` takes what the function takes and returns its result and residuals; `bwd` takes
        the non-differentiable arguments, the residuals and a cotangent of the result, and
        returns a tuple with a cotangent, or `None` for zero, per differentiable argument. Those of
        complex numbers are by JAX's convention: of a linear function `A`, `A.T` times the result's.
        """
        refuse_symbolic_zeros(self.__name__, symbolic_zeros)
        self._rule = functools.partial(_state_vjp, fwd, bwd)


def custom_vjp(fun: Function, nondiff_argnums: Sequence[int] = ()) -> CustomVjp:
    """Return `fun` as a function whose reverse-mode derivative `defvjp` states.

    Arguments `nondiff_argnums` are passed to the rule as they are and have no derivative.
    """
    return CustomVjp(fun, nondiff_argnums)


def _state_vjp(fwd: Function, bwd: Function, chosen: Chosen, fixed: list[Any], name: str) -> Stated:
    """Trace the function; its pullback runs `fwd` for the residuals, which merges with it."""
    forward = trace(
        dataclasses.replace(chosen, function=fwd).call, source_names(fwd, name), chosen.inputs
    )
    if forward.tree.cls is not tuple or len(forward.tree.children) != 2:
        raise InputError(
            f"custom_vjp: {source_names(fwd, 'fwd')!r} of {name!r} returns {forward.tree}; it must "
            "return (result, residuals)",
            source=line_of(fwd),
            remedy="return a pair: (result, residuals)",
        )
    primal = trace(chosen.call, name, chosen.inputs)
    count = forward.tree.children[0].leaf_count
    _require_results(name, fwd, primal, forward.tree.children[0], forward.graph.outputs[:count])
    backward = traced_pullback(bwd, forward, chosen, fixed)
    captured = merged([primal, forward, backward])
    bodies = {
        "body": body_of(primal, captured),
        "vjp_body": pullback(backward, forward, captured, count),
        "forward": _results(forward, captured, count),
    }
    return Stated(primal.tree, primal.weak, captured, bodies)


def traced_pullback(
    bwd: Function, forward: TracedFunction, chosen: Chosen, fixed: list[Any]
) -> TracedFunction:
    """Trace `bwd` as a function of the residuals and a cotangent per result."""
    tree, residuals_tree = forward.tree.children
    outputs = [(v.type, weak) for v, weak in zip(forward.graph.outputs, forward.weak, strict=True)]
    count, split = tree.leaf_count, residuals_tree.leaf_count
    varying = varying_outputs(forward, chosen.inputs)
    everywhere = frozenset(axis.name for axis in rank_axes())
    inputs = [
        Specification(f"r_{i}", *each, axes)
        for i, (each, axes) in enumerate(zip(outputs[count:], varying[count:], strict=True))
    ]
    inputs += [
        Specification(f"ct_{i}", type, varying=everywhere)
        for i, (type, _) in enumerate(outputs[:count])
    ]

    def call(arrays: list[Tracer]) -> list[Any]:
        residuals = tree_unflatten(residuals_tree, arrays[:split])
        given = [wrap(from_rules(as_value(ct))) for ct in arrays[split:]]
        cotangent = tree_unflatten(tree, rank_cotangents.taken(given, varying[:count]))
        found = _cotangents(bwd, chosen, bwd(*fixed, residuals, cotangent))
        moved = [wrap(to_rules(as_value(ct))) for ct in found]
        return rank_cotangents.returned(moved, [given.varying for given in chosen.inputs])

    return trace(call, source_names(bwd, "bwd"), inputs)


def _cotangents(bwd: Function, chosen: Chosen, returned: Any) -> list[Any]:
    """Return one cotangent per leaf of the arguments, from what `bwd` returned."""
    given = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if len(given) != len(chosen.trees):
        raise InputError(
            f"custom_vjp: {source_names(bwd, 'bwd')!r} returns {len(given)} cotangents; the "
            f"function has {len(chosen.trees)} differentiable arguments",
            source=line_of(bwd),
            remedy="return a tuple with one cotangent, or None, per differentiable argument",
        )
    inputs = iter(chosen.inputs)
    found: list[Any] = []
    for tree, cotangent in zip(chosen.trees, given, strict=True):
        below = [next(inputs) for _ in range(tree.leaf_count)]
        leaves = [None] * len(below) if cotangent is None else _like(tree, cotangent, bwd)
        found += [_cotangent(bwd, s, leaf) for s, leaf in zip(below, leaves, strict=True)]
    return found


def _like(tree: TreeDef, cotangent: Any, bwd: Function) -> list[Any]:
    return flatten_like(tree, cotangent, f"custom_vjp: the cotangent of {source_names(bwd, 'bwd')}")


def _cotangent(bwd: Function, given: Specification, leaf: Any) -> Any:
    if leaf is None or not given.type.dtype.is_differentiable:
        return wrap(zeros(innermost().graph, given.type))
    what = f"custom_vjp: the cotangent of {given.name!r} from {source_names(bwd, 'bwd')!r}"
    return of_type(what, given.type, leaf, bwd)


def _results(forward: TracedFunction, captured: Sequence[TracedArray], count: int) -> Graph:
    """Return the results of `fwd` as a function of the operands."""
    graph = Graph(forward.graph.name)
    operands = declared(graph, [value.type for value in forward.inputs], "x")
    consts = Captured(graph, captured)
    outputs = graph.inline(forward.graph, [*operands, *consts.of(forward)])
    graph.set_outputs(outputs[:count])
    return graph


def pullback(
    backward: TracedFunction, forward: TracedFunction, captured: Sequence[TracedArray], count: int
) -> Graph:
    """Return `fwd`, then `bwd`, as a function of operands, results and a cotangent per result."""
    graph = Graph(backward.graph.name)
    outputs = forward.graph.outputs
    types = [output.type for output in outputs[:count]]
    operands = declared(graph, [v.type for v in forward.inputs], "x")
    consts = Captured(graph, captured)
    results = declared(graph, types, "y")
    cotangents = declared(graph, types, "ct")
    value_map = recomputed(graph, forward, [*operands, *consts.of(forward)], results)
    residuals = [value_map[value] for value in outputs[count:]]
    pulled = graph.inline(backward.graph, [*residuals, *cotangents, *consts.of(backward)])
    graph.set_outputs([*pulled, *(zeros(graph, const.type) for const in consts.values)])
    return graph


def _require_results(
    name: str, fwd: Function, primal: TracedFunction, tree: TreeDef, outputs: Sequence[Value]
) -> None:
    """Raise unless `fwd` gives the function's result."""
    types = [output.type for output in primal.graph.outputs]
    if tree != primal.tree or [output.type for output in outputs] != types:
        listed = (", ".join(map(str, each)) for each in (types, [o.type for o in outputs]))
        expected, given = listed
        raise InputError(
            f"custom_vjp: {name!r} returns {primal.tree} ({expected}) and "
            f"{source_names(fwd, 'fwd')!r} {tree} ({given}) as its result",
            source=line_of(fwd),
            remedy="return from fwd (result, residuals), with the function's own result",
        )

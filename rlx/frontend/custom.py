"""Functions whose derivatives the user states: `custom_vjp` and `custom_jvp`, as JAX has them.

    @rlx.custom_vjp
    def clipped(x): return x
    clipped.defvjp(lambda x: (x, None), lambda _, ct: (rlx.numpy.clip(ct, -1, 1),))

Arrays that such a function captures instead of taking them as arguments are constants to it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, ShapeError, Source
from rlx.frontend.apply import wrap
from rlx.frontend.arguments import Chosen, choose, positions
from rlx.frontend.bodies import apply, body_of, line_of, merged, tracers, values_of
from rlx.frontend.program import Program, Specification, trace
from rlx.frontend.pytree import TreeDef, flatten_like, tree_map, tree_unflatten
from rlx.frontend.trace import (
    TracedArray,
    as_value,
    current_trace,
    element_type,
    innermost,
    shape_of,
    source_names,
)
from rlx.frontend.tracer import Tracer
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType
from rlx.passes.autodiff import vjp_in_graph
from rlx.passes.autodiff.algebra import zeros

Function = Callable[..., Any]

_MOST_NESTED = 2
"""A rule that calls the function itself gets its rule so many times, then plain derivatives."""


class _Nesting(threading.local):
    """How deep in its own rule a function is being traced in this thread."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


Rule = Callable[[Chosen, list[Any], str], Any]
"""Appends the call of a function, whose name is given last, together with its derivatives."""


class CustomFunction:
    """A function with a rule; until it has one, it cannot be called."""

    def __init__(self, fun: Function, nondiff_argnums: Sequence[int]) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._fixed = tuple(nondiff_argnums)
        self._nesting = _Nesting()
        self._rule: Rule | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = source_names(self._fun, "function")
        if self._rule is None:
            raise InputError(
                f"{name} has no derivative rule yet",
                source=line_of(self._fun),
                remedy="call its defvjp (or defjvp) before the function is used",
            )
        given = _positional(self._fun, args, kwargs)
        if current_trace() is None or self._nesting.depth >= _MOST_NESTED:
            return self._fun(*given)
        fixed = positions(self._fixed, len(given), "nondiff_argnums")
        moving = tuple(i for i in range(len(given)) if i not in fixed)
        chosen = choose(self._fun, given, {}, moving)
        with self._nesting.deeper():
            return self._rule(chosen, [given[i] for i in fixed], name)


class CustomVjp(CustomFunction):
    """A function whose reverse-mode derivative is given by `defvjp`."""

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """State the derivative.

        `fwd` takes what the function takes and returns its result and residuals; `bwd` takes
        the non-differentiable arguments, the residuals and a cotangent of the result, and
        returns a tuple with a cotangent, or `None` for zero, per differentiable argument.
        """
        self._rule = functools.partial(_call_vjp, fwd, bwd)


class CustomJvp(CustomFunction):
    """A function whose derivative, in both modes, is given by `defjvp`."""

    def defjvp(self, jvp: Function) -> Function:
        """State the derivative: `jvp(*fixed, primals, tangents)` returns result and tangent.

        It is linear in the tangents, of which reverse mode takes the transpose.
        """
        self._rule = functools.partial(_call_jvp, jvp)
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """State it per argument: `jvp(tangent, result, *primals)`; `None` for zero."""

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


def custom_vjp(fun: Function, nondiff_argnums: Sequence[int] = ()) -> CustomVjp:
    """Return `fun` as a function whose reverse-mode derivative `defvjp` states.

    Arguments `nondiff_argnums` are passed to the rule as they are and have no derivative.
    """
    return CustomVjp(fun, nondiff_argnums)


def custom_jvp(fun: Function, nondiff_argnums: Sequence[int] = ()) -> CustomJvp:
    """Return `fun` as a function whose derivative, in both modes, `defjvp` states."""
    return CustomJvp(fun, nondiff_argnums)


def _positional(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments by position, defaults included."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        return args
    bound.apply_defaults()
    if bound.kwargs:
        raise InputError(
            f"{source_names(fun, 'function')}: keyword argument {next(iter(bound.kwargs))!r} has "
            "no position, by which a derivative rule could tell it",
            source=line_of(fun),
            remedy="make it a positional argument",
        )
    return bound.args


# Reverse mode


def _call_vjp(fwd: Function, bwd: Function, chosen: Chosen, fixed: list[Any], name: str) -> Any:
    """Call the function; its pullback runs `fwd` for the residuals, which merges with it."""
    forward = trace(
        dataclasses.replace(chosen, function=fwd).call, source_names(fwd, name), chosen.inputs
    )
    if forward.tree.cls is not tuple or len(forward.tree.children) != 2:
        raise InputError(
            f"custom_vjp: {source_names(fwd, 'fwd')!r} of {name!r} returns {forward.tree}; it must "
            "return (result, residuals)",
            source=line_of(fwd),
        )
    primal = trace(chosen.call, name, chosen.inputs)
    count = forward.tree.children[0].leaf_count
    _require_results(name, fwd, primal, forward.tree.children[0], forward.graph.outputs[:count])
    backward = _backward(bwd, forward, chosen, fixed)
    captured = merged([primal, forward, backward])
    results = apply(
        ops.custom_call,
        _operands(chosen, captured),
        body=body_of(primal, captured),
        vjp_body=_pullback(backward, forward, captured, count),
    )
    return tree_unflatten(primal.tree, tracers(results, primal.weak))


def _backward(bwd: Function, forward: Program, chosen: Chosen, fixed: list[Any]) -> Program:
    """Trace `bwd` as a function of the residuals and a cotangent per result."""
    tree, residuals_tree = forward.tree.children
    outputs = [(v.type, weak) for v, weak in zip(forward.graph.outputs, forward.weak, strict=True)]
    count, split = tree.leaf_count, residuals_tree.leaf_count
    inputs = [Specification(f"r_{i}", *each) for i, each in enumerate(outputs[count:])]
    inputs += [Specification(f"ct_{i}", type) for i, (type, _) in enumerate(outputs[:count])]

    def call(arrays: list[Tracer]) -> list[Any]:
        residuals = tree_unflatten(residuals_tree, arrays[:split])
        return _cotangents(
            bwd, chosen, bwd(*fixed, residuals, tree_unflatten(tree, arrays[split:]))
        )

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
    return _of_type(what, given.type, leaf, bwd)


def _pullback(
    backward: Program, forward: Program, captured: Sequence[TracedArray], count: int
) -> Graph:
    """Return `fwd`, then `bwd`, as a function of operands, results and a cotangent per result."""
    graph = Graph(backward.graph.name)
    outputs = forward.graph.outputs
    types = [output.type for output in outputs[:count]]
    operands = _declared(graph, [v.type for v in forward.inputs], "x")
    consts = _Consts(graph, captured)
    results = _declared(graph, types, "y")
    cotangents = _declared(graph, types, "ct")
    image = _recomputed(graph, forward, [*operands, *consts.of(forward)], results)
    residuals = [image[value] for value in outputs[count:]]
    pulled = graph.inline(backward.graph, [*residuals, *cotangents, *consts.of(backward)])
    graph.set_outputs([*pulled, *(zeros(graph, const.type) for const in consts.values)])
    return graph


def _recomputed(
    graph: Graph, program: Program, operands: Sequence[Value], results: Sequence[Value]
) -> dict[Value, Value]:
    """Append a rule's program; what it got by calling the function itself is in `results`."""
    pairs = zip(program.graph.outputs, results, strict=False)
    known = {v: result for v, result in pairs if v.op is ops.custom_call and v.type == result.type}
    image = dict(zip(program.graph.inputs, operands, strict=True)) | known
    for node in program.graph.nodes:
        if not all(result in image for result in node.results):
            graph.copy_node(node, image)
            image |= known
    return image


# Forward mode


def _call_jvp(jvp: Function, chosen: Chosen, fixed: list[Any], name: str) -> Any:
    primal = trace(chosen.call, name, chosen.inputs)
    forward = _forward(jvp, primal, chosen, fixed, name)
    captured = merged([primal, forward])
    pushed = _pushforward(forward, primal, captured)
    results = apply(
        ops.custom_call,
        _operands(chosen, captured),
        body=body_of(primal, captured),
        jvp_body=pushed,
        vjp_body=_transposed(pushed, primal, len(captured)),
    )
    return tree_unflatten(primal.tree, tracers(results, primal.weak))


def _forward(
    jvp: Function, primal: Program, chosen: Chosen, fixed: list[Any], name: str
) -> Program:
    """Trace `jvp` as a function of primals and tangents to results and their tangents."""
    count = len(chosen.inputs)
    tangents = [Specification(f"t_{s.name}", s.type, s.weak) for s in chosen.inputs]

    def call(arrays: list[Tracer]) -> list[Any]:
        primals = tuple(chosen.trees_of(arrays[:count]))
        returned = jvp(*fixed, primals, tuple(chosen.trees_of(arrays[count:])))
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise InputError(
                f"custom_jvp: {source_names(jvp, 'jvp')!r} of {name!r} must return "
                "(result, tangent)",
                source=line_of(jvp),
            )
        results = flatten_like(primal.tree, returned[0], f"custom_jvp: the result of {name!r}")
        leaves = flatten_like(primal.tree, returned[1], f"custom_jvp: the tangent of {name!r}")
        pairs = zip(primal.graph.outputs, leaves, strict=True)
        return [*results, *(_tangent(jvp, name, output.type, leaf) for output, leaf in pairs)]

    return trace(call, source_names(jvp, "jvp"), [*chosen.inputs, *tangents])


def _tangent(jvp: Function, name: str, type: TensorType, leaf: Any) -> Any:
    if not type.dtype.is_differentiable:
        return wrap(zeros(innermost().graph, type))
    return _of_type(f"custom_jvp: the tangent of {name!r}", type, leaf, jvp)


def _pushforward(forward: Program, primal: Program, captured: Sequence[TracedArray]) -> Graph:
    """Return the rule as a function of operands, results and a tangent per operand."""
    graph = Graph(forward.graph.name)
    types = [value.type for value in primal.inputs]
    operands = _declared(graph, types, "x")
    consts = _Consts(graph, captured)
    results = _declared(graph, [output.type for output in primal.graph.outputs], "y")
    tangents = _declared(graph, types, "t")
    _declared(graph, [const.type for const in consts.values], "t_captured")
    given = [*operands, *tangents, *consts.of(forward)]
    image = _recomputed(graph, forward, given, results)
    graph.set_outputs(image[value] for value in forward.graph.outputs[len(results) :])
    return graph


def _transposed(pushed: Graph, primal: Program, num_consts: int) -> Graph:
    """Return the transpose of a pushforward by its tangents, in which it is linear."""
    graph = Graph(f"{pushed.name}_transposed")
    count = len(primal.inputs) + num_consts
    results = len(primal.graph.outputs)
    given = [_again(graph, value) for value in pushed.inputs[: count + results]]
    cotangents = _declared(graph, [output.type for output in primal.graph.outputs], "ct")
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
    graph.set_outputs([_or_zeros(graph, found.get(t), t.type) for t in tangents])
    return graph


# Shared


class _Consts:
    """What a function and its rules captured, as inputs of one graph."""

    def __init__(self, graph: Graph, captured: Sequence[TracedArray]) -> None:
        self.values = _declared(graph, [traced.value.type for traced in captured], "captured")
        sources = [traced.value for traced in captured]
        self._places = dict(zip(sources, self.values, strict=True))

    def of(self, program: Program) -> list[Value]:
        return [self._places[traced.value] for traced in program.captured]


def _or_zeros(graph: Graph, value: Value | None, type: TensorType) -> Value:
    return zeros(graph, type) if value is None else value


def _operands(chosen: Chosen, captured: Sequence[TracedArray]) -> list[Value]:
    return [*values_of(chosen.leaves, chosen.inputs), *map(as_value, captured)]


def _declared(graph: Graph, types: Sequence[TensorType], name: str) -> list[Value]:
    return [graph.input(f"{name}_{i}", t.shape, t.dtype) for i, t in enumerate(types)]


def _again(graph: Graph, value: Value) -> Value:
    return graph.input(str(value.node.name), value.shape, value.dtype)


def _of_type(what: str, type: TensorType, leaf: Any, rule: Function) -> Any:
    """Return a derivative in the type of its primal; only a weakly typed one is converted."""
    if shape_of(leaf) != type.shape:
        raise ShapeError(
            f"{what} has shape {shape_of(leaf)}; it must be {type.describe_shape()}",
            source=_made_at(leaf) or line_of(rule),
            remedy="a derivative has the shape of what it belongs to",
        )
    given = element_type(leaf)
    if given.dtype is not type.dtype and not given.weak:
        raise DTypeError(
            f"{what} has dtype {given.dtype}; it must be {type.dtype}",
            source=_made_at(leaf) or line_of(rule),
            remedy=f"cast it with .astype('{type.dtype}')",
        )
    return wrap(as_value(leaf, type.dtype))


def _made_at(leaf: Any) -> Source | None:
    return leaf.value.node.source if isinstance(leaf, TracedArray) else None


def _require_results(
    name: str, fwd: Function, primal: Program, tree: TreeDef, outputs: Sequence[Value]
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

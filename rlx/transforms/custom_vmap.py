"""`custom_vmap`: functions with a custom batching rule.

@custom_vmap
def solved(a, b): return rlx.numpy.linalg.solve(a, b)

@solved.def_vmap
def _(axis_size, in_batched, a, b):
    return ..., True                    # the result for all examples, and whether it has the axis
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlx.errors import InputError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.passes.vmap.batching import Batching, MaybeBatched
from rlx.passes.vmap.registry import STATED
from rlx.tracing.arguments import Chosen
from rlx.tracing.bodies import body_of, line_of
from rlx.tracing.pytree import (
    TreeDef,
    broadcast_prefix,
    flatten_like,
    tree_flatten,
    tree_map,
    tree_unflatten,
)
from rlx.tracing.trace import source_names
from rlx.tracing.traced_function import Specification, TracedFunction, trace
from rlx.transforms.control import map as map_rows
from rlx.transforms.custom_functions import CustomFunction, Stated

Function = Callable[..., Any]

_numbers = itertools.count()
_Call = tuple[tuple[TreeDef, ...], tuple[Specification, ...], TreeDef]
"""What a rule is asked about: arguments, their types for one example, and the result's tree."""


class CustomVmap(CustomFunction):
    """A function that `vmap` batches by the rule of `def_vmap`; derivatives are its own."""

    _states_derivative = False

    def __init__(self, fun: Function) -> None:
        super().__init__(fun, ())
        self._known: dict[_Call, str] = {}

    def def_vmap(self, vmap_rule: Function) -> Function:
        """State the rule: `rule(axis_size, in_batched, *args)` returns `(result, out_batched)`.

        `in_batched` and `out_batched` are trees of bools: which arrays have the leading batch axis.
        """
        self._known = {}
        self._rule = functools.partial(self._state, vmap_rule)
        return vmap_rule

    def _state(self, rule: Function, chosen: Chosen, fixed: list[Any], name: str) -> Stated:
        del fixed  # nothing is: all arguments may be batched
        primal = trace(chosen.call, name, chosen.inputs)
        call = chosen.trees, tuple(chosen.inputs), primal.tree
        if call not in self._known:
            self._known[call] = f"{name}_{next(_numbers)}"
            STATED[self._known[call]] = functools.partial(_batched, rule, self._fun, call)
        body = body_of(primal, primal.captured)
        attributes: dict[str, Graph | str | None] = {"body": body, "batching": self._known[call]}
        return Stated(primal.tree, primal.weak, primal.captured, attributes)


def custom_vmap(fun: Function) -> CustomVmap:
    """Return `fun` as a function that `vmap` batches by the rule of its `def_vmap`."""
    return CustomVmap(fun)


def sequential_vmap(fun: Function) -> CustomVmap:
    """Return `fun` as a function that `vmap` applies to one example after the other."""
    one = custom_vmap(fun)

    def one_by_one(axis_size: int, in_batched: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        del axis_size
        leaves, tree = tree_flatten(args)
        batched = tree_flatten(tuple(in_batched))[0]

        def example(rows: Sequence[Any]) -> Any:
            given = iter(rows)
            mixed = [next(given) if b else leaf for b, leaf in zip(batched, leaves, strict=True)]
            return one(*tree_unflatten(tree, mixed))

        rows = [leaf for b, leaf in zip(batched, leaves, strict=True) if b]
        results = map_rows(example, rows)
        return results, tree_map(lambda _: True, results)

    one.def_vmap(one_by_one)
    return one


def _batched(
    rule: Function, function: Function, called: _Call, at: Batching, *operands: Value
) -> list[MaybeBatched]:
    """Trace the rule for the operands that are batched, and append it."""
    trees, specifications, result = called
    name, count = source_names(function, "function"), len(specifications)
    if any(at.batched[count:]):
        raise InputError(
            f"custom_vmap: {name!r} captures an array that is batched",
            source=line_of(function),
            remedy="make it an argument, which the rule receives",
        )
    inputs = [
        replace(s, type=operand.type) for s, operand in zip(specifications, operands, strict=False)
    ]
    flags: list[bool] = []

    def call(arrays: list[Any]) -> Any:
        given = rule(at.size, _apart(trees, at.batched), *_apart(trees, arrays))
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise InputError(
                f"custom_vmap: the rule of {name!r} must return (result, out_batched)",
                source=line_of(rule),
                remedy="return a pair: what is computed, and True where it has the batch axis",
            )
        flags.extend(map(bool, broadcast_prefix(given[1], result, "out_batched")))
        return flatten_like(result, given[0], f"custom_vmap: the result of {name!r}'s rule")

    program = trace(call, source_names(rule, "rule"), inputs)
    if program.captured:
        raise InputError(
            f"custom_vmap: the rule of {name!r} captures a traced array",
            source=line_of(rule),
            remedy="make it an argument of the function",
        )
    _require_types(rule, name, program, at, flags)
    results = at.graph.inline(program.graph, operands[:count])
    return [MaybeBatched(result, flag) for result, flag in zip(results, flags, strict=True)]


def _apart(trees: Sequence[TreeDef], leaves: Sequence[Any]) -> list[Any]:
    """Return trees of the leaves, of which there may be more."""
    rest = iter(leaves)
    return [tree_unflatten(tree, [next(rest) for _ in range(tree.leaf_count)]) for tree in trees]


def _require_types(
    rule: Function, name: str, program: TracedFunction, at: Batching, flags: Sequence[bool]
) -> None:
    """Raise where a result of the rule is not that of all examples, or of one, as its flag says."""
    for output, one, flag in zip(program.graph.outputs, at.results, flags, strict=True):
        due = one.with_shape((at.size, *one.shape)) if flag else one
        if output.type != due:
            raise ShapeError(
                f"custom_vmap: the rule of {name!r} returns {output.type}; {due} is due where "
                f"out_batched is {flag}",
                source=output.node.source or line_of(rule),
                remedy="give the batch axis in front where out_batched is True",
            )

"""`checkpoint`, which computes values again instead of keeping them, and policies of what it keeps.

@rlx.checkpoint(policy=checkpoint_policies.save_only_these_names("scores"))
def layer(x, w):
    scores = checkpoint_name(x @ w, "scores")     # kept for the backward pass
    return jnp.tanh(scores)                       # computed again
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.tracing.apply import emit, function
from rlx.tracing.arguments import choose, positions
from rlx.tracing.pytree import tree_map, tree_unflatten
from rlx.tracing.trace import as_value, current_trace, source_names
from rlx.tracing.traced_function import trace_body
from rlx.tracing.tracer import Tracer

Function: TypeAlias = Callable[..., Any]
Policy: TypeAlias = Callable[[Node], bool]
"""Whether the results of a node are kept for the backward pass."""


def checkpoint(
    fun: Function | None = None,
    *,
    policy: Policy | None = None,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """Return `fun`, whose intermediate values a backward pass computes again instead of keeping.

    `policy`, one of `checkpoint_policies` or a function of a node of the traced graph, says which
    it keeps; those inside loops and branches are computed again with these. Arguments of the
    positions `static_argnums` need not be arrays. `prevent_cse` is JAX's: the second computation
    is never merged with the first.
    """
    del prevent_cse
    if fun is None:
        return functools.partial(checkpoint, policy=policy, static_argnums=static_argnums)
    target: Function = fun

    @functools.wraps(target)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        if current_trace() is None:
            return target(*args, **kwargs)
        static = positions(static_argnums, len(args), "static_argnums")
        wanted = tuple(i for i in range(len(args)) if i not in static)
        return _recomputed(target, args, kwargs, wanted, policy)

    return transformed


def _recomputed(
    fun: Function, args: Any, kwargs: Any, wanted: tuple[int, ...], policy: Policy | None
) -> Any:
    """Apply `fun`, traced into a body of its own, to the arguments at the positions `wanted`."""
    target = current_trace()
    assert target is not None
    chosen = choose(fun, args, kwargs, wanted)
    program = trace_body(chosen.call, source_names(fun, "function"), chosen.inputs)
    operands = [as_value(x) for x in (*chosen.leaves, *program.captured)]
    if not operands:
        return fun(*args, **kwargs)
    kept = _kept(program.graph, policy) if policy else []
    program.graph.set_outputs([*program.graph.outputs, *kept])
    made = target.graph.apply(ops.checkpoint, operands, body=program.graph, kept=len(kept))
    values = (made,) if isinstance(made, Value) else made
    arrays = [Tracer(target, v, w) for v, w in zip(values, program.weak, strict=False)]
    return tree_unflatten(program.tree, arrays)


def _kept(graph: Graph, policy: Policy) -> list[Value]:
    """Return the values that `policy` keeps, leaves apart: these are there anyway.

    Of a value with a name it is the value itself, which the op that makes it may ask for.
    """
    nodes = [node for node in graph.nodes if policy(node)]
    values = (x for n in nodes for x in (n.operands if n.op is ops.named else n.results))
    return [value for value in dict.fromkeys(values) if Trait.LEAF not in value.op.traits]


@function
def _named(x: Any, name: str) -> Any:
    return emit(ops.named, x, name=name)


def checkpoint_name(x: Any, name: str) -> Any:
    """Return `x`, a tree of arrays, known to policies of `checkpoint` by `name`."""
    if not isinstance(name, str):
        raise InputError(f"the name is {name!r}", remedy="name values by strings")
    return x if current_trace() is None else tree_map(lambda leaf: _named(leaf, name), x)


# Policies, of JAX's names


def everything_saveable(node: Node) -> bool:
    """Keep every value: nothing is computed again."""
    del node
    return True


def nothing_saveable(node: Node) -> bool:
    """Keep no value but the operands, as without a policy."""
    del node
    return False


def dots_saveable(node: Node) -> bool:
    """Keep matrix products and convolutions."""
    return Trait.CONTRACTION in node.op.traits


def dots_with_no_batch_dims_saveable(node: Node) -> bool:
    """Keep matrix products whose operands share no batch axis, as those with weights."""
    if not dots_saveable(node):
        return False
    batch = node.attrs.get("lhs_batch")
    return min(x.rank for x in node.operands) <= 2 if batch is None else not batch


def save_only_these_names(*names: str) -> Policy:
    """Keep what `checkpoint_name` calls by one of `names`."""
    return lambda node: node.op is ops.named and node.attrs["name"] in names


def save_any_names_but_these(*names: str) -> Policy:
    """Keep what `checkpoint_name` calls by another name than `names`."""
    return lambda node: node.op is ops.named and node.attrs["name"] not in names


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep every value but those called by one of `names`."""
    return lambda node: node.op is not ops.named or node.attrs["name"] not in names


def save_from_both_policies(one: Policy, other: Policy) -> Policy:
    """Keep what either policy keeps."""
    return lambda node: one(node) or other(node)


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    save_only_these_names=save_only_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_anything_except_these_names=save_anything_except_these_names,
    save_from_both_policies=save_from_both_policies,
)
"""Policies of `checkpoint`, by JAX's names."""

"""Rewrite select(c, update(x, i, v), x) to update(x, i, select(c, v, x[i])).

`cond(p, lambda x: x.at[i].set(v), lambda x: x, x)` in a loop would copy `x` at every step: each
branch has its array to itself. Blocks and places are small, and the one update after the choice
is a store in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.types import TensorType
from rlx.passes.loops.rebuild_body import BodyBuilder
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, live_nodes, rewrite
from rlx.passes.rewrites.update_in_place import slice_in_zeros
from rlx.passes.scalars import splat

_MOST_UPDATES = 8
_SMALL = 4
"""An array is copied rather than written to in blocks that are more than this part of it."""


@graph_pass
def hoist_updates(graph: Graph) -> Rewritten:
    """Rewrite select(c, update(x, i, v), x) to update(x, i, select(c, v, x[i])).

    %1 = switch %c, %x, %v {x, v -> x          %1, %2 = switch %c, %x, %v {
        | dynamic_update_slice x, v, [0]}         x, v -> dynamic_slice x, [0]; [0] | v; [0]}
                                          ->   %3 = dynamic_update_slice %x, %1, %2
    """
    return apply_rewrites(graph, [_choice_of_branches, _choice_of_values])


@dataclass(frozen=True, slots=True)
class _Chain:
    """Updates of an array, the first one first."""

    base: Value
    updates: tuple[Node, ...]


def _chain(value: Value, readers: Mapping[Value, int]) -> _Chain:
    """Return the updates that `value` is made by, as far as nothing else reads in between."""
    updates: list[Node] = []
    while value.op is ops.dynamic_update_slice and readers[value] == 1:
        updates.insert(0, value.node)
        value = value.node.operands[0]
    return _Chain(value, tuple(updates))


def _readers(graph: Graph) -> Counter[Value]:
    """Return how often each value is read by what counts."""
    operands = (operand for node in live_nodes(graph) for operand in node.operands)
    return Counter((*operands, *graph.outputs))


def _writes_in_branch(node: Node) -> bool:
    """True if a branch has an op that may update one slice."""
    branches: tuple[Graph, ...] = node.attribute("branches")
    return any(_may_update(inner) for branch in branches for inner in branch.nodes)


def _may_update(node: Node) -> bool:
    return node.op is ops.dynamic_update_slice or node.op.has(Trait.SCATTERS_SUM)


@rewrite(ops.switch, when=_writes_in_branch)
def _choice_of_branches(node: Node) -> Sequence[Value] | None:
    given: tuple[Graph, ...] = node.attribute("branches")
    branches = tuple(apply_rewrites(b, [_scatter_of_one_slice]).graph for b in given)
    counts = [_readers(branch) for branch in branches]
    hoisted: dict[int, list[_Chain]] = {}
    for place in range(len(node.results)):
        chains = [_chain(b.outputs[place], c) for b, c in zip(branches, counts, strict=True)]
        if _write_one_array(chains, branches):
            hoisted[place] = chains
    if not hoisted:
        return None
    chosen = ops.switch(
        *node.operands,
        branches=tuple(_with_blocks(b, hoisted, number) for number, b in enumerate(branches)),
    )
    rest = iter(chosen if isinstance(chosen, tuple | list) else (chosen,))
    results: list[Value] = []
    for place in range(len(node.results)):
        if place not in hoisted:
            results.append(next(rest))
            continue
        base = hoisted[place][0].base
        if base.op is ops.input:
            array = node.operands[1 + branches[0].inputs.index(base)]
        else:
            array = _zeros(node.operands[0].graph, base.type)
        for _ in _levels(hoisted[place]):
            array = ops.dynamic_update_slice(array, next(rest), next(rest))
        results.append(array)
    return results


@rewrite(ops.scatter_add, ops.gather_backward)
def _scatter_of_one_slice(node: Node) -> Value | None:
    return slice_in_zeros(node)


def _write_one_array(chains: Sequence[_Chain], branches: Sequence[Graph]) -> bool:
    """True if all branches update, in few blocks of the same types, one array, or leave it.

    It is an input, or all zeros: so derivatives with respect to an array begin.
    """
    bases = {
        branch.inputs.index(chain.base) if chain.base.op is ops.input else _is_zero(chain.base)
        for branch, chain in zip(branches, chains, strict=True)
    }
    kinds = {chain.base.op is ops.input for chain in chains}
    if len(bases) != 1 or len(kinds) != 1 or (kinds == {False} and bases == {False}):
        return False
    levels = _levels(chains)
    same = all(
        len({(u.operands[1].type, u.operands[2].type) for u in level}) == 1 for level in levels
    )
    blocks = [level[0].operands[1].type for level in levels]
    return 0 < len(levels) <= _MOST_UPDATES and same and _are_small(blocks, chains[0].base.type)


def _are_small(blocks: Sequence[TensorType], array: TensorType) -> bool:
    sizes = [size for block in blocks if isinstance(size := block.elements, int)]
    whole = array.elements
    fit = not isinstance(whole, int) or _SMALL * sum(sizes) <= whole
    return fit and len(sizes) == len(blocks)


def _levels(chains: Sequence[_Chain]) -> list[list[Node]]:
    """Return the updates that take the same turn, the last ones of all chains together."""
    most = max(len(chain.updates) for chain in chains)
    padded = [(*[None] * (most - len(c.updates)), *c.updates) for c in chains]
    return [[u for u in turn if u is not None] for turn in zip(*padded, strict=True)]


def _with_blocks(branch: Graph, hoisted: dict[int, list[_Chain]], number: int) -> Graph:
    """Return a branch with blocks and places among its outputs, instead of arrays.

    A branch that makes fewer updates than another begins with some that change nothing.
    """
    made = BodyBuilder(branch)
    made.keep(branch.inputs)
    gone = {u for chains in hoisted.values() for u in chains[number].updates}
    kept = live_nodes(branch) - gone
    made.copy(lambda node: node in kept)
    outputs: list[Value] = []
    for place, output in enumerate(branch.outputs):
        if place not in hoisted:
            outputs.append(made.value_map[output])
            continue
        own, levels = hoisted[place][number], _levels(hoisted[place])
        for level in levels[: len(levels) - len(own.updates)]:
            block, starts = level[0].operands[1].type, level[0].operands[2].type
            origin = made.graph.constant([0] * own.base.type.rank, starts.dtype)
            if own.base.op is ops.input:
                array = made.value_map[own.base]
                outputs += (ops.dynamic_slice(array, origin, sizes=block.shape), origin)
            else:
                outputs += (_zeros(made.graph, block), origin)
        for update in own.updates:
            outputs += (made.value_map[operand] for operand in update.operands[1:])
    made.graph.set_outputs(outputs)
    return made.graph


def _is_zero(value: Value) -> bool:
    """True if all bits of all elements are 0."""
    scalar = splat(value)
    return scalar is not None and not any(scalar.tobytes())


def _zeros(graph: Graph, type: TensorType) -> Value:
    return ops.expand(graph.constant(0, type.dtype), shape=type.shape)


def _chooses_update(node: Node) -> bool:
    return any(value.op is ops.dynamic_update_slice for value in node.operands[1:])


@rewrite(ops.where, when=_chooses_update)
def _choice_of_values(node: Node) -> Value | None:
    """The same for `where` by one truth, of an array and itself with a block."""
    truth, *values = node.operands
    truth = truth.node.operands[0] if truth.op is ops.expand else truth
    updates = [v.node for v in values if v.op is ops.dynamic_update_slice]
    arrays = {v.node.operands[0] if v.op is ops.dynamic_update_slice else v for v in values}
    if len(arrays) != 1 or truth.type.elements != 1:
        return None
    array, (_, block, starts) = next(iter(arrays)), updates[0].operands
    same = {(u.operands[1].type, u.operands[2].type) for u in updates}
    if array.type != node.result.type or len(same) != 1 or not _are_small([block.type], array.type):
        return None

    def chosen(operand: int, otherwise: Value) -> Value:
        both = [v.node.operands[operand] if v.node in updates else otherwise for v in values]
        one = ops.reshape(truth, shape=())
        return ops.where(ops.expand(one, shape=otherwise.shape), *both)

    if len(updates) > 1:
        starts = chosen(2, starts)
    old = ops.dynamic_slice(array, starts, sizes=block.shape)
    return ops.dynamic_update_slice(array, chosen(1, old), starts)

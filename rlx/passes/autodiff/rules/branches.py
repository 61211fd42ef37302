"""Derivatives of branches: only the one taken, so that no NaN of another reaches a gradient."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.algebra import or_zeros
from rlx.passes.autodiff.derived import Derivatives, Sparse, place, present
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.sweep import carries, jvp_in_graph, vjp_in_graph
from rlx.passes.loops.loop_steps import fresh_input, mirror, name_of
from rlx.passes.loops.rebuild_body import restricted
from rlx.passes.rewrite import ancestors


@jvp(ops.switch)
def switch_jvp(
    at: Pushforward, selector: Value, *operands: Value, branches: tuple[Graph, ...]
) -> Derivatives:
    tangents = at.tangents[1:]
    flowing = tuple(carries(result) for result in at.results)
    if not any(flowing):
        return None
    pushed = tuple(_pushed(branch, tangents, flowing) for branch in branches)
    moved = ops.switch(selector, *operands, *present(tangents), branches=pushed)
    return place(moved, flowing)


@vjp(ops.switch)
def switch_vjp(
    at: Pullback, selector: Value, *operands: Value, branches: tuple[Graph, ...]
) -> Derivatives:
    wanted = at.wanted[1:]
    pulled = tuple(_pulled(branch, at.cotangents, wanted) for branch in branches)
    given, pulled = _read((*operands, *present(at.cotangents)), pulled)
    return (None, *place(ops.switch(selector, *given, branches=pulled), wanted))


def _read(
    operands: Sequence[Value], branches: Sequence[Graph]
) -> tuple[list[Value], tuple[Graph, ...]]:
    """Leave out operands that no branch reads: in a loop, each would be saved at every step."""
    needed = [ancestors(branch.outputs) for branch in branches]
    read = [
        place
        for place in range(len(operands))
        if any(b.inputs[place] in found for b, found in zip(branches, needed, strict=True))
    ]
    kept = (
        restricted(b, read, b.outputs, found) for b, found in zip(branches, needed, strict=True)
    )
    return [operands[place] for place in read], tuple(kept)


def _pushed(branch: Graph, tangents: Sparse, flowing: tuple[bool, ...]) -> Graph:
    """Return the branch as a function of operands and tangents to tangents."""
    graph = Graph(f"{branch.name}_jvp")
    values = mirror(graph, branch)
    moving = [
        None if t is None else fresh_input(graph, f"t_{name_of(v)}", t.type)
        for v, t in zip(branch.inputs, tangents, strict=True)
    ]
    results = graph.inline(branch, values)
    moved = jvp_in_graph(graph, results, values, moving)
    pairs = zip(results, moved, flowing, strict=True)
    graph.set_outputs(or_zeros(graph, t, result.type) for result, t, flows in pairs if flows)
    return graph


def _pulled(branch: Graph, cotangents: Sparse, wanted: Sequence[bool]) -> Graph:
    """Return the branch as a function of operands and cotangents to cotangents."""
    graph = Graph(f"{branch.name}_vjp")
    values = mirror(graph, branch)
    seeds = [
        None if d is None else fresh_input(graph, f"d_{i}", d.type)
        for i, d in enumerate(cotangents)
    ]
    chosen = [value for value, wants in zip(values, wanted, strict=True) if wants]
    pulled = vjp_in_graph(graph, graph.inline(branch, values), chosen, seeds)
    graph.set_outputs(or_zeros(graph, d, v.type) for v, d in zip(chosen, pulled, strict=True))
    return graph

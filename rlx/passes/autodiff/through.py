"""Derivatives through decompositions: an op is differentiated as the ops of its formula.

The formula is differentiated in a graph of its own, because operands may depend on each other
in the graph around; what the derivative needs is grafted back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.derived import Sparse, graft, place, present
from rlx.passes.autodiff.registry import Pullback, Pushforward
from rlx.passes.autodiff.sweep import jvp_in_graph, vjp_in_graph

Formula: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]
"""`(operands, fixed values) -> results`, some of the op's first ones."""


def pull_through(
    at: Pullback, operands: Sequence[Value], formula: Formula, fixed: Sequence[Value] = ()
) -> Sparse:
    """Return the operands' cotangents, pulled back through `formula`."""
    scratch = Graph("vjp")
    values, others = declare(scratch, "x", operands), declare(scratch, "f", fixed)
    results = formula(values, others)
    cotangents = at.cotangents[: len(results)]
    seeds = place(
        declare(scratch, "d", present(cotangents)), tuple(d is not None for d in cotangents)
    )
    wanted = [value for value, wants in zip(values, at.wanted, strict=True) if wants]
    pulled = vjp_in_graph(scratch, results, wanted, seeds)
    scratch.set_outputs(present(pulled))
    moved = iter(graft(at.graph, scratch, (*operands, *fixed, *present(cotangents))))
    return place((None if p is None else next(moved) for p in pulled), at.wanted)


def push_through(at: Pushforward, operands: Sequence[Value], formula: Formula) -> Sparse:
    """Return the results' tangents, pushed forward through `formula`."""
    scratch = Graph("jvp")
    values = declare(scratch, "x", operands)
    mask = tuple(t is not None for t in at.tangents)
    moving = place(declare(scratch, "t", present(at.tangents)), mask)
    pushed = jvp_in_graph(scratch, formula(values, ()), values, moving)
    scratch.set_outputs(present(pushed))
    moved = iter(graft(at.graph, scratch, (*operands, *present(at.tangents))))
    return tuple(None if p is None else next(moved) for p in pushed)


def declare(graph: Graph, prefix: str, like: Sequence[Value]) -> list[Value]:
    """Declare inputs of the types of `like`."""
    return [graph.input(f"{prefix}{i}", v.shape, v.dtype) for i, v in enumerate(like)]

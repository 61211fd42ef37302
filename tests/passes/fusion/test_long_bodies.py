"""Formulas longer than a body: cut where that stores little, one kernel where it stores much."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.lower import lower_graph
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import Trait
from rlx.ir.types import TensorType
from rlx.passes.fusion import groups
from rlx.passes.pipeline import pipeline
from rlx.runtime.lower import claimed_ops
from rlx.scipy import special
from rlx.target import detect_target

LARGE, SMALL = 1 << 20, 1 << 12
"""Elements of which recomputing broadcasts pays, and of which it does not."""


def compiled(function: Callable[..., Any], size: int, arrays: int = 1) -> Graph:
    graph = rlx.jit(function).graph(*[TensorType(DType.F32, (size,))] * arrays)
    return pipeline(claimed_ops(), detect_target()).run(graph)


def kernels(graph: Graph) -> int:
    return sum(not node.op.has(Trait.LEAF) and node.op.name == "fused" for node in graph.nodes)


def slope(function: Callable[..., Any], arrays: int) -> Callable[..., Any]:
    return rlx.grad(lambda *x: rnp.sum(function(*x)), argnums=tuple(range(arrays)))


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("function", "arrays"), [(special.gammaln, 1), (rlx.lax.bessel_i1e, 1), (special.betaln, 2)]
)
def test_the_derivative_of_a_long_formula_stores_no_temporaries(
    function: Callable[..., Any], arrays: int, size: int
) -> None:
    graph = compiled(slope(function, arrays), size, arrays)
    needed = sum(value.type.bytes for value in (*graph.inputs, *graph.outputs))
    assert lower_graph(graph).plan.arena_bytes < needed + 4096


@pytest.mark.parametrize("function", [special.digamma, special.erfinv, special.gammaln])
def test_a_sum_of_a_long_formula_stores_no_temporaries(function: Callable[..., Any]) -> None:
    graph = compiled(lambda x: rnp.sum(function(x)), SMALL)
    assert lower_graph(graph).plan.arena_bytes < graph.inputs[0].type.bytes + 4096
    x = np.random.default_rng(0).uniform(0.1, 0.9, SMALL).astype(np.float32)
    total = rlx.compile(graph)(x)[0]
    np.testing.assert_allclose(total, np.sum(np.asarray(function(x)), dtype="f8"), rtol=1e-5)


def test_differences_of_all_pairs_are_not_stored_for_a_long_formula_of_their_sums() -> None:
    def formula(x: Any) -> Any:
        distances = rnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
        return special.erfinv(distances / 1e3) * special.gammaln(1 + distances)

    graph = rlx.jit(formula).graph(TensorType(DType.F32, (64, 64)))
    done = pipeline(claimed_ops(), detect_target()).run(graph)
    assert lower_graph(done).plan.arena_bytes < 64**3 * 4


def test_parts_with_more_edges_than_walks_look_at_are_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "_MOST_EDGES", 16)
    assert kernels(compiled(slope(special.gammaln, 1), SMALL)) == 1


def test_a_chain_is_cut_where_one_value_is_stored() -> None:
    def chain(x: Any) -> Any:
        for number in range(200):
            x = rnp.sin(x) * (1 + number / 256)
        return x

    assert kernels(compiled(chain, SMALL)) > 4


@pytest.mark.slow
def test_what_another_kernel_needs_in_between_stays_cut() -> None:
    """A product of the first half feeds the second, so that one kernel cannot hold both."""

    def halves(x: Any) -> Any:
        powers = [rnp.sin(x * (1 + n / 64)) for n in range(40)]
        squared = functools.reduce(rnp.add, powers).reshape(64, 64)
        mixed = (squared @ rnp.ones((64, 64), "f4")).reshape(-1)
        return sum(p * rnp.cos(mixed + n) for n, p in enumerate(powers))

    x = np.random.default_rng(0).normal(size=SMALL).astype(np.float32)
    graph = rlx.jit(halves).graph(x)
    found = rlx.compile(graph)(x)[0]
    np.testing.assert_allclose(found, rlx.compile(graph, backend="reference")(x)[0], atol=2e-3)

"""Fused bodies that differ in numbers alone are made equal, so that one kernel serves them."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.codegen.kernels.build import WIDEST
from rlx.codegen.lower.graph import lower_graph
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.share_bodies import share_bodies
from rlx.passes.pipeline import pipeline


def layers(*numbers: tuple[float, float]) -> Graph:
    """Return products of 8 x 8, each of which is scaled and shifted by numbers of its own."""
    graph = Graph("layers")
    x: Value = graph.input("x", (8, 8))
    for place, (scale, shift) in enumerate(numbers):
        product = ops.matmul(x, graph.param(f"w{place}", (8, 8)))
        x = ops.maximum(product * scale + shift, graph.constant(0.0))
    graph.set_outputs([x])
    return graph


def bodies(graph: Graph) -> list[Graph]:
    return [node.attribute("body") for node in graph.nodes if node.op is ops.fused]


def test_numbers_that_differ_become_operands_and_others_stay() -> None:
    fused = fuse()(layers((0.5, 2.0), (0.7, 2.0)))
    assert len(set(bodies(fused))) == 2
    shared = share_bodies(fused)
    first, second = bodies(shared)
    assert first == second
    inputs = [node.name for node in first.nodes if node.op is ops.input]
    assert inputs == ["a", "b", "number_1"]
    kept = [node.attribute("value").array.item() for node in first.nodes
            if node.op is ops.constant]  # fmt: skip
    assert sorted(kept) == [0.0, 2.0]


def test_equal_and_single_bodies_stay_as_they_are() -> None:
    for numbers in ([(0.5, 2.0)], [(0.5, 2.0), (0.5, 2.0)]):
        fused = fuse()(layers(*numbers))
        assert share_bodies(fused) is fused


def test_short_kernels_keep_their_literals() -> None:
    graph = Graph("scales")
    x, y = graph.input("x", (8,)), graph.input("y", (8,))
    graph.set_outputs([ops.exp(x * 2.0) + 1.0, ops.exp(y * 3.0) + 1.0])
    fused = fuse()(graph)
    assert len(bodies(fused)) == 2
    assert share_bodies(fused) is fused


@pytest.mark.parametrize("backend", ["reference", "llvm", "c"])
def test_one_kernel_serves_both_and_results_are_those_of_literals(backend: str) -> None:
    rng = np.random.default_rng(0)
    params = {f"w{place}": rng.normal(size=(8, 8)).astype(np.float32) for place in range(3)}
    x = rng.normal(size=(8, 8)).astype(np.float32)
    numbers = [(0.5, 2.0), (-0.7, np.inf), (1.3, -0.0)]
    found = rlx.compile(layers(*numbers), backend=backend, params=params)(x)[0]
    expected = x
    with np.errstate(invalid="ignore"):
        for (scale, shift), w in zip(numbers, params.values(), strict=True):
            expected = np.maximum(expected @ w * np.float32(scale) + np.float32(shift), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_kernels_are_fewer() -> None:
    graph = layers((0.5, 2.0), (0.7, 1.0), (0.9, 0.5))
    program = lower_graph(pipeline((), WIDEST).run(graph))
    names = [kernel.name for kernel in program.module.kernels]
    assert len([name for name in names if name.startswith("matmul")]) == 1

"""Movement fuses into what reads it, and the cheap work below it is computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.recompute import find_recomputed
from rlx.passes.rewrites.simplify import simplify
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.passes.text import built

Array = npt.NDArray[np.float32]


def kernels(graph: Graph) -> list[list[str]]:
    """Return the ops of every node that computes something after fusion."""
    found = []
    for node in fuse()(simplify(graph)).nodes:
        if node.op is ops.fused:
            body: Graph = node.attribute("body")
            found.append([n.op.name for n in body.nodes if n.operands])
        elif node.operands:
            found.append([node.op.name])
    return found


def difference(x: Value, axis: int) -> Value:
    length = x.shape[axis] - 1
    after = ops.narrow(x, axis=axis, start=1, length=length)
    value: Value = after - ops.narrow(x, axis=axis, start=0, length=length)
    return value


def smoothness(x: Any) -> Any:
    return (
        ((x[1:] - x[:-1]) ** 2).sum()
        + ((x[:, 1:] - x[:, :-1]) ** 2).sum()
        + ((x[:, :, 1:] - x[:, :, :-1]) ** 2).sum()
    )


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_the_gradient_of_a_smoothness_loss_is_one_kernel(backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((9, 10, 11)).astype(np.float32)
    run = rlx.jit(rlx.grad(smoothness), backend=backend)
    np.testing.assert_allclose(run(x), rlx.jit(rlx.grad(smoothness), backend="reference")(x), 1e-5)
    graph = rlx.jit(rlx.grad(smoothness)).graph(x)
    assert len(kernels(graph)) == 1


def rolled(x: Value) -> Value:
    parts = [ops.narrow(x, axis=0, start=start, length=n) for start, n in ((2, 6), (0, 2))]
    return ops.concat(*parts, axis=0)


def halves(x: Value) -> Value:
    """Read each element of something costly once, in one of two halves."""
    curve, length = ops.tanh(x), x.shape[0] // 2
    parts = [ops.narrow(curve, axis=0, start=start, length=length) for start in (0, length)]
    return parts[0] + parts[1]


KERNELS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], list[list[str]]]] = {
    "a shift is read where it is added": (
        lambda x: x + rolled(x), [(8, 4)], [["narrow", "narrow", "concat", "add"]],
    ),
    "costly work is computed by readers that read each element once": (
        halves, [(8, 4)], [["tanh", "narrow", "narrow", "add"]],
    ),
    "parts of a concat are computed in their place": (
        lambda x, y: ops.concat(ops.tanh(x), ops.exp(y), axis=0), [(8, 4), (2, 4)],
        [["tanh", "exp", "concat"]],
    ),
    "costly work that is read twice is stored": (
        lambda x: ops.square(difference(ops.tanh(x), 0)), [(8,)],
        [["tanh"], ["narrow", "narrow", "sub", "square"]],
    ),
    "what a product computes last is not computed again": (
        lambda x, w: difference(ops.relu(x @ w), 0), [(8, 4), (4, 4)],
        [["matmul", "relu"], ["narrow", "narrow", "sub"]],
    ),
    "what is read elsewhere is stored by another kernel before": (
        lambda x: [y := ops.exp(x), y + ops.reverse(y, axes=(0,))], [(8,)],
        [["exp"], ["reverse", "add"]],
    ),
    # The sum of the first product and the residual is read by a product, not through the pad.
    "movement far below a product does not reach its epilogue": (
        lambda x, w, r, v: ops.matmul(
            ops.pad(ops.relu(ops.matmul(ops.relu(ops.matmul(x, w) + r), w) + r), low=(0, 1),
                    high=(0, 1)), v,
        ),
        [(4, 8), (8, 8), (4, 8), (10, 3)], [*[["matmul", "add", "relu"]] * 2, ["pad"], ["matmul"]],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", KERNELS)
def test_which_kernels_run(case: str) -> None:
    formula, shapes, expected = KERNELS[case]
    assert kernels(built(formula, *shapes)) == expected


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_an_operand_that_is_read_elsewhere_is_not_overwritten(backend: str) -> None:
    def step(x: Any) -> Any:
        y = rlx.numpy.exp(x)
        z = y + rlx.numpy.roll(y, 1)
        return z * 2.0 + rlx.numpy.roll(z, -1)

    x = np.arange(300, dtype=np.float32) / 300
    y = np.exp(x)
    z = y + np.roll(y, 1)
    expected = z * 2.0 + np.roll(z, -1)
    np.testing.assert_allclose(rlx.jit(step, backend=backend)(x), expected, rtol=1e-6)
    donated = rlx.jit(step, backend=backend, donate_argnums=0)
    np.testing.assert_allclose(donated(x.copy()), expected, rtol=1e-6)


def test_long_chains_of_movement_are_cut_into_bodies_of_bounded_work() -> None:
    graph = Graph("chain")
    value: Value = graph.input("x", (5000,))
    for _ in range(1000):
        value = difference(value, 0) * 0.5
    graph.set_outputs([value])
    after = fuse()(graph)
    sizes = [len(n.attribute("body").nodes) for n in after.nodes if n.op is ops.fused]
    assert max(sizes) <= 3 * FusionPolicy().most_recomputed
    assert sum(sizes) <= 10 * len(graph.nodes)


def test_doubling_by_concat_stays_linear() -> None:
    graph = Graph("doubling")
    value: Value = graph.input("x", (2,))
    for _ in range(60):
        half = ops.narrow(ops.concat(value, value, axis=0), axis=0, start=1, length=2)
        value = half + value
    graph.set_outputs([value])
    found = find_recomputed(graph, FusionPolicy())
    assert max(len(sources) for sources in found.sources.values()) <= 4
    bodies = [n.attribute("body") for n in fuse()(graph).nodes if n.op is ops.fused]
    assert sum(len(body.nodes) for body in bodies) <= 4 * len(graph.nodes)


def test_what_setup_computes_is_stored_for_the_runs() -> None:
    """Of params alone: a shift that a reader would compute again at every call."""
    graph = Graph("prepared")
    x, a, b = graph.input("x", (8, 4)), graph.param("a", (8,)), graph.param("b", (8,))
    shift = ops.reshape(a - b, shape=(2, 4))
    graph.set_outputs([ops.narrow(x, axis=0, start=0, length=2) * shift])
    assert ["sub"] in kernels(graph)


def test_what_setup_computes_is_stored_though_runs_read_a_broadcast_of_it() -> None:
    graph = Graph("factors")
    x, p = graph.input("x", (2, 3, 8, 8), "f32"), graph.param("p", (3,), "f32")
    factors = graph.reshape(graph.rsqrt(p + 1.0), shape=(3, 1, 1))
    graph.set_outputs([graph.pad(x * factors, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=0.0)])
    assert [found for found in kernels(graph) if "rsqrt" in found] == [["add", "rsqrt"]]


@pytest.mark.parametrize(("points", "stored"), [(1000, 0), (100, 1)])
def test_differences_of_many_points_are_not_stored(points: int, stored: int) -> None:
    """For 1,000 points they have 12 MB; for 100 the first cache keeps them."""
    graph = Graph("pairs")
    x = graph.input("x", (points, 3), "f32")
    pairs = ops.reshape(x, shape=(points, 1, 3)) - ops.reshape(x, shape=(1, points, 3))
    distances = ops.sqrt(ops.reduce_sum(pairs * pairs, axes=(2,)))
    graph.set_outputs([distances, ops.reduce_sum(ops.sin(pairs), axes=(0,))])
    shapes = [node.results[0].shape for node in fuse()(simplify(graph)).nodes]
    assert shapes.count((points, points, 3)) == stored


def test_the_gradient_of_pairwise_forces_stores_one_number_for_each_pair() -> None:
    """All differences and their products would take 112 MB, for positions of 24 kB."""

    def energy(x: Any) -> Any:
        squares = rnp.sum((x[:, None] - x[None]) ** 2, -1)
        return rnp.sum(1 / rnp.sqrt(squares + 1e-3))

    graph = rlx.make_graph(rlx.grad(energy))(np.zeros((2000, 3), np.float32))
    assert lower_for(graph, detect_target()).plan.arena_bytes < 17e6

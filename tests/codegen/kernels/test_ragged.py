"""Ragged products: groups of any rows, in tiles and plain loops, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import lax
from rlx.errors import DTypeError, IndexOutOfRangeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad, grad_with_loss
from rlx.passes.vmap import vmap
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

BOUNDS = [[0, 13, 13, 20], [3, 4, 19, 19], [0, 0, 0, 0], [20, 20, 20, 20], [-5, 2, 7, 99]]


def ragged(rows: int, inner: int, columns: int, dtype: str = "f32") -> Graph:
    """Return both ragged products of three groups."""
    g = Graph("ragged")
    x, w = g.input("x", (rows, inner), dtype), g.input("w", (3, inner, columns), dtype)
    y, bounds = g.input("y", (rows, columns), dtype), g.input("bounds", (4,), "i32")
    g.set_outputs([ops.ragged_matmul(x, w, bounds), ops.ragged_outer(x, y, bounds)])
    return g


def feeds_of(graph: Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        value.node.attrs["name"]: rng.standard_normal(value.shape).astype(value.dtype.numpy)
        for value in graph.inputs
        if value.dtype.is_float
    }


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((20, 33, 50), "f32"), ((20, 64, 96), "f64"), ((20, 3, 2), "f32"), ((20, 5, 40), "f16")],
)
def test_every_range_of_rows_has_its_products(
    backend: str, shape: tuple[int, int, int], dtype: str
) -> None:
    """One program for all bounds: what an earlier run has stored does not stay."""
    graph = ragged(*shape, dtype)
    program = compile_graph(graph, backend=backend, threads=2)
    feeds, error = feeds_of(graph), 2e-2 if dtype == "f16" else 1e-5
    for bounds in BOUNDS:
        feeds["bounds"] = np.array(bounds, np.int32)
        for found, wanted in zip(program.run(feeds), evaluate(graph, feeds), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=error, atol=10 * error)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("shape", [(2048, 3, 2), (2048, 8, 64)])
def test_sums_over_long_groups_end_with_each_group(
    backend: str, shape: tuple[int, int, int]
) -> None:
    graph = ragged(*shape)
    feeds = {**feeds_of(graph), "bounds": np.array([3, 700, 1999, 2010], np.int32)}
    found = compile_graph(graph, backend=backend).run(feeds)
    for each, wanted in zip(found, evaluate(graph, feeds), strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_negative_sizes_of_groups_are_refused(dtype: str, backend: str) -> None:
    """Groups would overlap, and threads write the same rows."""
    x, w = np.ones((20, 8), dtype), np.ones((3, 8, 5), dtype)
    product = rlx.jit(lax.ragged_dot, backend=backend)
    np.testing.assert_array_equal(product(x, w, np.array([3, 0, 99]))[:, 0], 8)
    with pytest.raises(IndexOutOfRangeError, match=r"ragged_dot.*at position .?1.* -2"):
        product(x, w, np.array([9, -2, 20]))


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
@pytest.mark.parametrize("rows", [4, 64])
def test_an_expert_out_of_range_names_the_grouped_product(rows: int, backend: str) -> None:
    g = Graph("grouped")
    x, w = g.input("x", (rows, 8), "f32"), g.input("w", (3, 8, 5), "f32")
    g.set_outputs([ops.grouped_matmul(x, w, g.input("experts", (rows,), "i32"))])
    feeds = feeds_of(g) | {"experts": np.full(rows, 3, np.int32)}
    with pytest.raises(IndexOutOfRangeError, match="grouped_matmul: "):
        compile_graph(g, backend=backend).run(feeds)


@pytest.mark.parametrize("dtype", ["u64", "u8", "f32"])
def test_bounds_are_signed_words(dtype: str) -> None:
    """Bounds that i64 does not hold would start at other rows."""
    g = Graph("ragged")
    x, w, bounds = g.input("x", (6, 2)), g.input("w", (3, 2, 4)), g.input("bounds", (4,), dtype)
    for op, other in ((ops.ragged_matmul, w), (ops.ragged_outer, x)):
        with pytest.raises(DTypeError, match=f"bounds has dtype {dtype}; it must be one of: i32"):
            op(x, other, bounds)


def test_the_reference_is_one_product_for_each_group() -> None:
    graph = ragged(6, 2, 3, "f64")
    feeds = feeds_of(graph) | {"bounds": np.array([1, 3, 3, 5], np.int32)}
    x, w, y = feeds["x"], feeds["w"], feeds["y"]
    products, outer = evaluate(graph, feeds)
    none = np.zeros((1, 3))
    np.testing.assert_allclose(products, np.concatenate([none, x[1:3] @ w[0], x[3:5] @ w[2], none]))
    np.testing.assert_allclose(outer, [x[1:3].T @ y[1:3], np.zeros((2, 3)), x[3:5].T @ y[3:5]])


def test_large_ragged_products_are_shared_among_threads() -> None:
    kernels = lower_for(ragged(512, 64, 96), detect_target()).kernels.values()
    found = [kernel for kernel in kernels if kernel.name.startswith("ragged")]
    assert len(found) == 2
    assert all(kernel.parallel_loop is not None for kernel in found)


def experts(rows: int, count: int = 8) -> Graph:
    g = Graph("experts")
    x, w = g.input("x", (rows, 512)), g.input("w", (count, 512, 1024))
    y = ops.grouped_matmul(x, w, g.input("e", (rows,), "i32"))
    g.set_outputs([ops.reduce_sum(ops.sin(y), axes=(0, 1))])
    return g


def test_gradients_by_the_matrices_of_experts_take_no_copies_of_them() -> None:
    """Gathered, one matrix for each of 1,024 rows, they would take 2 GB."""
    graph = experts(1024)
    gradient = grad_with_loss(graph, ["x", "w"])
    arrays = sum(value.type.bytes for value in (*gradient.inputs, *gradient.outputs))
    assert lower_for(gradient, detect_target()).plan.arena_bytes < 2 * arrays


@pytest.mark.parametrize("rows", [9, 40])
def test_gradients_of_chosen_experts_are_those_of_gathered_matrices(rows: int) -> None:
    """Few rows gather their matrices; many are sorted."""
    g = Graph("experts")
    x, w = g.input("x", (rows, 5), "f64"), g.input("w", (4, 5, 3), "f64")
    e, seed = g.input("e", (rows,), "i32"), g.input("seed", (rows, 3), "f64")
    g.set_outputs([ops.reduce_sum(ops.grouped_matmul(x, w, e) * seed, axes=(0, 1))])
    feeds = feeds_of(g)
    chosen = np.random.default_rng(1).integers(0, 4, rows)
    feeds |= {"e": chosen.astype(np.int32), "d_output": np.array(1.0)}
    dx, dw = evaluate(grad(g, ["x", "w"]), feeds)
    np.testing.assert_allclose(dx, np.einsum("mn,mkn->mk", feeds["seed"], feeds["w"][chosen]))
    expected = np.zeros((4, 5, 3))
    np.add.at(expected, chosen, np.einsum("mk,mn->mkn", feeds["x"], feeds["seed"]))
    np.testing.assert_allclose(dw, expected, atol=1e-12)


def test_examples_that_share_matrices_are_rows_of_one_product() -> None:
    g = Graph("experts")
    x, w = g.input("x", (6, 5), "f64"), g.input("w", (4, 5, 3), "f64")
    g.set_outputs([ops.grouped_matmul(x, w, g.input("e", (6,), "i32"))])
    mapped = vmap(g, {"x": 0, "e": 0}, size=7)
    assert [node.op for node in mapped.nodes].count(ops.grouped_matmul) == 1
    rng = np.random.default_rng(2)
    feeds: dict[str, Any] = {
        "x": rng.standard_normal((7, 6, 5)),
        "w": rng.standard_normal((4, 5, 3)),
        "e": rng.integers(0, 4, (7, 6)).astype(np.int32),
    }
    expected = np.einsum("bmk,bmkn->bmn", feeds["x"], feeds["w"][feeds["e"]])
    np.testing.assert_allclose(evaluate(mapped, feeds)[0], expected)

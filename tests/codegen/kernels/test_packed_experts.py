"""Rows are multiplied by the packed matrix of their own expert."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx.runtime.compile as runtime
from rlx.codegen.checks import split_checks
from rlx.codegen.loops.verify import verify_kernel
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.autodiff import grad
from rlx.passes.vmap import vmap
from rlx.runtime.executable import Executable
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

Array = NDArray[Any]
SCALES = (0.25, 0.5, 1.0)
CHOSEN = np.array([1, 0, 2, 1, 0], np.int32)


def q8_k_stack(rows: int) -> Array:
    """Three experts whose rows are `scale * (p - 128)`."""
    row = np.zeros(292, np.uint8)
    row[4:260] = (np.arange(256) - 128).astype(np.int8).view(np.uint8)
    stack = np.tile(row, (3, rows, 1))
    for number, scale in enumerate(SCALES):
        stack[number, :, :4] = np.array([scale], "<f4").view(np.uint8)
    return stack


def grouped(stack: Array, rows: int | Dim, scheme: str) -> Graph:
    g = Graph("grouped")
    kind = BLOCK_TYPES[scheme]
    width = stack.shape[-1] // kind.size * kind.elements
    x, experts = g.input("x", (rows, width)), g.input("experts", (rows,), "i32")
    w = g.param("w", stack.shape, "u8")
    g.set_outputs([g.grouped_dequant_matmul(x, w, experts, scheme=scheme)])
    return g


def compiled(graph: Graph, stack: Array, threads: int = 1) -> Executable:
    program = runtime.compile(graph, backend="llvm", threads=threads, params={"w": stack})
    assert isinstance(program, Executable)
    return program


def test_a_grouped_product_has_known_values() -> None:
    stack = q8_k_stack(4)
    x = np.tile(0.01 * (np.arange(256) + 1), (5, 1)).astype(np.float32)
    graph = grouped(stack, 5, "q8_k")
    (y,) = evaluate(graph, {"x": x, "w": stack, "experts": CHOSEN})
    np.testing.assert_allclose(y, np.repeat(y[:, :1], 4, axis=1))
    scales = np.array(SCALES)[CHOSEN]
    expected = (x * (np.arange(256) - 128)).sum(axis=1) * scales
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("rows", [32, 5])
def test_compiled_products_agree_with_dense_ones(rows: int) -> None:
    """32 rows of an expert are whole panels; of five, each row's blocks are gathered."""
    weights = np.random.default_rng(0).standard_normal((3, rows, 64)).astype(np.float32)
    stack = encode(weights, "q4_1")
    dense = decode_blocks(stack, BLOCK_TYPES["q4_1"])
    program = compiled(grouped(stack, Dim("rows", max=9), "q4_1"), stack, threads=2)
    for count in (1, 5, 9):
        chosen = np.resize(CHOSEN, count)
        x = np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)
        (y,) = program.run({"x": x, "experts": chosen})
        expected = np.einsum("mk,mnk->mn", x, dense[chosen])
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("scheme", ["q4_1", "q6_k"])
def test_rows_of_one_expert_use_it_together(scheme: str, order: str) -> None:
    """More rows than experts: tiles of neighbors, also of more than a tile holds, and of one."""
    width = BLOCK_TYPES[scheme].elements
    weights = np.random.default_rng(0).standard_normal((3, 48, 2 * width)).astype(np.float32)
    stack = encode(weights, scheme)
    dense = decode_blocks(stack, BLOCK_TYPES[scheme])
    program = compiled(grouped(stack, Dim("rows", max=160), scheme), stack, threads=2)
    assert "depth = " in str(program.schedule)
    for count in (1, 7, 160):
        chosen = np.random.default_rng(count).choice(3, count, p=(0.8, 0.0, 0.2)).astype(np.int32)
        chosen = np.sort(chosen) if order == "sorted" else chosen
        x = np.random.default_rng(count).standard_normal((count, 2 * width)).astype(np.float32)
        (y,) = program.run({"x": x, "experts": chosen})
        expected = np.einsum("mk,mnk->mn", x, dense[chosen])
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("rows", [11, 121, 131, 133])
def test_all_rows_may_choose_one_expert(rows: int) -> None:
    """The sums of whole tiles wait in one buffer, also where the last tile lacks rows.

    With room for 96 rows it crashed on machines with 32 registers, where more than 96 of 121 rows
    chose one expert.
    """
    weights = np.random.default_rng(0).standard_normal((3, 32, 64)).astype(np.float32)
    stack = encode(weights, "q4_1")
    program = compiled(grouped(stack, Dim("rows", max=rows), "q4_1"), stack)
    assert "depth = " in str(program.schedule)
    x = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
    (y,) = program.run({"x": x, "experts": np.full(rows, 1, np.int32)})
    expected = x @ decode_blocks(stack, BLOCK_TYPES["q4_1"])[1].T
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-4)


def plain(rows: int) -> Graph:
    g = Graph("grouped")
    x, w, experts = (
        g.input("x", (rows, 96)),
        g.input("w", (3, 96, 512)),
        g.input("e", (rows,), "i32"),
    )
    g.set_outputs([g.grouped_matmul(x, w, experts)])
    return g


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(grouped(np.zeros((3, 512, 420), np.uint8), 64, "q6_k"), id="tiles"),
        pytest.param(grouped(np.zeros((3, 4096, 420), np.uint8), 2, "q6_k"), id="streamed"),
        pytest.param(plain(12), id="plain"),
    ],
)
def test_large_products_of_chosen_experts_are_shared_among_threads(graph: Graph) -> None:
    kernels = lower_for(graph, detect_target()).kernels.values()
    (kernel,) = (each for each in kernels if each.name.startswith("grouped"))
    verify_kernel(kernel)
    parts = split_checks(kernel)
    assert parts is not None
    assert parts.loop.parallel_loop is not None


@pytest.mark.parametrize("bad", [-1, 3])
@pytest.mark.parametrize("rows", [32, 5])
def test_an_expert_that_is_not_there_is_an_error(bad: int, rows: int) -> None:
    stack = encode(np.ones((3, rows, 32), np.float32), "q8_0")
    program = compiled(grouped(stack, 2, "q8_0"), stack)
    with pytest.raises(IndexOutOfRangeError):
        program.run({"x": np.ones((2, 32), np.float32), "experts": np.array([0, bad], np.int32)})


def test_gradients_are_those_of_the_chosen_experts() -> None:
    """dx[i, p] = 4 * scale * (p - 128)."""
    stack, chosen = q8_k_stack(4), np.array([1, 2, 1], np.int32)
    gradient = grad(grouped(stack, 3, "q8_k"), ["x"])
    feeds = {"x": np.ones((3, 256), np.float32), "w": stack, "experts": chosen}
    (dx,) = evaluate(gradient, {**feeds, "d_output": np.ones((3, 4), np.float32)})
    scales = np.array(SCALES)[chosen][:, None]
    np.testing.assert_allclose(dx, 4 * scales * (np.arange(256) - 128), rtol=1e-5)


def test_examples_share_the_weights() -> None:
    """B = 2, M = 2, N = 2 equals the runs of each example."""
    stack = q8_k_stack(2)
    graph = grouped(stack, 2, "q8_k")
    x = (0.001 * np.arange(1024)).reshape(2, 2, 256).astype(np.float32)
    chosen = np.array([[0, 1], [1, 0]], np.int32)
    mapped = vmap(graph, {"x": 0, "experts": 0}, size=2)
    (both,) = evaluate(mapped, {"x": x, "experts": chosen, "w": stack})
    for example in range(2):
        feeds = {"x": x[example], "experts": chosen[example], "w": stack}
        np.testing.assert_allclose(both[example], evaluate(graph, feeds)[0], rtol=1e-5)


def test_plain_matrices_of_experts() -> None:
    g = Graph("grouped")
    x, w, experts = g.input("x", (4, 3)), g.param("w", (3, 3, 2)), g.input("e", (4,), "i32")
    g.set_outputs([g.grouped_matmul(x, w, experts)])
    number = np.arange(6).reshape(3, 2)
    feeds = {
        "x": (0.05 * np.arange(12)).reshape(4, 3).astype(np.float32),
        "w": np.stack([0.1 * (e + 1) + 0.01 * number for e in range(3)]).astype(np.float32),
        "e": np.array([0, 1, 1, 2], np.int32),
    }
    expected = [[0.02, 0.0215], [0.134, 0.14], [0.233, 0.2435], [0.482, 0.497]]
    np.testing.assert_allclose(evaluate(g, feeds)[0], expected, atol=1e-5)


@pytest.mark.parametrize(("rows", "most"), [(14, 2), (64, 3)])
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_matrices_of_chosen_experts_are_not_gathered(backend: str, rows: int, most: int) -> None:
    """Gathered, 14 of 48 x 100 would be 270 kB, 64 of them 1.2 MB; 64 rows are sorted instead."""
    g, random = Graph("grouped"), np.random.default_rng(0)
    x, w = g.input("x", (rows, 48)), g.input("w", (3, 48, 100))
    g.set_outputs([g.grouped_matmul(x, w, g.input("e", (rows,), "i32"))])
    feeds = {
        "x": random.standard_normal((rows, 48)).astype(np.float32),
        "w": random.standard_normal((3, 48, 100)).astype(np.float32),
        "e": random.integers(0, 3, rows).astype(np.int32),
    }
    compiled = runtime.compile(g, backend=backend, threads=2)
    assert isinstance(compiled, Executable)
    got, expected = compiled.run(feeds)[0], evaluate(g, feeds)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert compiled.plan.arena_bytes < most * sum(array.nbytes for array in feeds.values())
    feeds["e"][7] = 3
    with pytest.raises(IndexOutOfRangeError):
        compiled.run(feeds)


def test_blocks_that_do_not_fit_are_refused() -> None:
    g = Graph("bad")
    x, w, e = g.input("x", (2, 64)), g.param("w", (3, 4, 34), "u8"), g.input("e", (2,), "i32")
    with pytest.raises(ShapeError, match="a row of 64 elements is whole blocks"):
        g.grouped_dequant_matmul(x, w, e, scheme="q8_0")

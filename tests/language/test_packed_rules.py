"""Batches of packed weights, gradients of experts, draws, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.random as rr
from rlx.errors import IndexOutOfRangeError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad
from rlx.passes.vmap import vmap
from rlx.random.philox import sample
from rlx.runtime.compile import compile as compile_graph

Array = NDArray[Any]
SCHEME = "q8_0"


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def both_ways(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    """Return the result of the reference and of compiled code."""
    return [evaluate(graph, feeds)[0], compile_graph(graph, threads=1).run(feeds)[0]]


@pytest.mark.parametrize("scheme", ["q8_0", "q4_k"])
def test_examples_may_have_packed_weights_of_their_own(scheme: str) -> None:
    weights = encode(drawn(3, 5, 256), scheme)
    x = drawn(3, 2, 256, seed=1)
    g = Graph("product")
    w = g.input("w", weights.shape[1:], "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", (2, 256)), w, scheme=scheme)])
    expected = x @ np.swapaxes(decode_blocks(weights, BLOCK_TYPES[scheme]), 1, 2)
    for found in both_ways(vmap(g, {"x": 0, "w": 0}, size=3), {"x": x, "w": weights}):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("batched", [("x",), ("x", "e"), ("x", "w"), ("x", "w", "e")])
@pytest.mark.parametrize("packed", [False, True])
def test_examples_may_have_experts_of_their_own(batched: tuple[str, ...], packed: bool) -> None:
    """Batches of stacks, of rows and of choices, each alone or together."""
    dense, x = drawn(2, 3, 4, 32), drawn(2, 5, 32, seed=1)
    chosen = np.array([[0, 2, 1, 1, 0], [2, 2, 0, 1, 1]], np.int32)
    blocks = encode(dense, SCHEME)
    if packed:
        dense = decode_blocks(blocks, BLOCK_TYPES[SCHEME])
    stack = blocks if packed else np.swapaxes(dense, 2, 3).copy()
    g = Graph("grouped")
    e, row = g.input("e", (5,), "i32"), g.input("x", (5, 32))
    if packed:
        w = g.input("w", stack.shape[1:], "u8")
        g.set_outputs([g.grouped_dequant_matmul(row, w, e, scheme=SCHEME)])
    else:
        g.set_outputs([g.grouped_matmul(row, g.input("w", stack.shape[1:]), e)])
    everything: dict[str, Array] = {"x": x, "w": stack, "e": chosen}
    feeds = {name: all if name in batched else all[0] for name, all in everything.items()}
    matrices = dense if "w" in batched else dense[[0, 0]]
    ids = chosen if "e" in batched else chosen[[0, 0]]
    expected = np.stack([np.einsum("mk,mnk->mn", x[b], matrices[b][ids[b]]) for b in range(2)])
    mapped = vmap(g, dict.fromkeys(batched, 0), size=2)
    for found in both_ways(mapped, feeds):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_examples_may_have_stacks_to_decode_of_their_own() -> None:
    blocks = encode(drawn(2, 3, 4, 32), SCHEME)
    g = Graph("stacks")
    w = g.input("w", blocks.shape[1:], "u8")
    g.set_outputs([g.dequant_moe_weights(w, scheme=SCHEME)])
    expected = np.swapaxes(decode_blocks(blocks, BLOCK_TYPES[SCHEME]), 2, 3)
    for found in both_ways(vmap(g, {"w": 0}, size=2), {"w": blocks}):
        np.testing.assert_array_equal(found, expected)


def test_matrices_of_experts_get_the_gradient_of_their_rows() -> None:
    """Of an expert that no row has chosen it is zero."""
    x, w, dy = drawn(4, 3), drawn(3, 3, 2, seed=1), drawn(4, 2, seed=2)
    chosen = np.array([0, 2, 0, 0], np.int32)
    g = Graph("grouped")
    operands = g.input("x", x.shape), g.input("w", w.shape), g.input("e", (4,), "i32")
    g.set_outputs([g.grouped_matmul(*operands)])
    dx, dw = evaluate(grad(g, ["x", "w"]), {"x": x, "w": w, "e": chosen, "d_output": dy})
    np.testing.assert_allclose(dx, np.einsum("mn,mkn->mk", dy, w[chosen]), rtol=1e-5)
    expected = np.zeros_like(w)
    for row, expert in enumerate(chosen):
        expected[expert] += np.outer(x[row], dy[row])
    np.testing.assert_allclose(dw, expected, rtol=1e-5, atol=1e-6)


def test_packed_weights_are_constants_of_derivatives() -> None:
    blocks = encode(drawn(4, 32), SCHEME)
    x, dy = drawn(2, 32, seed=1), drawn(2, 4, seed=2)
    g = Graph("product")
    w = g.param("w", blocks.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", x.shape), w, scheme=SCHEME)])
    (dx,) = evaluate(grad(g, ["x"]), {"x": x, "w": blocks, "d_output": dy})
    np.testing.assert_allclose(dx, dy @ decode_blocks(blocks, BLOCK_TYPES[SCHEME]), rtol=1e-4)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, "ab45d93f 7d18eb7f 4ba0ff59 6af5bcc1 8fedb70a 67ff8a25 b7be6fef e6a7535a"),
        (1, "f4159e9e e749992c 555088a7 ced1f363"),
        (42, "6f7f8f0f 3aba8be4 e86385de 11f82253 3182283f 2953043f c97cf3a3 7e8b61fb"),
        (7, "edc9bcae 68d7e84a d17840ca 46627ce6"),
        (0xDEADBEEF, "e521d285 1257b335 4b20321f d9249ec2"),
        (0x100000002, "cb870a3f 3bbfdadd 7595d52a 87316c2e"),
    ],
)
def test_words_of_every_seed(seed: int, words: str) -> None:
    expected = words.split()
    found = rr.bits(rr.key(seed, impl="philox4x32"), (len(expected),))
    assert [f"{word:08x}" for word in np.asarray(found).tolist()] == expected


def test_normals_of_other_seeds_and_streams() -> None:
    seventh = [-0.3237849, -0.0988508, -1.0456185, -0.9141893]
    np.testing.assert_allclose(rr.philox.normal(7, 0, (4,)), seventh, atol=1e-6)
    of_stream = [0.1753285, 1.1176736, 0.2628679, -0.9545093]
    np.testing.assert_allclose(rr.philox.normal(42, 1, (4,)), of_stream, atol=1e-6)


def test_two_seeds_differ_in_nearly_every_word() -> None:
    first, second = (np.asarray(rr.bits(rr.key(s, impl="philox4x32"), (16,))) for s in (1, 2))
    assert (first != second).sum() >= 14


def test_ties_with_the_last_of_the_top_k_stay_candidates() -> None:
    """Two of four are the largest: the likeliest one alone may be either of them."""
    logits = np.tile(np.array([1, 3, 3, 0], np.float32), (64, 1))
    assert set(np.asarray(sample(logits, 42, top_k=1)).tolist()) == {1, 2}


def test_a_row_that_is_no_distribution_is_an_error() -> None:
    with pytest.raises(IndexOutOfRangeError):
        sample(np.array([[1, 2], [np.nan, 1]], np.float32), 42)


def test_a_matrix_with_adapters_is_three_products() -> None:
    """m = 4, k = 8, n = 6, r = 2, scale 0.5: normals of seed 42, in order x, w, a, b."""
    sizes = {"x": (4, 8), "w": (8, 6), "a": (8, 2), "b": (2, 6)}
    counts = [int(np.prod(shape)) for shape in sizes.values()]
    normals = np.asarray(rr.philox.normal(42, 0, (sum(counts),)))
    parts = np.split(normals, np.cumsum(counts)[:-1])
    x, w, a, b = (part.reshape(shape) for part, shape in zip(parts, sizes.values(), strict=True))
    found = rlx.jit(lambda x, w, a, b: x @ w + 0.5 * ((x @ a) @ b))(x, w, a, b)
    np.testing.assert_allclose(found, x @ w + 0.5 * (x @ a @ b), atol=1e-3)


def test_random_codes_of_eight_bits() -> None:
    """m = 3, k = 8, n = 4, blocks of 4: against the dense product."""
    i = np.arange(32)
    codes = ((13 * i + 7) % 127 - 63).astype(np.int8).reshape(8, 4)
    scale = (0.01 + 0.001 * np.arange(8)).astype(np.float32).reshape(2, 4)
    x = np.asarray(rr.philox.normal(99, 0, (24,))).reshape(3, 8)
    g = Graph("random")
    weights = g.param("codes", codes.shape, "i8"), g.param("scale", scale.shape)
    g.set_outputs([g.scaled_dequant_matmul(g.input("x", x.shape), *weights, scheme="int8/4")])
    params = {"codes": codes, "scale": scale}
    (found,) = compile_graph(g, params=params, threads=1).run({"x": x})
    np.testing.assert_allclose(found, x @ (codes * np.repeat(scale, 4, axis=0)), atol=1e-3)

"""Sections 17 and 18 of the specification's chapter 06, as far as they are about language models.

A row is a test here, or names the one that shows it; rows about quantization are ticked off in
`tests/quantization/test_specification.py`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.random.philox import sample
from rlx.runtime.compile import compile as compile_graph

Array = NDArray[Any]
SHOWN_ELSEWHERE = {
    "17.1 layouts of Q2_K and Q3_K": "ir.test_block_decoding:test_golden_blocks_decode_exactly",
    "17.2 scales of Q6_K have signs": "ir.test_block_decoding:test_q6_k_scales_are_signed",
    "17.2 one decoder for all paths": "codegen.kernels.test_packed:"
    "test_every_block_type_streams_past_few_rows",
    "17.3 stacks of every type": "language.test_experts:"
    "test_stacks_are_decoded_as_plain_products_take_them",
    "17.4 E4M3": "ir.ops.test_scaled_weights:test_fp8_e4m3_is_the_open_compute_projects",
    "17.5 one scale": "ir.ops.test_scaled_weights:test_fp8_e5m2_with_one_scale_for_all_columns",
    "17.6 signs": "ir.ops.test_scaled_weights:test_int4_with_zero_points_has_signs",
    "17.7 bytes": "codegen.kernels.test_packed:test_bytes_of_rows_must_be_whole_blocks",
    "17.7 side tensors": "ir.ops.test_scaled_weights:test_what_does_not_fit_is_refused",
    "17.7 experts": "codegen.kernels.test_packed_experts:test_blocks_that_do_not_fit_are_refused",
    "17.8 gradients": "ir.ops.test_scaled_weights:test_scales_and_zero_points_have_gradients",
    "17.16 every back end": "codegen.test_parity:test_kernels_agree_with_the_reference_through_c",
    "17.17 what reads a slice": "passes.fusion.test_slices:test_attention_reads_slices",
    "17.22 accounts of one program": "language.test_experts:"
    "test_masks_change_accounts_and_no_number",
    "17.22 products of a layer": "language.test_experts:test_masks_per_layer",
    "17.22 host weights": "language.test_experts:"
    "test_experts_that_are_not_resident_are_read_from_host_weights",
    "17.23 experts are checked": "codegen.kernels.test_packed_experts:"
    "test_an_expert_that_is_not_there_is_an_error",
    "17.27 decoded once, in vectors": "codegen.kernels.test_packed:"
    "test_many_rows_meet_decoded_weights_in_tiles",
    "17.27 experts too": "codegen.kernels.test_packed_experts:"
    "test_rows_of_one_expert_meet_it_together",
    "18 Philox": "random.test_draws:test_philox_has_the_words_of_the_specification",
    "18 uniform and normal": "random.test_draws:"
    "test_uniform_and_normal_numbers_of_section_12_are_the_stated_ones",
    "18 block goldens": "ir.test_block_decoding:test_golden_blocks_decode_exactly",
    "18 fuzz": "ir.test_block_decoding:test_random_blocks_decode_as_the_gguf_package_does",
    "18 Q8_K": "codegen.kernels.test_packed:test_the_specifications_q8_k_product",
    "18 Int8Block": "ir.ops.test_scaled_weights:test_int8",
    "18 Int8BlockAsym": "ir.ops.test_scaled_weights:test_int8_with_zero_points",
    "18 Int4Block": "ir.ops.test_scaled_weights:test_int4_is_unsigned_without_zero_points",
    "18 Fp8": "ir.ops.test_scaled_weights:test_fp8_e4m3_is_the_open_compute_projects",
    "18 Nvfp4": "ir.ops.test_scaled_weights:test_nvfp4",
    "18 grouped, packed": "codegen.kernels.test_packed_experts:"
    "test_the_specifications_grouped_product",
    "18 grouped, packed: gradient": "codegen.kernels.test_packed_experts:"
    "test_gradients_are_those_of_the_chosen_experts",
    "18 grouped, packed: vmap": "codegen.kernels.test_packed_experts:"
    "test_examples_share_the_weights",
    "18 grouped": "codegen.kernels.test_packed_experts:test_plain_matrices_of_experts",
    "18 masks": "language.test_experts:test_masks_per_layer",
    "18 pool": "language.test_experts:test_pools_place_what_is_chosen_most",
    "18 toy mixture": "language.test_experts:test_the_specifications_toy_mixture",
    "18 GGUF": "gguf.test_file:test_versions_and_byte_orders",
    "18 GGUFWriter": "gguf.test_file:test_files_of_the_gguf_package_read_equal",
}


@pytest.mark.parametrize("row", sorted(SHOWN_ELSEWHERE))
def test_rows_that_other_files_show(row: str) -> None:
    module, _, name = SHOWN_ELSEWHERE[row].partition(":")
    assert callable(getattr(importlib.import_module(f"tests.{module}"), name))


def test_17_15_leading_axes_of_logits_are_rows() -> None:
    logits = np.tile(np.arange(1.0, 5, dtype=np.float32), (3, 4, 1))
    flat = sample(logits.reshape(12, 4), 42)
    assert np.asarray(sample(logits, 42)).tolist() == np.asarray(flat).reshape(3, 4).tolist()
    assert int(sample(np.array([0, 9, 0], np.float32), 1, temperature=1e-3)) == 1


def test_17_18_topk_repeats_no_index() -> None:
    g = Graph("topk")
    x = g.input("x", (2, 4))
    g.set_outputs(g.topk(x, k=3))
    rows = np.array([[-np.inf, -np.inf, 2, -np.inf], [1, np.inf, np.nan, 0]], np.float32)
    for outputs in (evaluate(g, {"x": rows}), compile_graph(g, threads=1).run({"x": rows})):
        assert outputs[1].tolist() == [[2, 0, 1], [2, 1, 0]]
    with pytest.raises(ShapeError, match="5"):
        g.topk(x, k=5)


def test_17_19_steps_draw_different_numbers_and_masked_tokens_never() -> None:
    """One compiled program: the offset is an input. Rows without a distribution are errors."""
    step = rlx.jit(lambda logits, offset: sample(logits, 42, top_k=2, offset=offset))
    row = np.arange(1.0, 5, dtype=np.float32)[None]
    drawn = [int(step(row, np.uint32(b))[0]) for b in range(12)]
    assert drawn == [3, 2, 3, 2, 2, 2, 3, 3, 3, 3, 3, 2]
    for bad in ([np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]):
        with pytest.raises(IndexOutOfRangeError):
            step(np.array([bad], np.float32), np.uint32(0))


def test_17_20_adapters_of_each_example() -> None:
    """`x @ W + scale * (x @ A) @ B` where all four have a batch: products for each example."""
    draw = np.random.default_rng(42).standard_normal
    x, w, a, b = draw((3, 4, 8)), draw((3, 8, 6)), draw((3, 8, 2)), draw((3, 2, 6))
    batched = rlx.vmap(lambda x, w, a, b: x @ w + 0.5 * ((x @ a) @ b))(x, w, a, b)
    expected = np.einsum("bmk,bkn->bmn", x, w + 0.5 * np.einsum("bkr,brn->bkn", a, b))
    np.testing.assert_allclose(batched, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature", "seed", "expected"),
    [
        (0, 1.0, 1.0, 42, "323122333332"),
        (0, 1.0, 1.0, 0xDEADBEEF, "312303212231"),
        (2, 1.0, 1.0, 42, "323222333332"),
        (0, 0.5, 1.0, 42, "333333333333"),
        (0, 0.9, 0.7, 12345, "233233333333"),
        (3, 0.8, 2.0, 7, "333233233322"),
    ],
)
def test_18_sample(top_k: int, top_p: float, temperature: float, seed: int, expected: str) -> None:
    """Twelve rows; seed 0 of the specification is 0xDEADBEEF."""
    logits = np.tile(np.arange(1.0, 5, dtype=np.float32), (12, 1))
    drawn = sample(logits, seed, top_k=top_k, top_p=top_p, temperature=temperature)
    assert "".join(map(str, np.asarray(drawn).tolist())) == expected


def test_18_sample_takes_the_likeliest_where_others_have_no_chance() -> None:
    logits = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 9, 0.7, 0.8], np.float32)
    assert int(sample(logits, 42, temperature=1e-3)) == 5
    assert int(sample(np.array([0.1, 5, 0.3, 0.4], np.float32), 7, top_k=1)) == 1


HAND_BLOCKS: dict[str, tuple[list[int], Array]] = {
    "q8_0": ([0, 0x38, *range(240, 256), *range(16)], 0.5 * (np.arange(32) - 16)),
    "q4_0": ([0, 0x3C, *(17 * i for i in range(16))], np.arange(32) % 16 - 8.0),
    "q4_k": (
        [0, 0x3C, 0, 0x3C, *[1] * 4, *[0] * 8, *[0x77] * 128], np.repeat([7.0, 0.0], 128)
    ),
    "q6_k": ([*[0] * 128, *[0xAA] * 64, *[1] * 16, 0, 0x3C], np.zeros(256)),
    "q2_k": ([*[1] * 16, *[0xFF] * 64, 0, 0x3C, 0, 0], np.full(256, 3.0)),
}  # fmt: skip


@pytest.mark.parametrize("scheme", HAND_BLOCKS)
def test_18_hand_blocks(scheme: str) -> None:
    block, expected = HAND_BLOCKS[scheme]
    found = decode_blocks(np.array(block, np.uint8), BLOCK_TYPES[scheme])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("scheme", "x", "expected"),
    [
        ("q4_k", 0.01 * np.arange(1, 513), [577.92, 2871.68]),
        ("q6_k", np.ones(512), [0.0, 0.0]),
    ],
)
def test_18_products_with_hand_blocks(scheme: str, x: Array, expected: list[float]) -> None:
    blocks = np.array([HAND_BLOCKS[scheme][0]], np.uint8)
    g = Graph("hand")
    w = g.param("w", blocks.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", (2, 256)), w, scheme=scheme)])
    program = compile_graph(g, params={"w": blocks}, threads=1)
    (y,) = program.run({"x": x.reshape(2, 256).astype(np.float32)})
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-3, atol=1e-4)


def test_18_a_product_is_that_with_the_decoded_weights() -> None:
    """Q8_K: fused beside decoded in full."""
    draw = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    blocks = encode(draw, "q8_k")
    x = (0.01 * np.arange(512)).reshape(2, 256).astype(np.float32)
    g = Graph("fused")
    w = g.param("w", blocks.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", x.shape), w, scheme="q8_k")])
    (y,) = compile_graph(g, params={"w": blocks}, threads=1).run({"x": x})
    full = x @ decode_blocks(blocks, BLOCK_TYPES["q8_k"]).T
    np.testing.assert_allclose(y, full, rtol=1e-4, atol=1e-3)

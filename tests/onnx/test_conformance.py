"""The official tests of nodes: a sample with native code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("onnx", minversion="1.23")

from rlx.runtime.toolchain import has_toolchain
from tests.onnx.conformance import (
    expected_failures,
    failures,
    listed,
    node_tests,
    run_case,
    summary,
)

SAMPLE = (
    "test_add_bcast", "test_clip_expanded", "test_cumsum_1d_reverse_exclusive",
    "test_gather_elements_1", "test_gathernd_example_int32_batch_dim1", "test_gelu_tanh_1",
    "test_gemm_all_attributes", "test_layer_normalization_3d_axis1_epsilon",
    "test_mod_mixed_sign_int32",
    "test_onehot_negative_indices", "test_reduce_log_sum_exp_do_not_keepdims_random",
    "test_reflect_pad", "test_rotary_embedding_3d_input",
    "test_scatter_elements_with_reduction_max",
    "test_scatternd_multiply", "test_slice_neg_steps", "test_split_to_sequence_1",
    "test_basic_conv_with_padding", "test_maxpool_2d_ceil", "test_lstm_with_peepholes",
    "test_gru_seq_length", "test_loop13_seq", "test_if", "test_qlinearconv", "test_scan9_sum",
    "test_gridsample_bicubic", "test_resize_upsample_scales_cubic", "test_sce_mean_3d",
    "test_adam_multiple", "test_dft", "test_nonmaxsuppression_two_batches",
    "test_ai_onnx_ml_tree_ensemble_set_membership", "test_image_decoder_decode_png_rgb",
    "test_string_split_basic", "test_cast_FLOAT_to_FLOAT8E4M3FN", "test_loop11",
    "test_tril_square_neg", "test_unique_sorted_with_axis", "test_where_example",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("name", SAMPLE)
def test_operators_mean_what_the_standard_says(name: str) -> None:
    run_case(node_tests()[name], "auto")


def unexpected(backend: str, chosen: Sequence[str]) -> set[str]:
    """Return which of `chosen` fail and are not listed, or are listed and pass."""
    names = "|".join(f"^{re.escape(name)}$" for name in chosen)
    return set(failures(backend, names)) ^ (expected_failures() & set(chosen))


def test_what_is_listed_is_there() -> None:
    assert expected_failures() <= node_tests().keys()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_all_but_the_listed_pass_with_the_reference_interpreter(part: int) -> None:
    assert not unexpected("reference", sorted(node_tests())[part::8])


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="needs a C compiler")
def test_a_part_of_all_passes_with_c() -> None:
    """All of them take the C compiler a while: `python -m tests.onnx.conformance --backend c`."""
    assert not unexpected("c", sorted(node_tests())[::16])


def test_the_documentation_lists_what_fails() -> None:
    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    assert listed() in page
    assert summary() in page

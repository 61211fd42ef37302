"""Eight bits: what chapter 06 of the specification says of them, and the tests that hold it."""

from __future__ import annotations

from collections.abc import Mapping

_DEFINITIONS = "quantization.test_definitions:"
_FIGURES = "ir.reference.test_quant:"
_LIFTED = "quantization.test_specification:"
_WHOLE = "quantization.test_quantize:"
_PAIRS = "quantization.test_pairs:"
_WRONG = "quantization.test_wrong_uses:"
_WORDS = "passes.lowering.test_byte_words:"
_SCALED = "passes.lowering.test_scaled_products:"
_EXACT = "passes.lowering.test_exact_products:"
_SLOPES = "passes.autodiff.test_quantized_products:"
_WEIGHTS = "ir.ops.test_scaled_weights:"
_CROSS = "aot.test_cross:"
_EXAMPLES = "examples.test_quantize:"
_DIGITS = "examples.test_microcontroller_digits:test_codes_are_equal_and_weights_stay_in_flash"
_PARITY = (
    "codegen.test_parity:test_kernels_agree_with_the_reference_through_c "
    "codegen.test_parity:test_kernels_agree_with_the_reference_through_llvm"
)

OPS: Mapping[str, str] = {
    "3 quantize: halves away from zero, the zero point before saturation, NaN and infinities": (
        f"{_FIGURES}test_quantize_rounds_halves_away_and_saturates "
        f"{_DEFINITIONS}test_codes_at_the_ends_of_every_range_are_those_of_a_loop"
    ),
    "3 dequantize, per tensor and per axis": (
        f"{_FIGURES}test_dequantize_centers_and_scales "
        f"{_FIGURES}test_channels_have_their_own_scales"
    ),
    "4 fake quantization by the scale of a batch": (
        f"{_FIGURES}test_fake_quantization_of_a_batch "
        f"{_FIGURES}test_a_sweep_agrees_with_scalar_loops "
        f"{_FIGURES}test_nan_stays_and_does_not_count_for_the_scale "
        f"{_DEFINITIONS}test_a_channel_of_nan_alone_has_the_smallest_scale"
    ),
    "4 by a fixed scale": (
        f"{_FIGURES}test_fake_quantization_with_a_fixed_scale "
        f"{_DEFINITIONS}test_fixed_scales_are_those_of_a_loop"
    ),
    "4 by a moving average, which is a result": (
        f"{_FIGURES}test_the_moving_average_starts_with_the_first_batch "
        f"{_DEFINITIONS}test_a_step_keeps_its_moving_average_from_run_to_run"
    ),
    "4 every straight-through estimator, of every kind of scale": (
        f"{_FIGURES}test_straight_through_estimators "
        f"{_FIGURES}test_the_largest_magnitude_of_a_channel_counts_as_inside "
        f"{_DEFINITIONS}test_estimators_are_those_of_a_loop "
        f"{_LIFTED}test_17_10_gradients_know_the_scale_that_was_given_or_averaged"
    ),
    "4 learned steps with both gradients": (
        f"{_FIGURES}test_learned_steps {_DEFINITIONS}test_learned_steps_are_those_of_a_loop "
        f"{_DEFINITIONS}test_learned_steps_of_nan_are_those_below_the_range "
        f"{_WRONG}test_a_learned_scale_that_left_the_positive_numbers_counts_as_the_smallest"
    ),
    "4 the bits of a rounding": f"{_DEFINITIONS}test_the_bits_of_a_rounding_are_known",
    "5 qmatmul: zero points, saturation, sums that wrap, one rounding to f32": (
        f"{_FIGURES}test_integer_product_is_that_of_the_specification "
        f"{_LIFTED}test_18_a_random_product_is_that_of_a_loop "
        f"{_DEFINITIONS}test_sums_wrap_at_32_bits "
        f"{_DEFINITIONS}test_sums_beyond_24_bits_are_rounded_to_even_and_ties_away_from_zero"
    ),
    "5 qconv: groups, strides, dilation, padding by the zero point, one to three dimensions": (
        f"{_FIGURES}test_integer_convolution_is_that_of_a_loop "
        f"{_LIFTED}test_17_14_convolutions_have_one_to_three_dimensions"
    ),
    "7 weights with scales beside them": f"{_WEIGHTS}*",
    "14 gradients of codes are f32": (
        f"{_SLOPES}test_matmul {_SLOPES}test_conv "
        f"{_DEFINITIONS}test_gradients_of_codes_are_f32_and_those_of_a_bias_are_refused "
        f"{_DEFINITIONS}test_gradients_pass_quantize_and_dequantize_as_they_are"
    ),
    "14 vmap": (
        "passes.vmap.test_every_op:test_batched_op_is_a_loop_over_the_examples "
        f"{_LIFTED}test_17_20_every_example_of_a_batch_has_its_own_scale "
        f"{_LIFTED}test_17_20_learned_scales_have_a_gradient_for_each_example"
    ),
    "every op has a meaning, a kernel, derivatives, batching and a record": "test_completeness:*",
    "every op is computed alike by all back ends": _PARITY,
}

PASSES: Mapping[str, str] = {
    "15 the calibrator keeps the largest magnitude": (
        f"{_PAIRS}test_the_calibrator_keeps_the_largest_magnitude quantization.test_histogram:*"
    ),
    "ranges by maximum, percentile and entropy": (
        f"{_WHOLE}test_results_stay_close "
        "quantization.test_histogram:test_an_outlier_does_not_stretch_the_range"
    ),
    "a calibration set is any iterable, of batches of any size": (
        f"{_WHOLE}test_weights_that_a_function_closes_over_are_quantized "
        f"{_WRONG}test_batches_of_a_function_may_have_any_size"
    ),
    "calibration shows its progress": f"{_WHOLE}test_calibration_shows_its_progress",
    "15 insert_q_dq": (
        f"{_PAIRS}test_all_that_reads_a_tap_reads_the_rounded_value "
        f"{_PAIRS}test_inserting_twice_and_inserting_nothing_change_nothing "
        f"{_PAIRS}test_taps_of_integers_other_graphs_and_wrong_lengths_are_errors "
        f"{_DEFINITIONS}test_outputs_that_name_a_tap_are_rounded_and_keep_their_names "
        f"{_PAIRS}test_what_reads_a_tap_beside_its_pair_is_rounded_too"
    ),
    "15 quant_propagate, where that is exact": (
        f"{_PAIRS}test_redundant_roundings_go_where_that_is_exact "
        f"{_PAIRS}test_three_in_a_row_are_one "
        f"{_DEFINITIONS}test_what_may_lie_between_two_roundings "
        f"{_DEFINITIONS}test_moving_averages_are_never_left_out "
        f"{_DEFINITIONS}test_states_that_differ_keep_both_roundings"
    ),
    "pairs cancel, and products between them are integer ones": (
        f"{_PAIRS}test_codes_pass_through_what_moves_or_chooses_them "
        f"{_PAIRS}test_a_network_of_pairs_stays_in_eight_bits "
        f"{_PAIRS}test_products_that_are_not_requantized_are_integer_ones_when_they_are_compiled "
        f"{_SCALED}*"
    ),
    "rounding is fused into what surrounds it": (
        f"{_WORDS}test_rounding_and_packing_are_one_pass_over_the_input "
        f"{_WORDS}test_products_of_one_input_share_its_bytes "
        f"{_WORDS}test_the_kernel_before_a_product_stores_the_bytes_that_it_reads "
        f"{_WORDS}test_images_are_rounded_padded_and_packed_in_one_pass "
        f"{_WORDS}test_single_taps_round_pack_and_scale_in_two_kernels"
    ),
    "weights have a scale for each channel, also those with a norm or a formula in them": (
        f"{_WHOLE}test_frozen_batch_norms_are_rounded_with_the_weights_before_them "
        f"{_WHOLE}test_weights_that_are_computed_from_params_are_quantized "
        f"{_WHOLE}test_transposed_weights_are_laid_out_as_they_are_read"
    ),
    "layers that lose too much stay in floats, and the report says which and why": (
        f"{_WHOLE}test_a_layer_that_loses_too_much_stays_in_floats "
        f"{_WRONG}test_activations_that_all_round_to_zero_leave_their_layer_in_floats "
        f"{_WHOLE}test_the_report_says_why_products_have_no_weights "
        f"{_WHOLE}test_the_report_counts_bytes"
    ),
    "rlx.quantize of a function or a graph in one call": (
        f"{_WHOLE}test_a_function_is_quantized_in_one_call_and_called_as_before "
        f"{_WHOLE}test_a_graph_is_called_with_its_inputs"
    ),
    "training through the rounding": (
        "quantization.test_training:* nn.test_rounding:* "
        "docs.test_documentation:test_the_python_of_a_page_runs"
    ),
    "moving averages are frozen": f"{_PAIRS}test_frozen_averages_are_fixed_scales",
}

KERNELS: Mapping[str, str] = {
    "four bytes at a time on x86 and aarch64": f"{_WORDS}test_products_are_exact "
    f"{_WORDS}test_the_largest_products_are_exact {_WORDS}test_convolutions_are_exact",
    "elsewhere in floats that hold the sums, or on the codes": f"{_EXACT}*",
    "equal integers under emulation of aarch64 and riscv64": (
        f"{_CROSS}test_emulated_integers_are_the_reference_s"
    ),
    "equal integers on a Cortex-M": _DIGITS,
    "equal integers by C and LLVM": f"{_WHOLE}test_integers_are_equal_on_every_back_end {_PARITY}",
    "bf16 in pairs": (
        "passes.layout.test_bf16_pairs:* codegen.loops.test_bf16_dots:* "
        f"{_CROSS}test_emulated_pairs_of_bf16_are_near_the_reference "
        f"{_CROSS}test_bf16_on_x86_is_multiplied_in_pairs"
    ),
}

EXPORT: Mapping[str, str] = {
    "weights are constant bytes in flash": _DIGITS,
    "sizes are in the header": "aot.test_artifact:*",
    "q/dq models of ONNX": "onnx.test_quantized:*",
}

JOB: Mapping[str, str] = {
    "digits lose at most 0.3 points, and nothing with training": (
        f"{_EXAMPLES}test_the_mlp_loses_nothing_with_training_through_the_rounding "
        f"{_EXAMPLES}test_the_convolutions_lose_nothing_with_training_through_the_rounding"
    ),
    "embeddings of MiniLM stay within a cosine of 0.99": f"{_EXAMPLES}test_sentences_stay_close",
    "digits on a Cortex-M, with flash, RAM and stack": _DIGITS,
}

WRONG_USES: Mapping[str, str] = {
    "scales that are not positive": (
        f"{_FIGURES}test_a_scale_that_is_not_positive_is_an_error "
        f"{_WRONG}test_scales_whose_reciprocal_is_infinite_are_refused"
    ),
    "lengths, axes, bits and dtypes of ops": (
        f"{_FIGURES}test_wrong_uses_are_errors_with_both_numbers "
        f"{_FIGURES}test_weights_of_a_product_are_a_matrix "
        f"{_FIGURES}test_operands_of_a_convolution_have_spatial_axes "
        f"{_WRONG}test_attributes_of_integer_products_are_checked "
        f"{_WRONG}test_operands_of_integer_products_are_checked "
        f"{_WRONG}test_scales_of_training_are_f32"
    ),
    "calibration sets, choices, and graphs": (
        f"{_WRONG}test_a_wrong_call_is_a_typed_error_with_a_remedy "
        f"{_WHOLE}test_wrong_uses_are_errors "
        f"{_WRONG}test_a_number_that_is_not_finite_is_told_with_its_batch_and_line "
        f"{_WHOLE}test_wrong_calls_of_a_quantized_function_are_errors"
    ),
    "sums that i32 cannot hold": (
        f"{_WHOLE}test_sums_that_i32_cannot_hold_stay_in_floats "
        f"{_PAIRS}test_sums_that_may_wrap_stay_products_of_floats "
        f"{_PAIRS}test_a_zero_point_that_no_byte_holds_leaves_relu_to_floats"
    ),
}

LIFTED: Mapping[str, str] = {
    "17.4 fp8 is that of the Open Compute Project": (
        f"{_WEIGHTS}test_fp8_e4m3_is_the_open_compute_projects "
        f"{_WEIGHTS}test_all_floats_of_eight_bits"
    ),
    "17.5 one scale of fp8": f"{_WEIGHTS}test_fp8_e5m2_with_one_scale_for_all_columns",
    "17.6 signs of int4": f"{_WEIGHTS}test_int4_with_zero_points_has_signs",
    "17.7 lengths that do not divide": f"{_WEIGHTS}test_what_does_not_fit_is_refused",
    "17.8 gradients of scales and zero points": (
        f"{_WEIGHTS}test_scales_and_zero_points_have_gradients"
    ),
    "17.9 f32 gradients and casts of bytes": (
        f"{_SLOPES}test_matmul {_LIFTED}test_17_9_casts_between_floats_and_bytes_convert"
    ),
    "17.10 slopes by the scale that was used": (
        f"{_LIFTED}test_17_10_gradients_know_the_scale_that_was_given_or_averaged"
    ),
    "17.11 the largest of a channel": (
        f"{_FIGURES}test_the_largest_magnitude_of_a_channel_counts_as_inside"
    ),
    "17.12 propagation": f"{_PAIRS}test_redundant_roundings_go_where_that_is_exact",
    "17.13 the zero point before saturation": (
        f"{_FIGURES}test_quantize_rounds_halves_away_and_saturates"
    ),
    "17.14 convolutions of any rank": (
        f"{_LIFTED}test_17_14_convolutions_have_one_to_three_dimensions"
    ),
    "17.15 leading axes": f"{_LIFTED}test_17_15_leading_axes_of_a_product_are_rows",
    "17.16 every back end, every op": _PARITY,
    "17.20 vmap": f"{_LIFTED}test_17_20_every_example_of_a_batch_has_its_own_scale",
    "17.21 frozen averages": f"{_PAIRS}test_frozen_averages_are_fixed_scales",
    "17.24 other floats": f"{_LIFTED}test_17_24_other_floats_are_typed_errors",
}

FACTS: Mapping[str, str] = {
    "18 every row about quantization": f"{_LIFTED}test_rows_that_other_files_show",
    "18 Int8Block": f"{_WEIGHTS}test_int8 {_WEIGHTS}test_int8_with_zero_points "
    f"{_WEIGHTS}test_a_last_block_may_be_short",
    "18 Int4Block": f"{_WEIGHTS}test_int4_is_unsigned_without_zero_points "
    f"{_WEIGHTS}test_int4_with_zero_points_has_signs",
    "18 Fp8 and Nvfp4": f"{_WEIGHTS}test_fp8_e4m3_is_the_open_compute_projects "
    f"{_WEIGHTS}test_nvfp4",
}

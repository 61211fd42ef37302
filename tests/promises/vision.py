"""What vision promises: images in, gradients out, by chapter 03 and its sections' numbers."""

from __future__ import annotations

from collections.abc import Mapping

_FACTS = "ir.ops.test_vision_facts:"
_LIMITS = "ir.ops.test_vision_limits:"
_REST = "ir.ops.test_vision_remainders:"
_CONV = "ir.ops.test_convolution_facts:"
_POOLS = "ir.reference.test_pool:"
_NORMS = "ir.reference.test_norm:"
_CHANNEL_NORMS = "ir.reference.test_channel_norm:"
_RESIZE = "ir.reference.test_resize:"
_ATTENTION = "ir.reference.test_attention:"
_TILED = "codegen.kernels.test_attention_tiled:"
_CONV_LAYERS = "nn.test_convolution:"
_IMAGE_LAYERS = "nn.test_images:"
_SECOND = "nn.test_double_backward:"
_GENERATED = "nn.test_generated:"
_BLOCKS = "blocks.test_fused_blocks:"
_FOLD = "passes.rewrites.test_fold_batch_norm:"
_TILES = "passes.layout.test_tile_convolutions:"
_LAST = "passes.layout.test_channels_last:"
_WINOGRAD = "codegen.kernels.test_conv_winograd:"
_DIRECT = "codegen.kernels.test_conv_direct:"
_POOL = "codegen.kernels.test_pool:"
_RESAMPLE = "codegen.kernels.test_resample:"
_SLICES = "passes.fusion.test_slices:"

_RECORDED = (
    "codegen.test_parity:* "
    "passes.autodiff.test_every_op:test_recorded_op_has_its_first_derivatives "
    "passes.autodiff.test_every_op:test_recorded_op_has_its_second_derivatives "
    "passes.vmap.test_every_op:test_batched_op_is_a_loop_over_the_examples"
)
"""What runs over the records of every op: both back ends, two derivatives, batches."""

OPS: Mapping[str, str] = {
    "convolution over 1, 2 and 3 axes: strides, uneven padding, dilation, groups": (
        f"{_CONV_LAYERS}test_conv_and_its_gradients_are_those_of_pytorch "
        f"{_CONV_LAYERS}test_named_padding_with_channels_last_is_that_of_jax "
        f"{_GENERATED}test_random_layers_are_those_of_pytorch "
        f"{_CONV}test_limit_5_one_and_three_axes {_RECORDED}"
    ),
    "its two gradients": f"{_CONV}test_facts_d_e_f_gradients_are_finite_differences {_RECORDED}",
    "transposed convolution with output padding": (
        f"{_CONV_LAYERS}test_conv_transpose_and_its_gradients_are_those_of_pytorch "
        f"{_CONV_LAYERS}test_transposed_same_padding_is_that_of_jax"
    ),
    "windows as rows, and their gradient": (
        f"{_CONV}test_windows_are_rows_and_a_product_of_them_is_the_convolution "
        f"{_CONV}test_col2im_is_the_transpose_of_im2col"
    ),
    "pools of five kinds: padding counted or not, ceil mode, dilation": (
        f"{_POOLS}test_pools_agree_with_pytorch "
        f"{_IMAGE_LAYERS}test_pools_and_their_gradients_are_those_of_pytorch_in_both_layouts "
        f"{_POOL}test_large_pools_agree_with_the_reference {_RECORDED}"
    ),
    "batch, group, instance and per-position norms; statistics are results": (
        f"{_CHANNEL_NORMS}test_channel_norms_agree_with_pytorch "
        f"{_IMAGE_LAYERS}test_batch_norm_returns_the_running_statistics_for_the_next_call "
        f"{_RECORDED}"
    ),
    "resizing by any factor at the coordinates of ONNX": (
        f"{_RESIZE}test_resize_agrees_with_onnx {_RESIZE}test_resize_to_a_size_agrees_with_pytorch "
        "ir.ops.test_symbolic_resize:test_one_program_resizes_images_of_all_extents "
        f"{_RESAMPLE}test_large_operands_have_the_bits_of_the_reference_on_any_number_of_threads "
        f"{_RESAMPLE}test_a_position_outside_of_the_axis_is_an_error "
        f"{_RESAMPLE}test_many_taps_are_added_a_few_at_a_time"
    ),
    "blocks of space as channels and back": (
        f"{_RESIZE}test_blocks_of_space_agree_with_pytorch_and_onnx"
    ),
    "rotary embedding along rows and columns": f"{_RESIZE}test_axial_rope_meets_the_specification",
    "every kind of mask in every layout": (
        f"{_TILED}test_every_layout {_TILED}test_masks_and_biases_of_every_rank "
        f"{_TILED}test_sliding_windows_also_where_rows_see_nothing "
        f"{_REST}test_6_a_shape_that_fits_both_layouts_or_none"
    ),
}

TRANSFORMS: Mapping[str, str] = {
    "second derivatives are those of double backward": (
        f"{_SECOND}test_the_gradient_of_a_gradient_is_that_of_pytorch "
        f"{_GENERATED}test_random_gradients_are_those_of_pytorch"
    ),
    "a batch of kernels is one grouped convolution": (
        f"{_SECOND}test_kernels_of_a_batch_are_groups_of_one_convolution "
        f"{_GENERATED}test_batches_of_kernels_are_loops_over_them"
    ),
    "a batch of images that are resized is one operand": (
        f"{_RESAMPLE}test_examples_that_share_positions_stay_one_operand"
    ),
    "f16 and bf16 are computed in f32 and rounded once": (
        f"codegen.test_parity:* {_GENERATED}test_halves_are_rounded_once"
    ),
}

LAYERS: Mapping[str, str] = {
    "layers in both layouts, with their initializers": (f"{_CONV_LAYERS}* {_IMAGE_LAYERS}*"),
    "unsupported combinations are typed errors": (
        f"{_CONV_LAYERS}test_what_does_not_fit_is_a_typed_error "
        f"{_CONV_LAYERS}test_images_without_channels_are_a_typed_error "
        f"{_IMAGE_LAYERS}test_layers_refuse_what_they_cannot_do "
        f"{_POOLS}test_geometry_that_fits_no_axes_is_refused "
        f"{_RESIZE}test_what_cannot_be_resized_is_refused"
    ),
}

PASSES: Mapping[str, str] = {
    "a frozen batch norm scales the weights before it": (
        f"{_FOLD}test_a_frozen_batch_norm_scales_the_weights"
    ),
    "bias, activation and residual are computed in the convolution's kernel": (
        f"{_FOLD}test_what_follows_a_convolution_is_computed_in_its_kernel "
        f"{_DIRECT}test_bias_activation_and_residual_join_the_convolution "
        "codegen.kernels.test_conv_channels_last:"
        "test_bias_activation_and_residual_join_the_convolution"
    ),
    "what surrounds a pool is computed in its kernel": (
        f"{_FOLD}test_what_surrounds_a_pool_is_computed_in_its_kernel"
    ),
    "what follows a resize is computed in its kernel": (
        f"{_RESAMPLE}test_what_follows_is_computed_in_the_kernel"
    ),
    "single taps are products": f"{_TILES}test_single_taps_and_whole_windows_are_products",
    "layout is chosen by a pass, and converted at the edges": f"{_LAST}*",
    "weights are packed in setup": f"{_TILES}test_the_input_is_padded_and_the_weights_are_packed",
    "equal convolutions share a kernel": f"{_DIRECT}test_equal_convolutions_share_a_kernel",
    "weights of all shapes are packed by one kernel": "codegen.lower.test_share_kernels:*",
}

KERNELS: Mapping[str, str] = {
    "single taps over many large planes meet a copy of their rows": (
        f"{_DIRECT}test_planes_far_apart_are_copied_by_rows"
    ),
    "direct convolution in register tiles": f"{_DIRECT}* codegen.kernels.test_conv_channels_last:*",
    "depthwise with the window in registers": (
        "codegen.kernels.test_conv_depthwise:* codegen.kernels.test_conv_depthwise_last:*"
    ),
    "Winograd within a stated bound, and not where precision is strict": (
        f"{_WINOGRAD}test_results_are_within_the_bound "
        f"{_WINOGRAD}test_large_layers_are_transformed_unless_precision_is_strict"
    ),
    "dilated layers are transformed, too: tiles interleave": (
        f"{_WINOGRAD}test_taps_that_are_apart_are_transformed "
        f"{_GENERATED}test_dilated_layers_of_known_weights_are_transformed_and_right "
        f"{_WINOGRAD}test_the_transforms_are_exact"
    ),
    "joins of many channels have a loop for each piece": (
        "codegen.kernels.test_guards:test_joins_of_many_pieces_have_a_loop_for_each_that_is_long"
    ),
    "an input that is spread apart is convolved phase by phase": (
        "passes.rewrites.test_split_phases:*"
    ),
    "the choice has a cost, and is told": f"{_TILES}* report.test_why:*",
    "a blocked convolution with its epilogue is two screens of C": (
        f"{_DIRECT}test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c "
        "codegen.kernels.test_conv_channels_last:"
        "test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c"
    ),
    "the same bits on any number of threads": (
        f"{_DIRECT}test_bits_are_the_same_on_two_threads "
        f"{_WINOGRAD}test_bits_are_the_same_on_two_threads "
        f"{_POOL}test_bits_are_the_same_on_two_threads"
    ),
}

EXAMPLES: Mapping[str, str] = {
    "a network reads 99 of 100 digits": (
        "examples.test_digits_conv:test_the_network_reads_99_of_100_test_digits"
    ),
    "the same training as C, bit for bit": (
        "aot.test_train_in_c:test_c_program_trains_to_the_bits_of_the_python_run"
    ),
    "whole networks agree with ONNX Runtime": "onnx.test_models:test_the_light_models",
}

FAST: Mapping[str, str] = {
    "single layers": (
        "bench:conv_3x3_56_64_batch1 bench:conv_1x1_56_64_256_batch1 bench:conv_7x7_s2_224_batch1 "
        "bench:conv_depthwise_3x3_112_32_batch1 bench:conv_dilated_3x3_28_256_batch1 "
        "bench:conv_grouped_3x3_28_32x4_batch1 bench:conv_transposed_4x4_s2_28_128_batch1 "
        "bench:conv_3x3_56_64_batch16 bench:max_pool_3x3_s2_112_64"
    ),
    "norms and resizing": (
        "bench:batch_norm_56_64_batch16 bench:group_norm_64_320 bench:instance_norm_128_64 "
        "bench:layer_norm2d_56_96 bench:resize_linear_56_to_90_64 bench:resize_linear_56_to_40_64"
    ),
    "whole networks and a training step": (
        "bench:resnet50 bench:squeezenet bench:densenet121 bench:mobilenet_v2 "
        "bench:train_conv_batch32"
    ),
}

JUDGED: Mapping[str, str] = {
    "every op against PyTorch, and gradients against its double backward": (
        f"{_CONV_LAYERS}test_conv_and_its_gradients_are_those_of_pytorch "
        f"{_CONV_LAYERS}test_conv_transpose_and_its_gradients_are_those_of_pytorch "
        f"{_IMAGE_LAYERS}test_pools_and_their_gradients_are_those_of_pytorch_in_both_layouts "
        f"{_CHANNEL_NORMS}test_channel_norms_agree_with_pytorch "
        f"{_RESIZE}test_resize_to_a_size_agrees_with_pytorch "
        f"{_SECOND}test_the_gradient_of_a_gradient_is_that_of_pytorch"
    ),
    "gradients against finite differences in f64": (
        f"{_CONV}test_facts_d_e_f_gradients_are_finite_differences {_RECORDED}"
    ),
    "empty batches, windows of padding, groups that are channels, odd sizes": (
        f"{_REST}test_0_a_batch_of_nothing_is_nothing "
        f"{_POOLS}test_a_window_of_padding_is_the_neutral_element {_RECORDED}"
    ),
    "a window that does not fit at the call is refused by exported C": (
        "aot.test_bad_input:test_extents_that_an_op_refuses_are_out_of_range"
    ),
    "names and shapes that users of JAX and PyTorch expect, or a typed error": (
        f"{_IMAGE_LAYERS}test_resize_is_that_of_jax_and_pytorch "
        f"{_IMAGE_LAYERS}test_layers_refuse_what_they_cannot_do"
    ),
    "the C of a blocked convolution is two screens": (
        f"{_DIRECT}test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c"
    ),
}

SECTIONS: Mapping[str, str] = {
    "0: entries left out, batches and axes of nothing": (
        f"{_REST}test_0_entries_left_out_are_ones_and_zeros "
        f"{_REST}test_0_a_batch_of_nothing_is_nothing "
        f"{_REST}test_0_what_has_no_element_to_normalize_is_a_typed_error "
        f"{_CHANNEL_NORMS}test_statistics_of_nothing_are_refused"
    ),
    "2.2: extents of a cotangent beyond the convolution's": (
        f"{_CONV}test_ceil_mode_positions_beyond_the_padding_are_cut_off"
    ),
    "3: padding never wins, ties and NaN go to the first": (
        f"{_POOLS}test_a_window_of_padding_is_the_neutral_element "
        f"{_POOLS}test_a_gradient_goes_to_the_first_of_equal_elements codegen.test_parity:*"
    ),
    "4: variance takes two passes, over any axis": (
        f"{_NORMS}test_layer_norm_survives_a_mean_far_above_the_deviation "
        f"{_NORMS}test_layer_norm_over_any_axis_agrees_with_pytorch"
    ),
    "5: softmax of NaN and infinity, along any axis": (
        "ir.reference.test_reduction:test_softmax_of_a_slice_with_nan_or_infinity_is_nan "
        "ir.reference.test_reduction:test_softmax_and_its_logarithm_agree_with_scipy_on_any_axis"
    ),
    "6.2: rows that see nothing, masks with NaN, layouts by hand": (
        f"{_ATTENTION}test_a_query_that_sees_no_key_gets_the_mean_of_the_values "
        f"{_ATTENTION}test_a_nan_in_a_custom_mask_is_visible "
        f"{_ATTENTION}test_a_bias_row_of_minus_infinity_is_nan "
        f"{_ATTENTION}test_an_explicit_layout_decides_where_the_shape_is_ambiguous"
    ),
    "6.3: blocks of keys that hold nothing": (
        f"{_TILED}test_leading_blocks_of_minus_infinity_do_not_poison_a_row "
        f"{_TILED}test_a_row_without_a_visible_key_averages_all_values"
    ),
    "6.5: no gradient passes through what is hidden": (
        f"{_ATTENTION}test_no_gradient_passes_through_a_hidden_score"
    ),
    "7: rope, its tail and its tables": (
        f"{_ATTENTION}test_rope_meets_the_specification "
        f"{_ATTENTION}test_the_gradient_of_rope_is_rope_with_the_angles_negated "
        f"{_ATTENTION}test_rope_copies_elements_beyond_the_last_whole_head "
        f"{_ATTENTION}test_rope_starts_its_table_over"
    ),
    "8: doubling repeats pixels": f"{_RESIZE}test_nearest_2x_repeats_elements_of_every_example",
    "9.1": f"{_BLOCKS}test_9_1_fused_mat_mul_bias_act",
    "9.2": f"{_BLOCKS}test_9_2_fused_residual_layer_norm",
    "9.3": f"{_BLOCKS}test_9_3_fused_residual_rms_norm",
    "9.4": (
        f"{_BLOCKS}test_9_4_fused_swiglu "
        f"{_BLOCKS}test_9_4_the_product_is_rounded_to_what_it_is_cast_to"
    ),
    "9.5": f"{_BLOCKS}test_9_5_lora_mat_mul",
    "9.6": (
        f"{_BLOCKS}test_9_6_fused_attention_block "
        f"{_BLOCKS}test_9_6_heads_need_not_be_as_wide_as_the_embedding"
    ),
    "9.7": f"{_BLOCKS}test_9_7_fused_transformer_layer",
    "9.8": f"{_BLOCKS}test_9_8_fused_nomic_layer {_BLOCKS}test_9_7_fused_transformer_layer",
    "10: guards of fused blocks": (
        f"{_BLOCKS}test_10_a_bias_on_one_side_is_refused "
        f"{_BLOCKS}test_10_a_residual_that_broadcasts_is_refused "
        f"{_BLOCKS}test_10_an_intermediate_that_is_an_output_is_kept "
        f"{_SLICES}test_a_slice_that_others_want_too_is_stored_once"
    ),
}

LIMITS: Mapping[str, str] = {
    "11.1": (
        f"{_FACTS}test_limit_1_scale_and_cap_act_before_the_mask_in_both_directions "
        f"{_FACTS}test_limit_1_gradients_through_scale_and_cap_are_differences"
    ),
    "11.2": f"{_FACTS}test_limit_2_rms_norm_gradients",
    "11.3": f"{_FACTS}test_limit_3_every_example_of_a_batch_is_computed",
    "11.4": f"{_FACTS}test_limit_4_any_axis",
    "11.5": (
        f"{_FACTS}test_limit_5_pools_of_every_kind_and_losses_of_every_rank "
        f"{_CONV}test_limit_5_one_and_three_axes"
    ),
    "11.6": f"{_LIMITS}test_limit_6_a_transformer_layer_of_eight_operands_is_computed",
    "11.7": f"{_LIMITS}test_limit_7_every_op_has_a_kernel_a_formula_or_a_reason",
    "11.8": (
        f"{_FACTS}test_limits_8_24_fused_blocks_refuse_what_would_be_misread "
        f"{_BLOCKS}test_9_8_fused_nomic_layer"
    ),
    "11.9": f"{_LIMITS}test_limit_9_parts_that_feed_attention_keep_their_axis_and_other_readers",
    "11.10": f"{_LIMITS}test_limit_10_rope_writes_every_element_of_every_rank",
    "11.11": f"{_FACTS}test_limit_11_gate_first_and_cast_are_honored",
    "11.12": f"{_LIMITS}test_limit_12_resizing_repeats_pixels_and_not_the_image",
    "11.13": f"{_CONV}test_limit_13_f64_is_computed_in_f64 codegen.test_parity:*",
    "11.14": f"{_FACTS}test_limit_14_layer_norm_takes_two_passes",
    "11.15": f"{_FACTS}test_limit_15_custom_masks_of_every_shape_that_broadcasts",
    "11.16": (
        f"{_FACTS}test_limits_16_17_gradients_by_a_bias_and_fewer_key_heads "
        "passes.autodiff.test_conventions:test_hidden_scores_of_fully_masked_rows_get_no_gradient"
    ),
    "11.17": (
        f"{_FACTS}test_limits_16_17_gradients_by_a_bias_and_fewer_key_heads "
        f"{_REST}test_6_a_shape_that_fits_both_layouts_or_none"
    ),
    "11.18": f"{_CONV}test_limit_18_missing_derivatives {_RECORDED}",
    "11.19": (
        f"{_CONV}test_limit_19_what_does_not_fit_is_a_typed_error "
        f"{_POOLS}test_a_window_larger_than_the_padded_operand_is_refused"
    ),
    "11.20": f"{_CONV}test_limit_20_windows_of_every_image_of_a_dynamic_batch",
    "11.21": f"{_CONV}test_limit_21_zeros_of_the_input_meet_their_taps",
    "11.22": f"{_FACTS}test_limit_22_group_norm_of_one_spatial_axis_has_its_gradient",
    "11.23": f"{_LIMITS}test_limit_23_labels_out_of_range_are_faults_in_both_directions",
    "11.24": f"{_FACTS}test_limits_8_24_fused_blocks_refuse_what_would_be_misread",
}

TEST_FACTS: Mapping[str, str] = {
    "12 convolution a": f"{_CONV}test_fact_a_single_taps_are_a_product",
    "12 convolution b": f"{_CONV}test_fact_b_shapes",
    "12 convolution c": f"{_CONV}test_fact_c_one_axis",
    "12 convolution d, e, f": (
        f"{_CONV}test_facts_d_e_f_gradients_are_finite_differences "
        f"{_CONV}test_fact_f_the_transposed_form_needs_output_padding"
    ),
    "12 transposed convolution": f"{_CONV}test_fact_transposed_convolution",
    "12 pools": (
        f"{_POOLS}test_max_pool_meets_the_specification {_POOLS}test_mean_pool_counts_padding "
        f"{_POOLS}test_pools_of_one_and_three_axes_and_products_meet_the_specification "
        f"{_POOLS}test_a_gradient_goes_to_the_first_of_equal_elements"
    ),
    "12 layer norm": (
        f"{_NORMS}test_layer_norm_meets_the_specification "
        f"{_REST}test_12_gradients_of_layer_norm_are_finite_differences"
    ),
    "12 norm per position": (
        f"{_CHANNEL_NORMS}test_layer_norm2d_meets_the_specification "
        f"{_REST}test_12_gradients_of_layer_norm2d_are_finite_differences"
    ),
    "12 RMS norm": (
        f"{_NORMS}test_rms_norm_meets_the_specification_with_and_without_beta "
        f"{_FACTS}test_limit_2_rms_norm_gradients"
    ),
    "12 group norm": (
        f"{_CHANNEL_NORMS}test_group_norm_meets_the_specification_for_each_example "
        f"{_CHANNEL_NORMS}test_the_gradient_of_group_norm_meets_the_specification"
    ),
    "12 doubling": f"{_RESIZE}test_nearest_2x_repeats_elements_of_every_example",
    "12 softmax": f"{_FACTS}test_fact_softmax_sums_to_one_and_has_no_gradient",
    "12 cross-entropy": (
        f"{_FACTS}test_fact_cross_entropy {_NORMS}test_cross_entropy_meets_the_specification "
        f"{_REST}test_12_each_row_s_own_upstream_scales_its_gradient "
        f"{_REST}test_12_a_dense_layer_with_a_loss_of_classes_has_its_gradients"
    ),
    "12 small network": (
        f"{_FACTS}test_fact_tiny_network_with_pooling {_CONV}test_fact_tiny_network_without_pooling"
    ),
    "12 attention": (
        f"{_FACTS}test_limit_1_scale_and_cap_act_before_the_mask_in_both_directions "
        f"{_FACTS}test_fact_attention_masks "
        f"{_FACTS}test_fact_a_decoding_step_is_the_last_row_of_the_whole "
        f"{_ATTENTION}test_attention_meets_the_specification "
        f"{_REST}test_12_attention_of_three_axes_under_a_mask_of_keys"
    ),
    "12 gradient of attention": (
        f"{_FACTS}test_fact_attention_gradients "
        f"{_ATTENTION}test_attention_backward_meets_the_specification "
        f"{_REST}test_12_the_gradient_by_queries_of_a_sum_of_attended_values"
    ),
    "12 rope": (
        f"{_FACTS}test_fact_rope {_ATTENTION}test_rope_meets_the_specification "
        f"{_ATTENTION}test_the_gradient_of_rope_is_rope_with_the_angles_negated"
    ),
    "12 axial rope": f"{_RESIZE}test_axial_rope_meets_the_specification",
    "12 fused": (
        f"{_FACTS}test_fact_fused_forms {_FACTS}test_fact_attention_block "
        f"{_FACTS}test_limit_11_gate_first_and_cast_are_honored "
        f"{_REST}test_12_two_rows_that_are_the_same_sum_have_the_same_norm "
        f"{_BLOCKS}test_9_5_lora_mat_mul"
    ),
    "12 transformer layer": f"{_FACTS}test_fact_transformer_layer",
    "12 slices of a projection": (
        f"{_REST}test_12_rope_reads_its_slice_of_a_projection "
        f"{_REST}test_12_attention_reads_three_slices_under_a_mask_of_keys"
    ),
}

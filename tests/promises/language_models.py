"""What rlx promises about language models, from their files to their answers, and the tests.

Sections are those of the specification's chapter on quantization and mixtures of experts.
"""

from __future__ import annotations

from collections.abc import Mapping

_FILE = "gguf.test_file:"
_ENCODING = "gguf.test_encoding:"
_DECODING = "ir.test_block_decoding:"
_PACKED = "codegen.kernels.test_packed:"
_INT8 = "codegen.kernels.test_packed_int8:"
_EXPERTS = "codegen.kernels.test_packed_experts:"
_SCALED = "ir.ops.test_scaled_weights:"
_MONITOR = "language.test_experts:"
_FACTS = "language.test_specification:"
_RULES = "language.test_specified_rules:"
_BAD = "language.test_bad_metadata:"
_MODEL = "language.test_model:"
_BATCH = "language.test_batch:"
_SAMPLING = "language.test_sampling:"
_TUNING = "language.test_fine_tuning:"
_TOKENS = "language.test_tokenizer:"
_SMOLLM2 = "language.test_smollm2:"
_JOBS = "language.test_jobs:"
_CHAT_IN_C = "examples.test_chat_in_c:"
_DRAWS = "random.test_draws:"

FILES: Mapping[str, str] = {
    "versions 1 to 3 in both byte orders are read": (
        f"{_FILE}test_versions_and_byte_orders "
        f"{_FILE}test_big_endian_blocks_have_their_scales_swapped"
    ),
    "a file is mapped, and its bytes are not copied": f"{_FILE}test_bytes_are_mapped_not_copied",
    "pages of a file go back to the system while it is set up": (
        f"{_FILE}test_pages_are_given_back_while_a_file_is_read "
        f"{_FILE}test_pages_are_given_back_at_the_end_where_no_thread_starts"
    ),
    "parts of a split file are one model": (
        f"{_FILE}test_parts_of_a_split_file_are_one "
        f"{_FILE}test_parts_that_share_a_tensor_are_refused {_FILE}test_a_missing_part_is_named"
    ),
    "files of the gguf package read equal": (
        f"{_FILE}test_files_of_the_gguf_package_read_equal {_FILE}test_plain_numbers "
        f"{_FILE}test_bf16_is_the_upper_half_of_f32 "
        f"{_FILE}test_shapes_are_reversed_dims_and_rows_are_bytes"
    ),
    "the start of the data is aligned as the file says": (
        f"{_FILE}test_another_alignment_is_obeyed {_FILE}test_alignment_is_a_power_of_two"
    ),
    "no length or count is believed before it is checked": (
        f"{_FILE}test_counts_are_not_believed {_FILE}test_a_tensor_lies_in_its_file "
        f"{_FILE}test_rows_are_whole_blocks"
    ),
    "truncated and mutated files are typed errors": (
        f"{_FILE}test_every_truncation_is_a_format_error "
        f"{_FILE}test_mutated_files_are_read_or_refused "
        f"{_FILE}test_sixteen_zero_bytes_are_no_file {_FILE}test_an_empty_file_is_refused "
        f"{_FILE}test_a_missing_file_is_refused {_FILE}test_version_4_is_refused "
        f"{_FILE}test_keys_and_tensors_are_unique"
    ),
    "wrong types and missing metadata are named": (
        f"{_FILE}test_types_of_metadata_are_checked {_MODEL}test_missing_metadata_is_named "
        f"{_MODEL}test_an_unknown_architecture_is_refused {_MODEL}test_a_missing_tensor_is_named "
        f"{_MODEL}test_a_tensor_of_another_shape_is_named "
        f"{_FILE}test_a_tensor_that_is_not_there"
    ),
    "no number, list or word of the metadata is believed, nor memory taken for it": (
        f"{_BAD}test_no_number_of_a_decoder_is_believed "
        f"{_BAD}test_nothing_of_a_tokenizer_is_believed {_BAD}test_the_key_is_named "
        f"{_BAD}test_mutated_heads_are_models_or_refused"
    ),
    "a type that cannot be decoded fails when its tensor is read": (
        f"{_FILE}test_types_that_cannot_be_read_fail_when_asked_for"
    ),
}

BLOCKS: Mapping[str, str] = {
    "every type decodes as the gguf package does, bit for bit": (
        f"{_DECODING}test_random_blocks_decode_as_the_gguf_package_does "
        f"{_DECODING}test_golden_blocks_decode_exactly"
    ),
    "types of 32 elements are encoded as the gguf package does": (
        f"{_ENCODING}test_blocks_are_the_bytes_of_the_gguf_package"
    ),
    "encoders stay within the stated errors, and refuse what no scale holds": (
        f"{_ENCODING}test_errors_stay_within_their_bounds "
        f"{_ENCODING}test_weights_must_be_finite {_ENCODING}test_a_scale_beyond_f16_is_refused "
        f"{_ENCODING}test_zeros_are_coded_exactly"
    ),
    "one formula of a block serves products, gathers and whole tensors": (
        f"{_PACKED}test_every_block_type_streams_past_few_rows "
        f"{_PACKED}test_many_rows_meet_decoded_weights_in_tiles "
        f"{_PACKED}test_rows_of_a_packed_table_are_decoded_after_they_are_gathered "
        f"{_MONITOR}test_stacks_are_decoded_as_plain_products_take_them"
    ),
    "C and LLVM compute the same products": f"{_PACKED}test_c_agrees {_INT8}test_c_agrees",
    "codes of a type are moved by one number, or none is": (
        f"{_INT8}test_all_codes_of_a_type_are_moved_if_one_is_no_signed_byte"
    ),
    "ARM multiplies codes as signed bytes": (
        "aot.test_cross:test_emulated_products_of_packed_weights_take_signed_bytes"
    ),
    "packed weights are never floats in memory": (
        f"{_JOBS}test_packed_weights_are_never_floats_in_memory"
    ),
    "the C of a product reads well": f"{_PACKED}test_a_packed_product_reads_as_its_golden",
    "what follows a product is computed in its kernel": (
        f"{_PACKED}test_what_follows_joins_the_product"
    ),
    "threads share small products, and are not woken for them alone": (
        f"{_PACKED}test_threads_are_woken_for_large_products_and_share_small_ones"
    ),
}

ACCURACY: Mapping[str, str] = {
    "the schedule says which of both accuracies was chosen": (
        f"{_JOBS}test_the_schedule_says_which_accuracy_was_chosen"
    ),
    "exact: logits are those of another implementation on the decoded weights": (
        f"{_SMOLLM2}test_logits_of_64_tokens {_SMOLLM2}test_greedy_texts_are_equal"
    ),
    "int8: its error is measured, and integers are summed without rounding": (
        f"{_SMOLLM2}test_logits_with_activations_of_eight_bits "
        f"{_INT8}test_every_block_type_streams_past_few_rows "
        f"{_INT8}test_many_rows_meet_unpacked_codes_in_tiles {_INT8}test_what_is_no_number_shows"
    ),
    "levels of mxfp4, nvfp4 and iq4 are looked up four at a time, and equal everywhere": (
        "codegen.loops.test_byte_lookups:test_arithmetic_on_words_finds_the_bytes_of_the_table "
        f"{_INT8}test_codes_come_four_at_a_time_where_formulas_are_of_bytes"
    ),
    "int8: gradients pass the rounding": f"{_INT8}test_gradients_pass_the_rounding",
    "keys and values may have 16 bits": (
        f"{_MODEL}test_keys_and_values_in_16_bits {_SMOLLM2}test_logits_with_keys_and_values_in_f16"
    ),
}

DECODING: Mapping[str, str] = {
    "six architectures, one of them a mixture, give transformers' logits": (
        "language.test_architectures:test_logits_are_those_of_transformers"
    ),
    "caps of scores and logits are those that metadata names": (
        "language.test_architectures:test_capped_scores_and_logits"
    ),
    "rope in its variants and scalings": "language.test_rope:*",
    "one program takes prompts of any length, one a step, over one state": (
        f"{_MODEL}test_prompts_and_steps_take_turns "
        f"{_MODEL}test_decoders_take_all_extents_within_the_bounds "
        f"{_MODEL}test_the_reference_interpreter_agrees {_MODEL}test_the_context_is_a_limit"
    ),
    "keys and values are state that runs replace in place": (
        "runtime.test_residents:test_programs_share_params_and_state runtime.test_advance:*"
    ),
    "sequences of unequal length are continued together": (
        f"{_BATCH}test_each_sequence_says_what_it_says_alone "
        f"{_BATCH}test_models_of_floats_have_batches_too {_BATCH}test_batches_have_adapters "
        f"{_BATCH}test_prompts_fill_a_context_that_is_no_multiple_of_their_pieces"
    ),
    "a program that is known starts without its graph, and without any op": (
        f"{_MODEL}test_programs_are_found_by_the_head_of_the_file "
        f"{_MODEL}test_what_is_in_a_graph_is_in_its_name "
        "language.test_imports:test_whoever_runs_a_model_declares_no_ops_and_imports_no_passes_"
        "and_no_kernels"
    ),
    "the tokenizer and the chat template come from the file": (
        f"{_TOKENS}test_merges_over_bytes {_TOKENS}test_sentence_pieces_are_merged_by_score "
        f"{_TOKENS}test_a_conversation_is_a_prompt {_SMOLLM2}test_the_chat_template_makes_a_prompt"
    ),
    "draws are as likely as they should be, and follow from the seed": (
        f"{_SAMPLING}test_tokens_are_drawn_as_often_as_they_are_likely "
        f"{_SAMPLING}test_unlikely_tokens_are_left_out "
        f"{_SAMPLING}test_a_low_temperature_takes_the_likeliest "
        f"{_SAMPLING}test_repetition_is_less_likely {_SAMPLING}test_seeds_reproduce_and_differ"
    ),
    "tokens, seeds, contexts and options of sampling are what they must be, or typed errors": (
        f"{_MODEL}test_tokens_are_integers {_MODEL}test_seeds_have_64_bits "
        f"{_MODEL}test_a_context_is_an_integer_within_the_models "
        f"{_SAMPLING}test_options_are_checked {_SAMPLING}test_however_low_it_is "
        f"{_SAMPLING}test_a_temperature_without_bounds_draws_all_tokens_alike"
    ),
    "weights lie in memory once, a table that is the head too, and the file is given back": (
        "codegen.kernels.test_packed_tables:test_rows_are_picked_from_where_the_product_reads "
        "codegen.kernels.test_packed_tables:test_a_row_that_is_not_there_is_named_as_in_the_table "
        "runtime.test_residents:test_a_param_that_nobody_can_write_leaves_the_arena_after_setup "
        "runtime.test_residents:test_pages_of_a_mapped_file_are_given_back_as_they_are_read "
        "runtime.test_residents:test_what_was_written_over_a_mapped_file_stays "
        "runtime.test_residents:test_temporaries_of_the_first_setup_are_given_back "
        "runtime.test_residents:test_setup_reads_large_params_where_they_lie "
        "runtime.test_residents:test_edited_c_without_that_entry_copies_params "
        "runtime.test_residents:test_state_of_zeros_takes_memory_as_it_is_written"
    ),
}

JOBS: Mapping[str, str] = {
    "the command line continues prompts and answers questions": (
        f"{_JOBS}test_the_command_line_prints_what_the_model_says"
    ),
    "a C program without libraries chats": (
        f"{_CHAT_IN_C}test_the_program_is_short "
        f"{_CHAT_IN_C}test_tokens_are_those_of_the_library {_CHAT_IN_C}test_it_answers"
    ),
    "adapters learn through packed weights, and change what is said": (
        f"{_TUNING}test_gradients_flow_through_packed_weights "
        f"{_TUNING}test_a_model_says_what_it_was_taught "
        f"{_TUNING}test_adapters_start_without_effect"
    ),
    "adapters are saved as safetensors, and merged": (
        f"{_TUNING}test_adapters_are_saved_and_read "
        f"{_TUNING}test_merged_matrices_compute_what_adapters_do "
        f"{_TUNING}test_files_without_adapters_are_refused"
    ),
}

RULES: Mapping[str, str] = {
    "7: every scheme that is no GGUF block decodes as stated": (
        f"{_SCALED}test_int8 {_SCALED}test_int8_with_zero_points "
        f"{_SCALED}test_int4_is_unsigned_without_zero_points "
        f"{_SCALED}test_all_floats_of_eight_bits {_SCALED}test_nvfp4 "
        f"{_SCALED}test_a_last_block_may_be_short {_RULES}test_7_random_codes_of_eight_bits"
    ),
    "10: adapters beside a matrix": (
        f"{_RULES}test_10_adapters_beside_a_matrix_are_three_products "
        "blocks.test_fused_blocks:test_9_5_lora_mat_mul"
    ),
    "11: indices of the largest are distinct": f"{_FACTS}test_17_18_topk_repeats_no_index",
    "12: chosen matrices, with each expert's rows together": (
        f"{_EXPERTS}test_plain_matrices_of_experts "
        f"{_EXPERTS}test_rows_of_one_expert_meet_it_together "
        f"{_MONITOR}test_prompts_of_a_mixture_meet_each_expert_once "
        f"{_EXPERTS}test_an_expert_that_is_not_there_is_an_error"
    ),
    "12: residency, capture, host weights and placement": (
        f"{_MONITOR}test_masks_change_accounts_and_no_number {_MONITOR}test_masks_per_layer "
        f"{_MONITOR}test_experts_that_are_not_resident_are_read_from_host_weights "
        f"{_MONITOR}test_the_specifications_toy_mixture "
        f"{_MONITOR}test_pools_place_what_is_chosen_most {_MONITOR}test_when_placement_is_due "
        f"{_MONITOR}test_budgets_and_unions"
    ),
    "12: the group-limited gate": (f"{_MONITOR}test_the_group_limited_gate_is_the_specifications"),
    "13: ties with the last of the top k stay candidates": (
        f"{_RULES}test_13_ties_with_the_last_of_the_top_k_stay_candidates"
    ),
    "13: a row without a distribution is an error": (
        f"{_RULES}test_13_a_row_that_is_no_distribution_is_an_error"
    ),
    "14: gradients of packed and of grouped products": (
        f"{_RULES}test_14_packed_weights_are_constants_of_derivatives "
        f"{_RULES}test_14_matrices_of_experts_get_the_gradient_of_their_rows "
        f"{_EXPERTS}test_gradients_are_those_of_the_chosen_experts "
        f"{_SCALED}test_scales_and_zero_points_have_gradients"
    ),
    "14: examples of a batch share weights or have their own": (
        f"{_RULES}test_14_examples_may_have_packed_weights_of_their_own "
        f"{_RULES}test_14_examples_may_have_experts_of_their_own "
        f"{_RULES}test_14_examples_may_have_stacks_to_decode_of_their_own "
        f"{_EXPERTS}test_examples_share_the_weights"
    ),
}

LIFTED: Mapping[str, str] = {
    "17.1 layouts of Q2_K and Q3_K": f"{_DECODING}test_golden_blocks_decode_exactly",
    "17.2 scales of Q6_K have signs": f"{_DECODING}test_q6_k_scales_are_signed",
    "17.2 one decoder for all paths": f"{_PACKED}test_every_block_type_streams_past_few_rows",
    "17.3 stacks of every type": f"{_MONITOR}test_stacks_are_decoded_as_plain_products_take_them",
    "17.4 E4M3": f"{_SCALED}test_fp8_e4m3_is_the_open_compute_projects",
    "17.5 one scale": f"{_SCALED}test_fp8_e5m2_with_one_scale_for_all_columns",
    "17.6 signs": f"{_SCALED}test_int4_with_zero_points_has_signs",
    "17.7 bytes": (
        f"{_PACKED}test_bytes_of_rows_must_be_whole_blocks "
        f"{_PACKED}test_rows_must_hold_what_meets_them"
    ),
    "17.7 side tensors": f"{_SCALED}test_what_does_not_fit_is_refused",
    "17.7 experts": f"{_EXPERTS}test_blocks_that_do_not_fit_are_refused",
    "17.8 gradients": f"{_SCALED}test_scales_and_zero_points_have_gradients",
    "17.15 leading axes": f"{_FACTS}test_17_15_leading_axes_of_logits_are_rows",
    "17.16 every back end": (
        "codegen.test_parity:test_kernels_agree_with_the_reference_through_c "
        "codegen.test_parity:test_kernels_agree_with_the_reference_through_llvm"
    ),
    "17.17 what reads a slice": "passes.fusion.test_slices:test_attention_reads_slices",
    "17.18 top k": f"{_FACTS}test_17_18_topk_repeats_no_index",
    "17.19 sampling": (f"{_FACTS}test_17_19_steps_draw_different_numbers_and_masked_tokens_never"),
    "17.20 adapters of each example": f"{_FACTS}test_17_20_adapters_of_each_example",
    "17.22 accounts of one program": f"{_MONITOR}test_masks_change_accounts_and_no_number",
    "17.22 products of a layer": f"{_MONITOR}test_masks_per_layer",
    "17.22 host weights": (
        f"{_MONITOR}test_experts_that_are_not_resident_are_read_from_host_weights"
    ),
    "17.23 experts are checked": f"{_EXPERTS}test_an_expert_that_is_not_there_is_an_error",
    "17.24 other floats": f"{_FACTS}test_17_24_other_floats_than_f32_are_refused",
    "17.25 seeds of a linear generator": (
        f"{_FACTS}test_17_25_seeds_that_stick_a_linear_generator_draw_as_any_other"
    ),
    "17.26 convolutions of rounded weights": (
        f"{_FACTS}test_17_26_a_convolution_does_not_know_what_rounded_its_weights"
    ),
    "17.27 decoded once, in vectors": (
        f"{_PACKED}test_many_rows_meet_decoded_weights_in_tiles "
        f"{_EXPERTS}test_rows_of_one_expert_meet_it_together"
    ),
}

FACTS: Mapping[str, str] = {
    "18 Philox": (
        f"{_DRAWS}test_philox_has_the_words_of_the_specification "
        f"{_RULES}test_18_words_of_every_seed "
        f"{_RULES}test_18_two_seeds_differ_in_nearly_every_word"
    ),
    "18 uniform and normal": (
        f"{_DRAWS}test_uniform_and_normal_numbers_of_section_12_are_the_stated_ones "
        f"{_RULES}test_18_normals_of_other_seeds_and_streams"
    ),
    "18 Sample": (
        f"{_FACTS}test_18_sample "
        f"{_FACTS}test_18_sample_takes_the_likeliest_where_others_have_no_chance"
    ),
    "18 block goldens": f"{_DECODING}test_golden_blocks_decode_exactly",
    "18 hand blocks": f"{_FACTS}test_18_hand_blocks {_FACTS}test_18_products_with_hand_blocks",
    "18 fuzz": f"{_DECODING}test_random_blocks_decode_as_the_gguf_package_does",
    "18 Q8_K": f"{_PACKED}test_the_specifications_q8_k_product",
    "18 fused beside decoded in full": (
        f"{_FACTS}test_18_a_product_is_that_with_the_decoded_weights"
    ),
    "18 Int8Block": f"{_SCALED}test_int8 {_RULES}test_7_random_codes_of_eight_bits",
    "18 Int8BlockAsym": f"{_SCALED}test_int8_with_zero_points",
    "18 Int4Block": f"{_SCALED}test_int4_is_unsigned_without_zero_points",
    "18 Fp8": (
        f"{_SCALED}test_fp8_e4m3_is_the_open_compute_projects "
        f"{_SCALED}test_all_floats_of_eight_bits"
    ),
    "18 Nvfp4": f"{_SCALED}test_nvfp4",
    "18 LoraMatMul": f"{_RULES}test_10_adapters_beside_a_matrix_are_three_products",
    "18 grouped": f"{_EXPERTS}test_plain_matrices_of_experts",
    "18 grouped, packed": f"{_EXPERTS}test_the_specifications_grouped_product",
    "18 grouped, packed: gradient": (f"{_EXPERTS}test_gradients_are_those_of_the_chosen_experts"),
    "18 grouped, packed: vmap": f"{_EXPERTS}test_examples_share_the_weights",
    "18 masks": f"{_MONITOR}test_masks_per_layer",
    "18 pool": f"{_MONITOR}test_pools_place_what_is_chosen_most",
    "18 toy mixture": f"{_MONITOR}test_the_specifications_toy_mixture",
    "18 GGUF": (
        f"{_FILE}test_versions_and_byte_orders {_FILE}test_files_of_the_gguf_package_read_equal "
        f"{_FILE}test_sixteen_zero_bytes_are_no_file"
    ),
}

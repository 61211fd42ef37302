"""What was wrong or slow once, found by trying to make rlx fail, and the tests that hold it now."""

from __future__ import annotations

from collections.abc import Mapping

_WIDTH = "codegen.c.test_vector_width:"
_LOOPS = "transforms.test_loop_bodies:"
_ENVIRONMENTS = "runtime.test_environments:"
_FAULTS = "errors.test_faults:"
_USAGE = "cli.test_usage:"
_ARGUMENTS = "numpy.test_arguments:"
_DONATION = "runtime.test_donation:"
_HALVES = "codegen.kernels.test_low_precision:"
_SCALING = "properties.test_scaling:"
_LIFTED = "properties.test_lifted_limits:"

WRONG: Mapping[str, str] = {
    "C with GCC on AVX-512 moves doubles to wrong lanes": (
        f"{_WIDTH}test_doubles_arrive_where_the_kernel_sends_them "
        f"{_WIDTH}test_a_rolled_product_of_doubles_is_exact_in_c "
        f"{_WIDTH}test_exported_c_is_exact_with_the_callers_compiler_and_flags "
        "runtime.test_probe:*"
    ),
    "two sums over one large array cannot be added": (
        "codegen.kernels.test_sibling_reductions:test_large_ones_are_split_with_the_same_bits_"
        "on_two_threads "
        "passes.fusion.test_siblings:test_a_sum_and_a_sum_of_squares_are_one_kernel_with_what_"
        "follows_them"
    ),
    "the gradient of a mean over a symbolic extent is a KeyError": (
        "properties.test_symbolic_reductions:test_reductions_over_symbolic_extents_have_two_"
        "derivatives"
    ),
    "16-bit values keep more bits inside a fusion": (
        f"{_HALVES}test_every_value_inside_a_kernel_is_rounded "
        f"{_HALVES}test_a_product_beyond_f16_is_infinite_also_where_it_is_not_stored "
        f"{_HALVES}test_chains_have_the_same_bits_as_the_reference"
    ),
    "a fault names another line, no index, or another op": (
        f"{_FAULTS}test_an_index_out_of_range_is_told_with_its_extent "
        f"{_FAULTS}test_an_update_is_called_as_the_user_wrote_it "
        f"{_FAULTS}test_the_fault_string_of_an_exported_loop_names_the_line_in_its_body "
        f"{_FAULTS}test_nodes_of_bodies_have_numbers_of_their_own_in_generated_code "
        f"{_FAULTS}test_an_internal_error_names_the_line_and_says_how_to_report_it "
        f"{_FAULTS}test_graphs_plans_and_schedules_print_their_readable_form"
    ),
    "one singular matrix fails a whole batch": (
        "codegen.kernels.test_solve:test_a_singular_matrix_is_nan_on_request_in_its_slice_only"
    ),
    "activations lose their tails": (
        "nn.test_activation_bounds:test_every_activation_states_its_bounds "
        "nn.test_activation_bounds:test_activations_hold_their_bounds"
    ),
    "exports with symbols and setup do not compile": "aot.test_template_paths:*",
    "an OpenMP library crashes the process that closes it": (
        "aot.test_threads:test_an_openmp_library_is_loaded_run_and_closed_a_hundred_times "
        "aot.test_threads:test_cmake_links_openmp_so_that_it_stays"
    ),
    "OpenBLAS runs kernels for narrower vectors than the core has": (
        "runtime.test_blas:test_the_kernels_that_run_are_those_for_the_vectors_of_the_core "
        "runtime.test_blas:test_a_small_product_reaches_a_part_of_the_peak_even_beside_other_tests"
    ),
    "a formula has no scalar form in a small loop": (
        f"{_LOOPS}test_an_activation_is_its_formula_in_a_small_loop_its_gradient_and_its_vmap"
    ),
    "a loop cannot return a captured array or its row": (
        f"{_LOOPS}test_results_may_be_captured_arrays_or_their_parts "
        f"{_LOOPS}test_a_loop_of_no_steps_is_its_first_carries_and_no_rows"
    ),
    "names of captures of nested loops collide": (
        f"{_LOOPS}test_a_captured_array_may_meet_one_that_was_captured_on_the_way"
    ),
    "a deep program is a RecursionError": (
        "properties.test_scaling:test_traced_layers_may_be_a_thousand_deep"
    ),
    "two readers of every value double the time of compilation": (
        f"{_SCALING}test_a_chain_of_squares_before_a_large_sum_compiles_in_linear_time "
        f"{_SCALING}test_stages_are_linear_in_nodes "
        f"{_SCALING}test_stages_are_linear_up_to_ten_thousand_nodes"
    ),
    "what a step keeps is written out in code": (
        f"{_LOOPS}test_code_does_not_grow_with_what_a_step_keeps "
        f"{_LOOPS}test_functions_of_what_a_step_keeps_are_called_in_lanes"
    ),
    "an argument that is not there is donated": (
        f"{_DONATION}test_a_donated_argument_that_is_not_there_is_refused "
        f"{_DONATION}test_donated_arguments_count_from_the_end_too"
    ),
    "an output replaces an input declared behind it": (
        f"{_DONATION}test_an_input_declared_behind_the_output_that_replaces_it"
    ),
    "a donated result is overwritten while a view of it is held": (
        f"{_DONATION}test_a_result_of_which_a_view_is_held_is_copied "
        f"{_DONATION}test_results_of_one_function_may_be_donated_to_another"
    ),
    "a symbol that no input carries is a KeyError": (
        "runtime.test_compile:test_a_symbol_that_no_input_carries_is_named"
    ),
    "symbolic batch axes of products do not broadcast": (
        "codegen.kernels.test_symbolic_products:test_symbolic_batch_axes_broadcast"
    ),
    "reshapes of empty arrays, loops in pairs of doubles": (
        "passes.fusion.test_propagate_reshapes:test_a_broadcast_operand_fits_or_is_refused "
        "codegen.loops.passes.test_vectorize:test_no_width_comes_twice_where_the_extent_is_not_"
        "known"
    ),
    "softmax of rows without elements is an error": (
        "nn.test_nn:test_rows_without_elements_have_results_without_elements"
    ),
    "mantissas of bfloat16 are NumPy's ValueError": (
        "numpy.test_edges:test_mantissas_and_exponents_of_16_bits"
    ),
    "nothing cannot be scattered in bf16": f"{_HALVES}test_nothing_is_scattered_into_nothing",
    "a scan without results cannot be printed or run": (
        "transforms.test_control:test_a_scan_that_gives_nothing_is_no_loop"
    ),
    "an export whose output is a constant, or whose param nobody reads": "aot.test_unread:*",
    "the reciprocal of a complex infinity is NaN": (
        "numpy.test_edges:test_the_reciprocal_of_a_complex_infinity_is_zero"
    ),
    "attention loses a NaN behind hidden keys": (
        "codegen.kernels.test_attention_tiled:test_a_value_that_is_not_finite_reaches_its_column_"
        "of_all_rows "
        "codegen.kernels.test_attention_tiled:test_a_weight_below_the_normal_numbers_is_zero_also_"
        "in_the_reference"
    ),
    "comparisons and casts in f16 see more bits than a value has": (
        f"{_HALVES}test_comparisons_and_casts_see_no_more_than_a_value_has"
    ),
    "sizes are negative, or wrap around": (
        f"{_ARGUMENTS}test_a_wrong_argument_is_refused_by_the_function_that_was_called "
        f"{_ARGUMENTS}test_sizes_that_no_process_can_address_are_refused"
    ),
    "arguments are converted with a loss": (
        "runtime.test_conversions:test_what_would_be_lost_is_refused "
        "runtime.test_conversions:test_a_masked_array_is_refused"
    ),
    "a median over two axes, differences and sorts of nothing": (
        f"{_ARGUMENTS}test_the_median_over_several_axes_is_that_of_numpy "
        f"{_ARGUMENTS}test_differences_of_too_few_elements_are_none "
        f"{_ARGUMENTS}test_the_gradient_of_sorting_nothing_is_empty"
    ),
    "calls from within calls and forks hang": "runtime.test_hangs:*",
    "an interrupt spoils the process": (
        "runtime.test_hangs:test_an_interrupt_waits_until_ops_and_rules_are_declared"
    ),
    "a compiled call takes other types": (
        "transforms.test_vectorize:test_a_compiled_call_refuses_other_types"
    ),
    "what is missing or forbidden around the process raises Python's own errors": (
        "runtime.test_environments:*"
    ),
    "memory grows with compilations and with shapes": (
        "runtime.test_result_memory:* soak.test_soak:test_compilations_leave_no_memory_behind"
    ),
    "the command line shows tracebacks": (
        f"{_USAGE}test_a_module_that_does_not_load_is_one_error_at_its_line "
        f"{_USAGE}test_a_function_that_exits_is_an_error "
        f"{_USAGE}test_a_seed_below_zero_is_wrong_usage "
        f"{_USAGE}test_code_that_is_no_text_is_an_error "
        f"{_USAGE}test_a_shape_beyond_all_memory_is_an_error "
        f"{_USAGE}test_an_error_of_the_command_itself_names_no_line_of_python "
        f"{_USAGE}test_the_version_is_told"
    ),
    "messages call arguments by names of rlx's own, or name no remedy": (
        "errors.test_function_errors:* errors.test_usual_mistakes:* errors.test_remedies:*"
    ),
    "exports with extents of zero do not build strictly": (
        "aot.test_artifact:test_extents_of_zero_compile_silently_and_run "
        "aot.test_template_paths:test_programs_that_meet_every_pair_of_choices_agree_with_the_"
        "reference"
    ),
}

SLOW: Mapping[str, str] = {
    "an update at a traced index copies its array at every step": (
        "transforms.test_loop_updates:* passes.rewrites.test_hoist_updates:*"
    ),
    "sorts are insertion sorts": (
        "codegen.kernels.test_sort:test_a_hundred_thousand_elements_take_no_quadratic_time"
    ),
    "calls outside jit": "runtime.test_arrays:test_arrays_and_their_sums_take_few_calls",
    "one row by a matrix that is an input": (
        "codegen.kernels.test_product_streamed:test_b_is_not_packed_and_its_columns_are_shared_by_"
        "threads"
    ),
    "pairs of bf16 where their instruction is slow": (
        "passes.layout.test_bf16_pairs:test_a_slow_instruction_multiplies_pairs_for_few_rows_only "
        "passes.layout.test_bf16_pairs:test_a_slow_instruction_convolves_no_pairs"
    ),
    "products of bf16, last axes, softmax, large products": (
        "bench:matmul_256_bf16 bench:reduce_last bench:softmax bench:matmul_1024"
    ),
    "several sums over one array pass over it several times": "passes.fusion.test_siblings:*",
    "the gradient of a solve factors again": "passes.layout.test_share_factors:*",
    "a quotient is divided once more for each of its derivatives": (
        "passes.autodiff.test_conventions:test_a_quotient_and_both_of_its_derivatives_take_two_"
        "divisions"
    ),
    "small kernels in loops": (
        "bench:loops.hmc_regression bench:loops.hmc_network bench:loops.mass_matrix "
        "bench:loops.population bench:loops.solve_3.gradient bench:loops.mish"
    ),
}

KEPT_SOUND: Mapping[str, str] = {
    "packages build and run where something is missing": "test_packages:*",
    "the documentation is one site whose code runs": (
        "docs.test_site:* docs.test_documentation:test_the_python_of_a_page_runs"
    ),
    "random programs": "fuzz.test_fuzz:*",
    "lesser machines of the same kind": (
        "fuzz.test_fuzz:test_some_programs_are_compiled_for_lesser_machines_and_some_of_these_in_c "
        "fuzz.test_fuzz:test_all_implementations_agree_on_random_programs"
    ),
    "damaged files": "fuzz.test_files:*",
    "generated code is the same from process to process": (
        "properties.test_hash_seeds:test_c_and_llvm_ir_are_the_same_under_any_seed_of_hashes "
        "aot.test_artifact:test_two_processes_in_two_directories_write_the_same_bytes"
    ),
    "threads, forks, interrupts and killed processes": "soak.test_soak:*",
}

STILL_ASKED: Mapping[str, str] = {
    "slices of a packed projection are read in place": "passes.fusion.test_slices:*",
    "mixed precision is a policy": "passes.precision.test_mixed_precision:*",
    "reasons of fusions and of kernels are told": (
        "report.test_why:* passes.fusion.test_missed:* passes.layout.test_choices:*"
    ),
    "programs for buckets of sizes": "transforms.test_buckets:*",
    "branches of any selector, custom functions and ops": (
        "transforms.test_control:* transforms.test_custom:* test_ffi:* test_custom:*"
    ),
    "sessions of servers": "runtime.test_session:* examples.test_serve:*",
    "limit 01 L5": f"{_LIFTED}test_01_l5_one_function_runs_every_kind_of_thunk",
    "limit 01 L6": (
        f"{_LIFTED}test_01_l6_keys_and_values_of_a_fused_attention_may_be_results "
        f"{_LIFTED}test_01_l6_a_fused_attention_keeps_the_biases_and_lengths_that_it_has"
    ),
    "limit 01 L14": "quantization.test_pairs:test_redundant_roundings_go_where_that_is_exact",
    "limit 01 L15": (f"{_LIFTED}test_01_l15_the_nearest_resize_repeats_each_element_beside_itself"),
    "limit 01 L17": (
        f"{_LIFTED}test_01_l17_lower_precision_leaves_integers_bools_doubles_and_indices"
    ),
    "limit 01 L19": (
        f"{_LIFTED}test_01_l19_a_backward_program_reads_the_params_that_the_forward_one_reads"
    ),
    "limit 01 L22": (
        f"{_LIFTED}test_01_l22_accounts_of_experts_are_a_program_s_own_and_know_packed_matrices "
        f"{_LIFTED}test_01_l22_products_of_a_loop_are_not_left_out_of_accounts_in_silence"
    ),
    "limit 04 L3": f"{_LIFTED}test_04_l3_control_flow_is_lowered_in_bodies_of_bodies",
    "limit 04 L9": f"{_LIFTED}test_04_l9_constants_of_bodies_keep_each_of_their_bytes",
    "limit 04 L17": (
        f"{_LIFTED}test_04_l17_a_custom_op_without_a_derivative_is_an_error_and_complex_ones_run"
    ),
    "limit 05 R2": f"{_LIFTED}test_05_r2_a_reduction_over_several_axes_may_be_followed_by_anything",
    "limit 05 R3": f"{_LIFTED}test_05_r3_rules_of_one_mode_serve_within_control_flow_in_the_other",
    "limit 05 R16": f"{_LIFTED}test_05_r16_nothing_drops_a_gradient_in_silence",
    "limit 05 R19": (
        f"{_LIFTED}test_05_r19_a_gate_that_comes_first_keeps_its_place_in_derivatives "
        "blocks.test_fused_blocks:* ir.ops.test_state_space:*"
    ),
    "limit 05 R22": (
        f"{_LIFTED}test_05_r22_a_value_of_higher_rank_reaches_its_smaller_operand "
        f"{_LIFTED}test_05_r22_gradients_stand_alone_and_pass_by_ops_that_have_none"
    ),
    "limit 05 R23": f"{_LIFTED}test_05_r23_derivatives_are_of_the_function_itself",
    "limit 05 V4": f"{_LIFTED}test_05_v4_examples_with_weights_of_their_own_do_not_mix",
    "limit 05 V6": (
        f"{_LIFTED}test_05_v6_ops_that_were_refused_are_recorded_for_batching "
        f"{_LIFTED}test_05_v6_recurrent_layers_and_branches_are_batched"
    ),
    "limit 05 J3": f"{_LIFTED}test_05_j3_second_derivatives_pass_through",
}

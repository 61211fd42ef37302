"""What the structure of rlx promises: loops, maps, records, traits and names, by the tests."""

from __future__ import annotations

from collections.abc import Mapping

_NESTS = "codegen.kernels.test_nests:"
_GUARDS = "codegen.kernels.test_guards:"
_RECOMPUTE = "passes.fusion.test_recompute:"
_RECORDS = "ir.test_lowering:"
_LOOPS = "passes.loops.test_simplify_loops:"
_OPS = "test_completeness:"
_LAYERS = "test_layers:"
_TILE = "codegen.kernels.test_register_tile:"
_MAPS = "ir.test_index_maps:"

NESTS: Mapping[str, str] = {
    "1 a loop whose body fits the caches is one kernel of loops on local buffers": (
        f"{_NESTS}test_a_loop_with_such_a_body_is_one_kernel "
        f"{_NESTS}test_a_body_beyond_the_caches_stays_thunks "
        f"{_NESTS}test_a_conditional_loop_is_one_nest"
    ),
    "1 nests and their gradients compute what their bodies mean": (
        f"{_NESTS}test_bodies_compute_what_they_mean "
        f"{_NESTS}test_gradients_of_nests_agree "
        "codegen.kernels.test_small_loops:test_a_body_of_arrays_computes_what_it_means"
    ),
    "1 values of pairs are computed where they are summed, and never stored": (
        f"{_NESTS}test_pairs_are_one_nest_along_the_bodies_and_never_stored "
        f"{_NESTS}test_cotangents_of_pairs_are_summed_where_they_are_computed"
    ),
    "1 small bodies are in registers, and independent instances in lanes": (
        "codegen.kernels.test_register_loops:* "
        "codegen.kernels.test_small_loops:test_values_beyond_the_registers_of_a_target_are_arrays "
        "codegen.test_loops:test_instances_side_by_side_run_in_lanes"
    ),
    "1 kernels are transformed by passes over the loop language": (
        "codegen.loops.passes.test_pipeline:test_every_pass_is_tested_and_documented "
        "codegen.loops.passes.test_random_kernels:* "
        "codegen.loops.passes.test_dead_code:* "
        "codegen.loops.passes.test_common_subexpressions:* "
        "codegen.loops.passes.test_invariant_code_motion:* "
        "codegen.loops.passes.test_unroll:* "
        "codegen.loops.passes.test_scalar_replacement:* "
        "codegen.loops.passes.test_vectorize:* "
        "codegen.loops.passes.test_single_assignment:* "
        "codegen.loops.passes.test_fuse_loops:* "
        "codegen.loops.passes.test_loop_distribution:* "
        "codegen.c.test_vector_width:test_heavy_arithmetic_beside_moves_is_spelled_out_in_whole_"
        "vectors "
        "codegen.c.test_vector_width:test_calls_of_functions_beside_moves_are_spelled_out_in_whole_"
        "vectors"
    ),
}

INDEX_MAPS: Mapping[str, str] = {
    "2 what an op reads from where is one declaration": (
        f"{_MAPS}test_every_movement_op_declares_its_map "
        f"{_MAPS}test_only_pointwise_nodes_are_aligned "
        "ir.ops.test_traits:test_movement_ops_give_only_elements_that_they_were_given"
    ),
    "2 movement fuses into its readers, with guards at the borders alone": (
        f"{_RECOMPUTE}test_the_gradient_of_a_smoothness_loss_is_one_kernel "
        f"{_RECOMPUTE}test_a_shift_is_read_where_it_is_added "
        f"{_RECOMPUTE}test_parts_of_a_concat_are_computed_in_their_place "
        f"{_GUARDS}test_the_interior_of_a_stencil_has_no_guards "
        f"{_GUARDS}test_chains_of_movement_are_exact_and_stay_inside"
    ),
    "2 the planner's checker finds faults by itself": (
        "passes.memory.test_planner:test_the_checker_finds_a_lost_value "
        "passes.memory.test_planner:test_the_checker_finds_a_clobbered_input"
    ),
    "a smoothness loss takes two passes over memory": (
        "bench:stencils.smoothness.value bench:stencils.smoothness.gradient"
    ),
}

RECORDS: Mapping[str, str] = {
    "3 how an op is computed is a record: typed, printed, verified, saved": (
        f"{_RECORDS}test_a_record_prints_after_the_attributes_and_parses_back "
        f"{_RECORDS}test_the_verifier_checks_records_and_the_types_of_their_fields "
        f"{_RECORDS}test_an_op_refuses_records_that_are_not_for_it "
        f"{_RECORDS}test_a_record_is_no_part_of_the_meaning "
        "codegen.test_schedule_printer:*"
    ),
    "4 every pass sees the same parts of a loop, and rebuilds it from them": (
        "ir.test_loop_signature:* passes.loops.test_rebuild_body:*"
    ),
    "4 a value and its gradient run a loop once, nested loops too": (
        f"{_LOOPS}test_the_recording_scan_of_a_gradient_is_the_programs_own "
        f"{_LOOPS}test_nested_loops_run_once_for_a_value_and_its_gradient"
    ),
    "6 one register tile: floats, narrow floats and integers": f"{_TILE}*",
}

FACTS: Mapping[str, str] = {
    "5 every op states what passes ask of it": (
        f"{_OPS}test_every_op_says_what_its_elements_depend_on "
        f"{_OPS}test_every_elementwise_primitive_says_what_an_element_costs "
        f"{_OPS}test_what_others_join_is_the_anchor_of_a_kernel "
        f"{_OPS}test_every_op_says_how_it_is_batched "
        f"{_OPS}test_every_op_has_derivatives_or_a_reason"
    ),
    "5 traits are true of the ops that have them": "ir.ops.test_traits:*",
    "5 no list of names decides what an op is": (
        "test_op_lists:test_no_file_has_more_lists_of_ops_than_it_had"
    ),
    "5 kernels that can fail run on all threads, and the lowest position is reported": (
        "codegen.test_attempts:test_the_lowest_position_is_reported_and_later_runs_are_sound "
        "codegen.test_attempts:test_large_slices_report_the_lowest_position_too "
        "codegen.test_attempts:test_solutions_have_the_same_bits_for_any_number_of_threads"
    ),
    "attributes that several ops share are one record, which their rules take as one": (
        "ir.test_records:*"
    ),
    "an elementwise op is four lines, one in each room": (
        "test_new_op:test_an_elementwise_op_is_four_lines_in_four_rooms"
    ),
}

ORDER: Mapping[str, str] = {
    "7 imports go one way, without circles": (
        f"{_LAYERS}test_no_module_imports_from_a_later_stage "
        f"{_LAYERS}test_modules_import_each_other_without_circles "
        f"{_LAYERS}test_a_circle_is_found_where_there_is_one "
        f"{_LAYERS}test_imports_for_annotations_are_imports"
    ),
    "7 arrays have their methods whatever is imported first": (
        f"{_LAYERS}test_traced_arrays_have_their_methods_whatever_is_imported_first"
    ),
    "7 a graph is verified after every pass that changed it": (
        "passes.test_pipeline:test_a_pass_that_breaks_the_graph_is_named "
        "passes.test_pipeline:test_running_a_pass_twice_is_running_it_once"
    ),
    "8 the pages that say where things are tell the truth, on one screen": (
        "docs.test_where_things_are:*"
    ),
    "8 program, parts and layout are one thing each": (
        f"{_LAYERS}test_a_common_word_is_the_name_of_one_thing"
    ),
    "9 calls of ops have types": "ir.test_op_types:*",
    "9 passes keep the values of random graphs and programs with loops": (
        "passes.test_pipeline:test_the_pipeline_keeps_the_values_of_random_graphs "
        "fuzz.test_fuzz:test_every_kind_of_value_and_transformation_is_drawn"
    ),
    "9 tests assert what their names say": (
        "codegen.kernels.test_register_tables:test_an_older_version_is_read_in_the_same_kernel "
        "passes.loops.test_absorb_transposes:test_the_gradient_of_a_product_stores_carries_and_no_"
        "transposes "
        "properties.test_unusual_programs:test_large_graphs_compile_and_agree "
        "properties.test_scaling:test_stages_are_linear_in_nodes"
    ),
}

JUDGED: Mapping[str, str] = {
    "two revisions are measured in turns, row by row": (
        "bench.test_smoke:test_two_checkouts_run_the_rows_that_both_have_in_turns "
        "bench.test_smoke:test_results_that_differ_are_no_times"
    ),
    "an op costs four lines, and what else costs how much is counted": (
        "test_new_op:test_an_elementwise_op_is_four_lines_in_four_rooms "
        "codegen.loops.passes.test_pipeline:test_every_pass_is_tested_and_documented"
    ),
    "loops are no slower than straight C by more than the bounds say": (
        "bench:loops.scan_3x3.value bench:loops.scan_3x3.gradient bench:loops.lorenz.value "
        "bench:loops.lorenz.gradient bench:loops.while.value bench:loops.population "
        "bench:loops.hmc_regression"
    ),
    "bodies are faster than with JAX": "bench:loops.bodies.value bench:loops.bodies.gradient",
    "batched solves are as fast with C as with LLVM, on all threads": (
        "bench:loops.solve_3.value bench:loops.solve_3.gradient bench:loops.solve_6.value "
        "codegen.test_attempts:test_solutions_have_the_same_bits_for_any_number_of_threads"
    ),
    "a smoothness loss and its gradient take two passes over memory": (
        "bench:stencils.smoothness.value bench:stencils.smoothness.gradient"
    ),
    "the C of a scan, a stencil and small arrays reads as written by hand": (
        "codegen.kernels.test_guards:test_a_stencil_reads_as_its_golden "
        "codegen.loops.passes.test_single_assignment:*"
    ),
    "imports go one way, and the architecture page is one screen": (
        f"{_LAYERS}test_no_module_imports_from_a_later_stage "
        "docs.test_where_things_are:test_the_architecture_is_one_screen"
    ),
}

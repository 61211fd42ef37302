"""Exported C that ships: that it compiles, is small, fast and the same everywhere, and says so.

The pages on C in `docs` say the same sentence by sentence; `tests/docs/embed_claims.py` names the
tests of each sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

_ARTIFACT = "aot.test_artifact:"
_BAD = "aot.test_bad_input:"
_BLAS = "aot.test_blas:"
_CLAIMS = "docs.test_embed_claims:"
_CROSS = "aot.test_cross:"
_FREE = "aot.test_freestanding:"
_IDLE = "aot.test_idle_code:"
_INFO = "aot.test_info:"
_LINES = "codegen.c.test_line_directives:"
_PATHS = "aot.test_template_paths:"
_PLAIN = "aot.test_plain_c:"
_STACK = "aot.test_stack:"
_STRICT = "aot.test_strict:"
_WEIGHTS = "aot.test_weights:"
_BOARD = "examples.test_microcontroller:test_a_network_fits_a_microcontroller"
_MODULE = "examples.test_webassembly:test_a_network_runs_as_a_module_that_imports_nothing"

IT_COMPILES: Mapping[str, str] = {
    "a classifier with an open size and a setup phase builds and runs": (
        f"{_PATHS}test_the_sample_program_of_a_symbolic_classifier_with_setup_runs"
    ),
    "sizes, setup, loops, ways of weights, threads and targets in every pair agree with NumPy": (
        f"{_PATHS}test_programs_that_meet_every_pair_of_choices_agree_with_the_reference"
    ),
    "the same in all ways": f"{_PATHS}test_programs_on_every_path_agree_with_the_reference",
    "extents of zero build and run": (f"{_ARTIFACT}test_extents_of_zero_compile_silently_and_run"),
    "arenas beyond an int, and params that nothing reads": (
        "aot.test_large_arena:* aot.test_unread:*"
    ),
}

FAST_ON_ANY_TARGET: Mapping[str, str] = {
    "a target says whether it fuses multiply-adds, and code for others asks for none": (
        "test_target:test_a_target_says_of_which_floats_it_fuses_multiply_adds "
        f"{_FREE}test_code_without_libm_includes_no_math_h_and_never_asks_for_a_multiply_add"
    ),
    "functions of mathematics keep their bounds with and without fused multiply-adds": (
        "codegen.loops.test_math:test_f32_error_is_below_its_bound_over_all_exponents "
        "codegen.loops.test_math:test_f64_error_is_below_its_bound_against_long_double"
    ),
    "one source takes the instruction where the compiler's macros promise it": (
        f"{_CROSS}test_multiply_adds_without_libm_are_instructions_where_there_are_any"
    ),
    "the network takes no more instructions than C by hand on aarch64 and riscv64": (
        f"{_CLAIMS}test_emulated_machines_execute_what_the_table_says"
    ),
    "programs beside other makers of C, with numbers that are measured again": (
        f"{_CLAIMS}test_small_programs_execute_what_the_table_says "
        f"{_CLAIMS}test_spelled_out_products_take_more_code_in_the_table"
    ),
    "what other makers' C is timed at computes the same results": "bench.test_embedded_peers:*",
    "vectors are no wider than those of the target": (
        f"{_IDLE}test_published_programs_loop_twice_or_more_in_vectors_of_the_target_on_one_thread "
        f"{_CROSS}test_targets_are_described_by_their_architecture "
        "aot.test_splat:test_clang_does_not_warn_of_vectors_wider_than_its_target_has"
    ),
    "clang does not unroll what it should vectorize": (
        "codegen.c.test_spelling:test_inner_loops_that_clang_would_unroll_before_it_makes_vectors_"
        "are_kept"
    ),
}

SMALL: Mapping[str, str] = {
    "cores are small targets: code, memory and stack of the network beside C by hand": (
        f"{_BOARD} {_CROSS}test_cores_are_small_and_triples_name_them "
        f"{_CLAIMS}test_a_network_on_a_core_takes_what_the_table_says"
    ),
    "embedded weights are constants that are read in place": (
        f"{_WEIGHTS}test_large_weights_are_not_copied_into_the_arena "
        "examples.test_microcontroller_digits:test_codes_are_equal_and_weights_stay_in_flash"
    ),
    "a mapped file of weights is read in place": (
        f"{_WEIGHTS}test_a_mapped_file_is_read_where_it_is "
        f"{_WEIGHTS}test_scan_reads_rows_of_a_mapped_param"
    ),
    "matrices are packed for speed alone": (
        f"{_CLAIMS}test_speed_may_arrange_matrices_anew_in_the_arena"
    ),
    "a bound on the stack is in the header, and compilers stay below it": (
        f"{_STACK}test_stack_of_recorded_kernels_is_within_its_bound "
        f"{_STACK}test_stack_of_unrolled_loops_over_wide_vectors_is_within_its_bound "
        f"{_STACK}test_stack_of_many_recorded_kernels_is_within_its_bound "
        f"{_STACK}test_stack_of_whole_programs_is_within_what_the_header_says "
        f"{_STACK}test_stack_on_a_microcontroller_is_small"
    ),
    "that bound is not far from what a call takes": (
        f"{_STACK}test_bound_is_not_far_from_the_deepest_call"
    ),
    "a library of a training step is small": f"{_ARTIFACT}test_library_of_a_training_step_is_small",
}

TARGETS: Mapping[str, str] = {
    "names and triples of x86-64, aarch64, riscv, cores and WebAssembly are known": (
        f"{_CLAIMS}test_every_target_of_the_page_is_known "
        f"{_CLAIMS}test_riscv32_has_a_gcc_of_its_own "
        f"{_BAD}test_unknown_target_lists_the_known_ones"
    ),
    "random programs agree with NumPy in twelve ways of exporting, some of them under emulation": (
        "fuzz.test_fuzz:test_an_export_is_compiled_run_and_compared"
    ),
    "what runs under emulation agrees with NumPy": (
        f"{_CROSS}test_emulated_artifact_agrees_with_the_reference "
        f"{_CROSS}test_emulated_integers_are_the_reference_s "
        f"{_CROSS}test_emulated_pairs_of_bf16_are_near_the_reference "
        f"{_CROSS}test_webassembly_agrees_with_the_reference"
    ),
    "a page and a module of WebAssembly that imports nothing": (
        f"{_MODULE} examples.test_webassembly:test_the_page_asks_for_what_the_module_exports"
    ),
    "bare metal: no header and no function of a C library but those that copy and clear": (
        f"{_FREE}* {_CLAIMS}test_an_archive_for_a_core_needs_memory_functions_and_arithmetic_alone"
    ),
    "an archive alone where nothing is linked at run time": (
        f"{_CROSS}test_without_an_operating_system_there_is_an_archive_alone"
    ),
    "the program for a board prints instructions, flash, memory and stack": _BOARD,
    "compilers: the one that is named, cross compilers, Zig, or none": (
        f"{_CROSS}test_named_compiler_is_used_for_any_target "
        f"{_CROSS}test_missing_cross_compiler_names_the_remedy "
        f"{_CROSS}test_zig_stands_in_where_there_is_no_c_compiler "
        f"{_CROSS}test_gcc_for_cores_comes_before_zig "
        f"{_CROSS}test_emit_only_needs_no_compiler aot.test_objects:*"
    ),
}

PLAIN_C: Mapping[str, str] = {
    "C99 without extensions, which a small compiler takes": (
        f"{_PLAIN}test_plain_c_is_c99_without_extensions "
        f"{_PLAIN}test_a_small_compiler_takes_plain_c"
    ),
    "plain C computes what NumPy does": f"{_PLAIN}test_plain_results_agree_with_the_reference",
    "vectors are for older compilers too": (
        f"{_PLAIN}test_vectors_need_no_shuffles_of_new_compilers"
    ),
}

STRICT: Mapping[str, str] = {
    "no compiler warns, for any target, in C and in C++": (
        f"{_ARTIFACT}test_c_compiles_silently_under_strict_flags "
        f"{_ARTIFACT}test_header_is_clean_cpp "
        f"{_STRICT}test_code_for_other_targets_compiles_silently_under_strict_flags "
        f"{_STRICT}test_zig_is_silent_where_another_compiler_comes_first "
        "codegen.c.test_records:test_records_compile_without_a_warning"
    ),
    "warnings that are switched off have their reasons": (
        f"{_CLAIMS}test_every_warning_that_is_switched_off_has_its_reason"
    ),
    "analyzers find nothing that is not explained": (
        f"{_STRICT}test_the_analyzer_of_gcc_finds_nothing "
        "aot.test_cppcheck:test_cppcheck_finds_nothing_that_is_not_explained"
    ),
    "sanitizers and valgrind find nothing": (
        f"{_ARTIFACT}test_artifact_is_clean_under_sanitizers aot.test_memcheck:* "
        "aot.test_threads:test_sixty_four_threads_are_clean_under_thread_sanitizer"
    ),
    "no loop runs once or never, and code for one thread counts no shares": (
        f"{_IDLE}test_published_programs_loop_twice_or_more_in_vectors_of_the_target_on_one_thread "
        f"{_IDLE}test_graphs_loop_twice_or_more_in_vectors_of_the_target_on_one_thread"
    ),
    "local buffers are as large as their use": (
        "codegen.kernels.test_locals:test_every_element_of_a_local_buffer_is_stored"
    ),
    "phases take the blocks and extents that they read": (
        f"{_IDLE}test_phases_take_what_they_read"
    ),
    "constants are stored once": f"{_IDLE}test_constants_are_stored_once",
}

SAME_BITS: Mapping[str, str] = {
    "one file has the same bits from every compiler at every level": (
        f"{_PLAIN}test_every_compiler_and_level_gives_the_same_bits "
        f"{_PLAIN}test_one_source_gives_the_same_bits_at_every_level "
        f"{_PLAIN}test_code_for_this_machine_gives_the_same_bits_at_every_level"
    ),
    "threads change no bit": (
        "aot.test_threads:test_threaded_run_has_the_bits_of_a_plain_run "
        "aot.test_threads:test_parts_in_any_order_and_number_give_the_same_bits"
    ),
    "code for this machine has the bits of calls in Python, in training too": (
        f"{_ARTIFACT}test_training_step_agrees_with_python_bit_for_bit "
        "aot.test_train_in_c:test_c_program_trains_to_the_bits_of_the_python_run"
    ),
    "two exports are the same bytes": (
        f"{_ARTIFACT}test_two_processes_in_two_directories_write_the_same_bytes"
    ),
}

RIGHT_WORDS: Mapping[str, str] = {
    "a fault names its line, in a loop or a branch too": (
        "errors.test_faults:test_the_fault_string_of_an_exported_loop_names_the_line_in_its_body "
        f"{_BAD}test_failing_run_names_its_status_and_node"
    ),
    "nodes of different bodies have numbers of their own": (
        f"{_INFO}test_nodes_of_different_bodies_have_numbers_of_their_own"
    ),
    "updates in place are seen in names and comments": (
        f"{_INFO}test_updates_in_place_are_seen_in_names_and_comments"
    ),
    "offsets into different blocks are different enumerations": (
        f"{_INFO}test_enumerators_of_different_blocks_differ"
    ),
    "the header has sizes, the stack, versions, what a run keeps, and possible statuses alone": (
        f"{_CLAIMS}test_the_header_has_bytes_and_elements_of_every_tensor "
        f"{_INFO}test_versions_can_be_compared_by_the_preprocessor "
        f"{_INFO}test_params_that_a_run_replaces_are_marked "
        f"{_INFO}test_statuses_are_those_that_the_program_can_return "
        f"{_WEIGHTS}test_the_header_says_what_codes_take_in_flash_and_in_ram"
    ),
    "one program loads any artifact": f"{_INFO}test_one_program_runs_any_artifact",
    "params are reached in the arena, in a file and in the code": (
        f"{_INFO}test_params_are_reached_where_they_are"
    ),
    "wrong arenas, steps, weights and extents have a status and a string each": f"{_BAD}*",
}

SAMPLE: Mapping[str, str] = {
    "it runs on the inputs of the export and prints results and the time": "aot.test_sample:*",
    "it runs in a directory with nothing else": (
        f"{_ARTIFACT}test_sample_program_runs_in_a_directory_with_nothing_else"
    ),
    "build systems find what it needs": (
        f"{_ARTIFACT}test_pkg_config_and_cmake_files_build_the_sample"
    ),
}

LIBRARIES: Mapping[str, str] = {
    "large linear systems call the library that is named, in exports and objects": (
        f"{_BLAS}test_large_system_is_left_to_the_library_that_blas_names "
        f"{_BLAS}test_objects_of_llvm_call_the_library_too "
        f"{_BLAS}test_c_for_a_library_by_name_calls_the_usual_symbols"
    ),
    "large products call the library that is named, in Python by both back ends": (
        "passes.layout.test_use_blas:* "
        "runtime.test_blas_products:test_products_of_any_type_and_transpose "
        "runtime.test_blas_products:test_batches "
        "runtime.test_blas_products:test_threads_change_no_bit "
        "runtime.test_blas_products:test_a_library_by_path_is_the_one_that_is_called "
        "runtime.test_blas_products:test_two_libraries_in_one_process_are_told_apart"
    ),
    "and in exported C, plain C and objects, with what to link in the header": (
        f"{_BLAS}test_large_products_call_the_library_of_the_machine "
        f"{_BLAS}test_products_in_objects_of_llvm_call_the_library_too "
        f"{_BLAS}test_products_for_a_library_by_name_have_the_usual_prototype"
    ),
    "by default products are generated, which doctor measures to be faster": (
        "runtime.test_blas_products:test_products_are_generated_unless_a_library_is_named "
        "cli.test_commands:test_doctor_measures_what_multiplies_faster"
    ),
    "without one they are solved in the code": (
        f"{_BLAS}test_without_blas_the_system_is_solved_by_generated_code"
    ),
    "libraries that are not there are named": (
        f"{_BLAS}test_libraries_that_are_not_there_are_named "
        f"{_BLAS}test_calls_without_a_library_are_refused"
    ),
    "the fastest kernels of a library are found by measurement, and doctor shows them": (
        "runtime.test_blas:test_the_fastest_kernels_are_found_by_measurement "
        "cli.test_commands:test_doctor_finds_what_the_tests_run_on"
    ),
    "a product through a library is the product": (
        "runtime.test_blas:test_a_product_through_cblas_is_the_product"
    ),
}

REPORT: Mapping[str, str] = {
    "a chosen target, with assembly beside the C": (
        "cli.test_commands:test_inspect_shows_a_chosen_target "
        "report.test_data:test_every_thunk_has_its_kernel_in_both_forms"
    ),
    "outputs are called as in the function's result": (
        f"{_ARTIFACT}test_outputs_of_a_function_are_called_as_in_its_result"
    ),
    "every view is drawn": "report.test_data:test_a_browser_draws_every_view",
    "a debugger steps in Python or in C, by statements": (
        f"{_LINES}test_a_statement_has_one_directive_and_one_line "
        f"{_LINES}test_a_debugger_is_in_the_users_program_or_in_the_c"
    ),
}

PAGES: Mapping[str, str] = {
    "every sentence of the page on embedding has a test, and so have README's on C": (
        f"{_CLAIMS}test_every_sentence_holds_a_claim_or_advice "
        f"{_CLAIMS}test_every_claim_is_held_by_a_test "
        f"{_CLAIMS}test_every_claim_stands_on_its_page "
        f"{_CLAIMS}test_every_table_has_a_holder"
    ),
    "the programs of both pages are compiled and run": "aot.test_tutorials:*",
    "the loop of training keeps its state in the arena and no heap": (
        f"{_ARTIFACT}test_library_needs_only_memory_functions_and_libm "
        f"{_ARTIFACT}test_every_symbol_has_the_prefix_and_no_data_is_mutable"
    ),
}

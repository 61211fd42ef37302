"""The claims of the page about C and of the README about C, each with the tests that hold it.

A claim is a phrase of the page. Several tests stand side by side, `module:function` below `tests`.
"""

from __future__ import annotations

from collections.abc import Mapping

_HERE = "docs.test_embed_claims:"
_ARTIFACT = "aot.test_artifact:"
_BAD = "aot.test_bad_input:"
_INFO = "aot.test_info:"
_WEIGHTS = "aot.test_weights:"
_PLAIN = "aot.test_plain_c:"
_CROSS = "aot.test_cross:"
_OBJECTS = "aot.test_objects:"
_FREE = "aot.test_freestanding:"
_BLAS = "aot.test_blas:"
_STRICT = "aot.test_strict:"
_THREADS = "aot.test_threads:"
_STACK = "aot.test_stack:"
_WIDTH = "codegen.c.test_vector_width:"
_TUTORIAL = "aot.test_tutorials:test_embed_in_c_prints_what_python_computes"
_NEEDED = _ARTIFACT + "test_library_needs_only_memory_functions_and_libm"
_NO_STATE = _ARTIFACT + "test_every_symbol_has_the_prefix_and_no_data_is_mutable"
_ORDER = _BAD + "test_steps_out_of_order_have_statuses"
_FAULT = _BAD + "test_failing_run_names_its_status_and_node"
_WAYS = _ARTIFACT + "test_symbolic_extents_and_every_way_to_keep_params"
_SAME_BITS = f"{_PLAIN}test_every_compiler_and_level_gives_the_same_bits {_PLAIN}" + (
    "test_one_source_gives_the_same_bits_at_every_level"
)
_MATH = " ".join(
    f"codegen.loops.test_math:test_{test}"
    for test in (
        "f32_error_is_below_its_bound_over_all_exponents",
        "f64_error_is_below_its_bound_against_long_double",
    )
)
_BARE = _FREE + "test_sample_links_without_libm_and_prints_the_same"
_MICROCONTROLLER = "examples.test_microcontroller:test_a_network_fits_a_microcontroller"

_INTERFACE: Mapping[str, str] = {
    "is a C program that classifies points of the plane": _TUTORIAL,
    "It needs a C compiler and nothing else": f"{_TUTORIAL} {_NEEDED}",
    "Every block of code below is executed": _HERE
    + "test_every_program_of_the_page_is_in_a_language_that_the_tutorial_runs",
    "names the test that holds each sentence": _HERE
    + "test_every_sentence_holds_a_claim_or_advice",
    "takes a function under `rlx.jit` with example inputs": (
        "aot.test_sample:test_prints_the_results_of_the_example_inputs"
    ),
    "or a `Graph`": "aot.test_sample:test_takes_the_example_inputs_of_a_graph_by_name",
    "Arguments named in `param_argnums` are params": _TUTORIAL,
    "Everything else is an input of every call": _TUTORIAL,
    "`build/` now holds": _HERE + "test_the_files_are_those_of_the_table",
    "the arena, holds everything that changes": _NO_STATE,
    "its size is a constant": _HERE + "test_the_header_has_bytes_and_elements_of_every_tensor",
    "Four calls, in this order": _ORDER,
    "`init`, `load_weights`, `setup`, and `call` as often as you like": f"{_TUTORIAL} {_ORDER}",
    "bytes and elements of every tensor": _HERE
    + "test_the_header_has_bytes_and_elements_of_every_tensor",
    "the version as a string and as a number": _INFO
    + "test_versions_can_be_compared_by_the_preprocessor",
    "which inputs a run keeps": _INFO + "test_params_that_a_run_replaces_are_marked",
    "Params are reached where they are": _INFO + "test_params_are_reached_where_they_are",
    "`points_weights_<name>(weights)` or `points_embedded_<name>()`": _INFO
    + "test_params_are_reached_where_they_are",
    "`init`, `load_weights`, `setup`, `run` and `call` return one": f"{_TUTORIAL} {_ORDER}",
    "An arena that is NULL, misaligned, too small": _BAD
    + "test_null_misaligned_and_short_arenas_have_statuses",
    "or not set up": _ORDER,
    "weights of another model or damaged ones": _BAD + "test_bad_weights_have_statuses",
    "an extent or index out of range": f"{_WAYS} {_FAULT}",
    "each has its own value and string": _BAD + "test_every_status_has_a_string_of_its_own",
    "lists those that this program can return": _INFO
    + "test_statuses_are_those_that_the_program_can_return",
    "Nothing prints or aborts": _NEEDED,
    "names the operation and the line of Python": f"{_FAULT} {_INFO}"
    "test_nodes_of_different_bodies_have_numbers_of_their_own",
    "The header has them": _HERE + "test_the_header_has_bytes_and_elements_of_every_tensor",
    "of constants and embedded weights, which stay with the code": _WEIGHTS
    + "test_the_header_says_what_codes_take_in_flash_and_in_ram",
    "Without constants or a file, the macro is not there": _WEIGHTS
    + "test_the_header_says_what_codes_take_in_flash_and_in_ram",
    "bounds what any call takes, in code that is optimized": " ".join(
        _STACK + test
        for test in (
            "test_stack_of_recorded_kernels_is_within_its_bound",
            "test_stack_of_whole_programs_is_within_what_the_header_says",
            "test_stack_on_a_microcontroller_is_small",
        )
    ),
    "it is the same wherever an artifact is made": _ARTIFACT
    + "test_two_processes_in_two_directories_write_the_same_bytes",
    "at most seven times what GCC takes at its hungriest level": _STACK
    + "test_bound_is_not_far_from_the_deepest_call",
    "where local arrays stay in registers, at most eighteen times or 1280 bytes": _STACK
    + "test_bound_is_not_far_from_the_deepest_call",
    "`points_call` copies inputs in and outputs out": _TUTORIAL,
    "Pass NULL for an array that is in the arena already": _HERE
    + "test_null_leaves_an_array_in_the_arena",
    "`points_arena_x(arena)`": _INFO + "test_params_are_reached_where_they_are",
    "any number of threads may run, with an arena each": f"{_NO_STATE} "
    f"{_THREADS}test_sixty_four_threads_are_clean_under_thread_sanitizer",
    "map the file once and hand the same address to all arenas": _WEIGHTS
    + "test_other_weights_need_no_new_code_and_arenas_share_them",
    "One arena may use several threads": _THREADS + "test_threaded_run_has_the_bits_of_a_plain_run",
    "The bits of the result do not depend on it": _THREADS
    + "test_parts_in_any_order_and_number_give_the_same_bits",
    "is linked with `-Wl,-z,nodelete`": f"{_THREADS}test_cmake_links_openmp_so_that_it_stays "
    f"{_THREADS}test_an_openmp_library_is_loaded_run_and_closed_a_hundred_times",
    "OpenMP's threads wait in its code": _THREADS
    + "test_an_openmp_library_is_loaded_run_and_closed_a_hundred_times",
    "`points_get_info()` returns a `struct rlx_info`": _INFO + "test_one_program_runs_any_artifact",
    "loads any artifact with `dlopen`": _INFO + "test_one_program_runs_any_artifact",
    "`examples/load_in_c/load.c` is one": _INFO + "test_one_program_runs_any_artifact",
    "puts params into the code as constants": _WAYS,
    "write them to `points_arena_<name>(arena)` before `points_setup`": _WAYS,
    "A mapping chooses per param": _INFO + "test_params_are_reached_where_they_are",
    'With `optimize="size"` the arena holds no weight': _WEIGHTS
    + "test_large_weights_are_not_copied_into_the_arena",
    "a change in a mapped file shows in the next call": _WEIGHTS
    + "test_a_mapped_file_is_read_where_it_is",
    "may arrange large matrices anew": _HERE + "test_speed_may_arrange_matrices_anew_in_the_arena",
    "writes a new file for the same code": _WEIGHTS
    + "test_other_weights_need_no_new_code_and_arenas_share_them",
}

_TARGETS: Mapping[str, str] = {
    "The default target is portable: 16-byte vectors": _CROSS
    + "test_targets_are_described_by_their_architecture",
    "which have wider vectors": _CROSS + "test_targets_are_described_by_their_architecture",
    "multiply four bytes at a time too": f"{_CROSS}test_emulated_integers_are_the_reference_s "
    "test_target:test_a_target_says_whether_it_multiplies_four_bytes_at_once",
    "pairs of bf16 besides": f"{_CROSS}test_bf16_on_x86_is_multiplied_in_pairs "
    f"{_CROSS}test_emulated_pairs_of_bf16_are_near_the_reference",
    "beside C written by hand under the same flags, by": _HERE
    + "test_emulated_machines_execute_what_the_table_says",
    "which is the default of microcontrollers": _CROSS
    + "test_cores_are_small_and_triples_name_them",
    "embedded params are read where they are": _WEIGHTS
    + "test_large_weights_are_not_copied_into_the_arena",
    "as close in the arena as their elements allow": _MICROCONTROLLER,
    "are compiled by `arm-none-eabi-gcc`": f"{_HERE}test_every_target_of_the_page_is_known "
    f"{_CROSS}test_gcc_for_cores_comes_before_zig {_HERE}test_riscv32_has_a_gcc_of_its_own",
    "into an archive; there are no shared libraries": _CROSS
    + "test_without_an_operating_system_there_is_an_archive_alone",
    "The archive calls `memcpy` and `memset` alone": _HERE
    + "test_an_archive_for_a_core_needs_memory_functions_and_arithmetic_alone",
    "and measures itself in QEMU": _MICROCONTROLLER,
    "A network of 16-32-32-4 units with embedded weights": _HERE
    + "test_a_network_on_a_core_takes_what_the_table_says",
    "A WebAssembly module needs a few lines around the archive": (
        "examples.test_webassembly:test_a_network_runs_as_a_module_that_imports_nothing"
    ),
    "is a module that imports nothing, in a page and in `wasmtime`": (
        "examples.test_webassembly:test_a_network_runs_as_a_module_that_imports_nothing "
        "examples.test_webassembly:test_the_page_asks_for_what_the_module_exports"
    ),
    "The same programs by CasADi 3.8 and tinygrad 0.14": _HERE
    + "test_small_programs_execute_what_the_table_says",
    "which takes three times the code and more, and fewer instructions on a Cortex-M4": _HERE
    + "test_spelled_out_products_take_more_code_in_the_table",
    "compiles with that cross compiler, with the one that `cc=` names": _CROSS
    + "test_named_compiler_is_used_for_any_target",
    "or with Zig's": f"{_CROSS}test_zig_stands_in_where_there_is_no_c_compiler "
    f"{_CROSS}test_missing_cross_compiler_names_the_remedy",
    "LLVM makes objects for x86-64, aarch64 and riscv64": _OBJECTS
    + "test_objects_are_of_the_target",
    "writes the sources and compiles nothing": _CROSS + "test_emit_only_needs_no_compiler",
    "Code for a target with fused multiply-adds": (
        "test_target:test_a_target_says_of_which_floats_it_fuses_multiply_adds"
    ),
    "Portable code never does": _FREE
    + "test_code_without_libm_includes_no_math_h_and_never_asks_for_a_multiply_add",
    "The math functions keep their bounds in both forms": _MATH,
    "neither links libm nor reads a header of the C library": f"{_BARE} {_FREE}"
    "test_code_without_libm_includes_no_math_h_and_never_asks_for_a_multiply_add",
    "is in the code": _FREE + "test_own_functions_have_the_bits_of_libm",
    "Of the C library only `memcpy` and `memset` are called": _BARE,
    '`blas="none"`, the default, links nothing': _BLAS
    + "test_without_blas_the_system_is_solved_by_generated_code",
    "are left to its LAPACK, and matrix products": " ".join(
        _BLAS + test
        for test in (
            "test_large_system_is_left_to_the_library_that_blas_names",
            "test_c_for_a_library_by_name_calls_the_usual_symbols",
        )
    ),
    "multiply-adds or more to its `cblas_?gemm`": " ".join(
        (
            _BLAS + "test_large_products_call_the_library_of_the_machine",
            _BLAS + "test_products_for_a_library_by_name_have_the_usual_prototype",
            "passes.layout.test_use_blas:test_the_size_of_one_matrix_decides",
            "runtime.test_blas_products:test_products_of_any_type_and_transpose",
        )
    ),
    "what follows a product stays generated code": "passes.layout.test_use_blas:"
    "test_what_follows_is_a_kernel_behind_the_call_and_the_schedule_shows_both",
    '`"system"` takes the library that programs in Python call': _BLAS
    + "test_large_products_call_the_library_of_the_machine",
    "leaves it no products": _BLAS + "test_products_are_generated_unless_a_library_is_named",
    "`rlx doctor` measures it here": "cli.test_commands:"
    "test_doctor_measures_what_multiplies_faster",
    "says which functions are called and what to link": _BLAS
    + "test_large_products_call_the_library_of_the_machine",
    "only if the program calls it": _BLAS + "test_calls_without_a_library_are_refused",
}

_COMPILERS: Mapping[str, str] = {
    "with GCC before 12, lanes are picked one by one": _PLAIN
    + "test_vectors_need_no_shuffles_of_new_compilers",
    "it is plain C99 without vectors or attributes": _PLAIN
    + "test_plain_c_is_c99_without_extensions",
    "small compilers (`tcc`) take": _PLAIN + "test_a_small_compiler_takes_plain_c",
    "get it anyway": "test_target:test_targets_without_vectors_have_one_lane_and_natural_alignment",
    "The C is silent under": " ".join(
        (
            _ARTIFACT + "test_c_compiles_silently_under_strict_flags",
            _STRICT + "test_code_for_other_targets_compiles_silently_under_strict_flags",
            _STRICT + "test_zig_is_silent_where_another_compiler_comes_first",
        )
    ),
    "and under GCC's `-fanalyzer`": _STRICT + "test_the_analyzer_of_gcc_finds_nothing",
    "switches off what GCC and clang say wrongly": _HERE
    + "test_every_warning_that_is_switched_off_has_its_reason",
    "Valgrind's memcheck finds nothing in what the examples export": (
        "aot.test_memcheck:test_published_programs aot.test_memcheck:test_examples_that_run_in_c"
    ),
    "`cppcheck` finds five kinds of things": f"{_HERE}"
    "test_cppcheck_has_as_many_reasons_as_the_page "
    "aot.test_cppcheck:test_cppcheck_finds_nothing_that_is_not_explained",
    "One `.c` gives the same bits from every compiler": _SAME_BITS,
    'code for `target="native"` has the bits of': _ARTIFACT
    + "test_training_step_agrees_with_python_bit_for_bit",
    "moves elements of eight doubles wrongly in some loops": _WIDTH
    + "test_doubles_arrive_where_the_kernel_sends_them",
    "Artifacts with f64 keep GCC to vectors of four doubles": " ".join(
        _WIDTH + test
        for test in (
            "test_exported_c_is_exact_with_the_callers_compiler_and_flags",
            "test_long_loops_over_successive_doubles_keep_the_width",
            "test_only_files_with_doubles_are_told_of_them",
        )
    ),
    "LLVM compiles the kernels: there are `points.o`": _OBJECTS
    + "test_without_a_compiler_there_is_an_object_an_archive_and_c_around_them",
    "A shared library takes a linker, so none is made": _OBJECTS
    + "test_without_a_compiler_there_is_an_object_an_archive_and_c_around_them",
    "Whoever builds the program compiles that C with it": _OBJECTS
    + "test_sample_prints_the_same_with_llvms_kernels_as_with_c",
    "`cc program.c points_api.c libpoints.a -lm`": _OBJECTS
    + "test_sample_prints_the_same_with_llvms_kernels_as_with_c",
    "Results agree with those of the C to rounding": _OBJECTS
    + "test_kernels_of_the_archive_agree_with_c_to_rounding",
    "`points.c` is there, too, and needs none of this": _OBJECTS
    + "test_sample_prints_the_same_with_llvms_kernels_as_with_c",
    "goes into the artifact, `static`": "aot.test_own_ops:"
    "test_the_source_is_in_the_artifact_and_is_called aot.test_own_ops:"
    "test_two_artifacts_with_the_same_op_link_into_one_program",
    "into the weights `WEIGHTS_AT_...`": _INFO + "test_enumerators_of_different_blocks_differ",
    "has `_in_place` in its name": _INFO + "test_updates_in_place_are_seen_in_names_and_comments",
    "`AT_ADD_6_IN_X`": _INFO + "test_updates_in_place_are_seen_in_names_and_comments",
    "count all nodes of the program, those of loops": _INFO
    + "test_nodes_of_different_bodies_have_numbers_of_their_own",
    "shows every kernel beside its assembly for a target": (
        "cli.test_commands:test_inspect_shows_a_chosen_target "
        "report.test_data:test_every_thunk_has_its_kernel_in_both_forms"
    ),
    "a debugger steps through the C": (
        "codegen.c.test_line_directives:test_a_debugger_is_in_the_users_program_or_in_the_c"
    ),
    "every statement of C has a `#line` of its own": (
        "codegen.c.test_line_directives:test_a_statement_has_one_directive_and_one_line"
    ),
    "The paths of your program are then in the C": _ARTIFACT
    + "test_line_directives_lead_a_debugger_to_the_program",
}

CLAIMS: Mapping[str, str] = {**_INTERFACE, **_TARGETS, **_COMPILERS}

ADVICE = (
    "For the exact figure compile with `-fstack-usage`",
    "Link your own library or plug-in that contains such a `.c` in the same way",
    'Export for bare metal with `math="none"`',
    "Make its helper functions `static`, too",
)
"""Sentences that tell the reader what to do."""

TABLES: Mapping[str, str] = {
    "| file | what it is |": " ".join(
        (
            _HERE + "test_the_files_are_those_of_the_table",
            _ARTIFACT + "test_header_is_clean_cpp",
            _ARTIFACT + "test_pkg_config_and_cmake_files_build_the_sample",
            "aot.test_sample:test_prints_the_results_of_the_example_inputs",
        )
    ),
    "| target | compiler | | rlx | by hand |": _HERE
    + "test_emulated_machines_execute_what_the_table_says",
    "| | rlx | by hand |": _HERE + "test_a_network_on_a_core_takes_what_the_table_says",
    "| program | C by | x86-64 | riscv64 | wasm32-simd128 | cortex-m4 | code | RAM | stack |": _HERE
    + "test_small_programs_execute_what_the_table_says",
}
"""The tables of the page, by their first lines."""

README_CLAIMS: Mapping[str, str] = {
    "get one readable C file": "codegen.c.test_goldens:test_module_reads_as_its_golden",
    "all memory is one block that you own": f"{_NO_STATE} {_NEEDED}",
    "Artifacts for aarch64 and riscv64 are compiled and run under emulation by the tests": _CROSS
    + "test_emulated_artifact_agrees_with_the_reference",
    "a shared and a static library, the weights": _HERE + "test_the_files_are_those_of_the_table",
    "compiles and runs as it stands (`cc main.c mlp.c -lm`)": _ARTIFACT
    + "test_sample_program_runs_in_a_directory_with_nothing_else",
    "The library allocates nothing, prints nothing and keeps no state": f"{_NEEDED} {_NO_STATE}",
    "its whole memory is one block of a size known at compile time": _HERE
    + "test_the_header_has_bytes_and_elements_of_every_tensor",
    "as they stand in `mlp.c`": "docs.test_documentation:test_the_python_of_a_page_runs",
    "C and LLVM agree with it for every op and dtype": (
        "codegen.c.test_records:test_records_agree_and_are_clean_under_the_sanitizers "
        "codegen.test_parity:test_kernels_agree_with_the_reference_through_c "
        "codegen.test_parity:test_kernels_agree_with_the_reference_through_llvm"
    ),
    "same bits, whatever the number of threads": _THREADS
    + "test_threaded_run_has_the_bits_of_a_plain_run",
    "One exported `.c`: same bits from every compiler": _SAME_BITS,
}

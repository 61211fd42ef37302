"""What rlx promises about ONNX models, and the tests that hold it."""

from __future__ import annotations

from collections.abc import Mapping

_LOAD = "onnx.test_load:"
_SESSION = "onnx.test_session:"
_EXTENTS = "onnx.test_extents:"
_EXPORT = "onnx.test_export:"
_FILES = "onnx.test_files:"
_MODELS = "onnx.test_models:"
_CONFORMANCE = "onnx.test_conformance:"
_MUTATIONS = "onnx.test_mutations:"
_OPERATORS = "onnx.test_operators:"
_GENERATED = "onnx.test_generated:"
_QUANTIZED = "onnx.test_quantized:"
_ML = "onnx.test_ml:"
_PICTURES = "examples.test_read_text:"
_PARTS = "numpy.test_symbolic_indexing:"

WAYS_IN_AND_OUT: Mapping[str, str] = {
    "a model is a graph with its params bound and its names kept; errors name the node": (
        f"{_LOAD}test_names_params_and_sources_are_those_of_the_model "
        f"{_LOAD}test_params_are_bound {_LOAD}test_errors_name_node_and_operator"
    ),
    "dims are numbers, bounds, or whole shapes, and one that is left open is asked for": (
        f"{_LOAD}test_a_bounded_dim_is_one_program_for_all_extents "
        f"{_LOAD}test_an_open_dimension_without_extent_is_refused_by_name "
        f"{_SESSION}test_dims_that_no_input_has_are_refused"
    ),
    "external data is mapped": f"{_LOAD}test_external_data_is_mapped",
    "a session is that of ONNX Runtime: inputs, outputs, options, keywords": (
        f"{_SESSION}test_it_tells_its_inputs_and_outputs {_SESSION}test_inputs_are_checked "
        f"{_SESSION}test_options_that_programs_set_are_there_and_threads_are_taken "
        f"{_SESSION}test_keywords_are_those_of_the_two_runtimes "
        f"{_SESSION}test_a_session_has_the_methods_of_onnx_runtime "
        f"{_SESSION}test_errors_have_the_names_that_programs_catch"
    ),
    "bindings, values, runs in the background, extents by options, providers": (
        f"{_SESSION}test_bound_arrays_are_read_and_written_where_they_lie "
        f"{_SESSION}test_results_share_no_memory_with_what_is_bound "
        f"{_SESSION}test_values_tell_their_types "
        f"{_SESSION}test_a_run_in_the_background_calls_back_with_results_or_the_error "
        f"{_SESSION}test_options_give_extents_and_refuse_what_is_not_there "
        f"{_SESSION}test_a_provider_that_is_not_there_is_told"
    ),
    "a package for ONNX Runtime runs with one import exchanged": (
        f"{_MODELS}test_a_package_runs_with_its_import_of_onnx_runtime_exchanged "
        f"{_MODELS}test_the_wrapper_of_the_voice_detector_runs_with_its_import_exchanged"
    ),
    "a session compiles once per shape, and once for all where dims are bounded": (
        f"{_SESSION}test_each_shape_is_compiled_once "
        f"{_SESSION}test_bounded_extents_are_compiled_once "
        f"{_MODELS}test_windows_of_sound_compile_nothing_new"
    ),
    "ONNX's backend interface runs ONNX's own suite": f"{_CONFORMANCE}*",
    "exported models pass the checker, and mean the same in ONNX Runtime and read back": (
        f"{_EXPORT}test_models_read_back_mean_the_same "
        f"{_EXPORT}test_onnx_runtime_computes_the_same "
        f"{_EXPORT}test_a_model_survives_the_way_there_and_back "
        f"{_EXPORT}test_random_programs_come_back_with_their_bits "
        f"{_EXPORT}test_values_at_which_operators_leave_off_are_written_out "
        f"{_EXPORT}test_dtypes_that_operators_do_not_take_are_computed_in_wider_ones"
    ),
    "what ONNX cannot say is an error with op and line": (
        f"{_EXPORT}test_what_onnx_cannot_say_is_an_error_with_the_op_and_the_line"
    ),
    "model files become C, and the command line compiles, runs, inspects and times them": (
        f"{_FILES}test_a_model_file_becomes_c_with_its_names "
        f"{_FILES}test_the_command_runs_a_model {_FILES}test_the_command_compiles_a_model "
        f"{_FILES}test_the_command_shows_a_model_for_all_extents "
        f"{_FILES}test_the_command_times_the_kernels_of_a_model"
    ),
    "programs of torch.export are one program for all lengths": (
        "onnx.test_torch:test_one_program_for_all_lengths_computes_what_torch_computes"
    ),
}

OPERATORS: Mapping[str, str] = {
    "every operator and attribute of the standard is known": (
        f"{_OPERATORS}test_every_attribute_of_the_standard_is_known "
        f"{_OPERATORS}test_every_version_of_every_operator_is_translated_or_has_a_body"
    ),
    "1865 of 1884 tests of nodes pass, and the page lists the others with the reason": (
        f"{_CONFORMANCE}test_all_but_the_listed_pass_with_the_reference_interpreter "
        f"{_CONFORMANCE}test_operators_mean_what_the_standard_says "
        f"{_CONFORMANCE}test_a_part_of_all_passes_with_c "
        f"{_CONFORMANCE}test_the_documentation_lists_what_fails"
    ),
    "older versions mean what they meant": (
        f"{_OPERATORS}test_the_slopes_of_old_models_are_one_per_channel "
        f"{_OPERATORS}test_the_first_upsample_has_its_scales_as_attributes "
        f"{_OPERATORS}test_old_softmax_takes_a_symbolic_batch "
        f"{_EXTENTS}test_equal_parts_are_equal_below_opset_18"
    ),
    "results beyond the standard's tests are those of ONNX Runtime": (
        f"{_OPERATORS}test_results_are_those_of_onnx_runtime"
    ),
    "random attributes and shapes mean what they mean to ONNX Runtime: among others windows, "
    "DFT and STFT, recurrent layers, quantized operators, NonZero, Unique, TopK, "
    "NonMaxSuppression, ai.onnx.ml": f"{_GENERATED}test_random_nodes_are_those_of_onnx_runtime",
    "If, Loop and Scan in detail, sequences and optionals": (
        f"{_GENERATED}test_sequences_and_control_flow_are_those_of_onnx_runtime"
    ),
    "optimizers of the training domain, and operators that are functions": (
        f"{_CONFORMANCE}test_operators_mean_what_the_standard_says "
        f"{_CONFORMANCE}test_all_but_the_listed_pass_with_the_reference_interpreter"
    ),
    "branches are chosen by their condition": (
        f"{_SESSION}test_branches_are_chosen_by_their_condition_alone"
    ),
    "quantized operators are exact, in integers, and weights stay bytes": (
        f"{_QUANTIZED}test_products_are_of_codes_and_results_are_those_of_onnx_runtime "
        f"{_QUANTIZED}test_weights_stay_bytes_in_the_compiled_model"
    ),
    "trees, machines, encoders and labels of ai.onnx.ml": f"{_ML}*",
    "gradients of the training domain": (
        f"{_OPERATORS}test_gradients_of_a_tensor_and_of_gradients"
    ),
}

EXTENTS: Mapping[str, str] = {
    "arithmetic of shapes is folded, with symbols too": (
        f"{_LOAD}test_arithmetic_of_shapes_leaves_no_nodes "
        f"{_EXTENTS}test_shapes_are_computed_of_extents"
    ),
    "extents are numbers where models compute with them": (
        f"{_EXTENTS}test_extents_are_numbers_where_models_compute_with_them "
        f"{_SESSION}test_shapes_are_numbers_where_extents_are_bounded"
    ),
    "parts of symbolic axes are taken as NumPy does, in rlx.numpy and in models": (
        f"{_PARTS}* {_EXTENTS}test_a_slice_that_the_bounds_leave_open_is_refused"
    ),
    "what depends on data runs in stages in a session, and is refused in a graph": (
        f"{_SESSION}test_shapes_that_depend_on_data_are_run_in_stages "
        f"{_EXTENTS}test_a_shape_that_is_no_extent_is_computed_in_stages "
        f"{_LOAD}test_a_shape_that_depends_on_data_is_a_typed_error_in_a_graph"
    ),
    "what the bounds leave open is compiled for each shape in a session, with a warning": (
        f"{_EXTENTS}test_a_session_compiles_each_shape_where_the_bounds_leave_it_open "
        f"{_EXTENTS}test_an_operator_that_is_not_known_is_no_matter_of_bounds"
    ),
    "in a graph it is refused by name": (
        f"{_EXTENTS}test_a_range_that_may_be_empty_is_refused "
        f"{_EXTENTS}test_what_takes_no_symbolic_extents_names_them"
    ),
}

MODELS: Mapping[str, str] = {
    "detector, classifier and recognizer read the text of a picture": (
        f"{_PICTURES}test_the_sample_is_read {_PICTURES}test_a_picture_on_its_head_is_read "
        f"{_PICTURES}test_scores_are_those_of_the_peer {_MODELS}test_the_direction_of_text"
    ),
    "a program in C reads a picture with the recognizer": (
        f"{_PICTURES}test_the_program_in_c_reads_what_the_peer_reads"
    ),
    "the detectors of voices and of file types": (
        f"{_MODELS}test_the_voice_detector {_MODELS}test_the_file_type_detector"
    ),
    "the light models of the onnx package": f"{_MODELS}test_the_light_models",
    "one program serves pictures of all widths and sizes": (
        f"{_MODELS}test_one_program_reads_text_of_all_widths "
        f"{_MODELS}test_one_program_finds_text_in_pictures_of_all_sizes"
    ),
    "run time and cold compiles are measured beside ONNX Runtime and OpenVINO": (
        "bench:ocr.detector_640x640 bench:ocr.classifier_48x192 bench:ocr.recognizer_48x320 "
        "bench:silero.window_32ms bench:magika.2048_bytes"
    ),
}

BAD_FILES: Mapping[str, str] = {
    "thousands of damaged models are typed errors, in 1 GB of memory": (
        f"{_MUTATIONS}test_damaged_models_are_refused_with_typed_errors_or_run"
    ),
    "cycles, files that are no models, nodes that break a rule": (
        f"{_LOAD}test_a_cycle_is_a_format_error "
        f"{_LOAD}test_a_file_that_is_no_model_is_a_format_error "
        f"{_MUTATIONS}test_nodes_that_break_a_rule_are_the_fault_of_the_file "
        f"{_MUTATIONS}test_a_fault_of_a_translator_names_the_node"
    ),
    "external data outside of the folder, too short, or of an unknown type": (
        f"{_LOAD}test_external_data_outside_of_the_folder_is_refused "
        f"{_LOAD}test_external_data_that_is_too_short_is_a_format_error "
        f"{_LOAD}test_external_data_of_an_unknown_type_is_a_format_error"
    ),
    "required inputs that are left out": (
        f"{_LOAD}test_a_required_input_that_is_left_out_is_a_format_error"
    ),
    "sparse tensors are checked": (
        f"{_MUTATIONS}test_sparse_tensors_are_checked "
        f"{_LOAD}test_a_sparse_tensor_that_does_not_fit_its_shape_is_a_format_error"
    ),
}

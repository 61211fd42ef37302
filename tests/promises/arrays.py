"""What array programs rely on, and the tests that hold it: the sections of what was asked for.

Chapter 02 has a table of its own, `SHOWN_ELSEWHERE` of `numpy.test_specification`, and the tests of
that module carry the numbers of its limits and facts.
"""

from __future__ import annotations

from collections.abc import Mapping

_SPECIFICATION = "numpy.test_specification:"
_FFT = "numpy.test_fft:"
_DRAWS = "random.test_draws:"
_EDGES = "numpy.test_edges:"
_EAGER = "numpy.test_eager_arrays:"
_SORT = "codegen.kernels.test_sort:"
_CALLBACKS = "transforms.test_callbacks:"
_CUSTOM = "transforms.test_custom:"

CHAPTER_02: Mapping[str, str] = {
    "14 every limit is lifted and 15 every fact holds": (
        f"{_SPECIFICATION}* numpy.test_specification_compiled:*"
    ),
    "8 complex ops and gradients by the conjugate": (
        "ir.ops.test_signal:test_facts_of_complex_arithmetic "
        "ir.ops.test_signal:test_facts_of_wirtinger_gradients numpy.test_complex128:*"
    ),
    "9 transforms of any length along any axes": (
        f"{_FFT}test_compiled_transforms_of_any_length "
        f"{_FFT}test_transforms_along_an_axis_are_numpys "
        f"{_FFT}test_transforms_along_several_axes_are_numpys "
        f"{_FFT}test_a_batched_transform_is_one_along_the_next_axis"
    ),
    "9 transforms of reals take half as many points": (
        f"{_FFT}test_compiled_transforms_of_reals_of_any_length "
        f"{_FFT}test_an_even_count_of_reals_is_transformed_as_half_as_many_points "
        f"{_FFT}test_inverse_transforms_to_reals_do_not_read_imaginary_parts_of_real_bins "
        f"{_FFT}test_gradients_of_transforms_of_reals_are_their_transposes"
    ),
    "9 one stage of butterflies": "ir.ops.test_signal:test_facts_of_fft_butterfly_stage",
    "10 log-mel energies": "ir.ops.test_signal:test_facts_of_log_mel",
    "11 im2col and its transpose": (
        "ir.ops.test_convolution_facts:test_col2im_is_the_transpose_of_im2col"
    ),
    "12 random ops": (
        f"{_DRAWS}test_philox_has_the_words_of_the_specification "
        f"{_DRAWS}test_uniform_and_normal_numbers_of_section_12_are_the_stated_ones"
    ),
    "5 scatters of all kinds, and segments": "numpy.test_scatter:*",
}

RANDOM: Mapping[str, str] = {
    "keys, splits, bits and distributions are JAX's": "random.test_against_jax:*",
    "Threefry has the words of its authors": (
        f"{_DRAWS}test_threefry_gives_the_known_words_of_its_authors"
    ),
    "the same bits at any number of threads": (
        f"{_DRAWS}test_compiled_draws_have_the_bits_of_the_reference_at_any_number_of_threads"
    ),
    "draws in loops and beside gradients": (
        f"{_DRAWS}test_draws_in_a_scan_are_those_of_the_same_keys_outside "
        f"{_DRAWS}test_a_gradient_passes_beside_noise_and_not_into_the_key"
    ),
}

ARRAYS: Mapping[str, str] = {
    "the standard's functions, keywords and inspection": "numpy.test_array_api:*",
    "names of NumPy, at once, mapped and differentiated": "numpy.test_names:*",
    "what depends on data takes a size while tracing": (
        "numpy.test_names:test_what_needs_a_size_says_so_while_tracing"
    ),
    "sorts are stable, of any dtype and along any axis": (
        f"{_SORT}test_every_dtype_sorts_stably_with_nan_last_and_equal_zeros "
        f"{_SORT}test_any_axis_sorts_as_numpy_sorts "
        f"{_SORT}test_the_gradient_goes_where_the_elements_went"
    ),
    "short rows are sorted by a network in lanes": (
        f"{_SORT}test_the_exchanges_of_a_network_sort "
        f"{_SORT}test_short_rows_are_sorted_side_by_side"
    ),
    "decompositions and their derivatives": (
        "numpy.test_decompositions:* numpy.test_eigenvalues:* numpy.test_linalg:*"
    ),
    "rows of hundreds are sorted by a bitonic network in lanes": (
        f"{_SORT}test_rows_of_hundreds_are_sorted_by_a_bitonic_network "
        f"{_SORT}test_a_bitonic_network_is_chosen_for_rows_that_fill_its_lanes"
    ),
    "functions of the standard on drawn arrays and keywords are NumPy's": (
        "numpy.test_drawn_calls:*"
    ),
    "decompositions and systems of complex matrices": "numpy.test_complex_linalg:*",
    "large matrices go to LAPACK, of any back end": "passes.layout.test_use_lapack:*",
    "convolutions and formats of fewer bits under JAX's names": "jax.test_lax:*",
    "special functions, signals, statistics, structured matrices, solvers": (
        "scipy.test_special:* scipy.test_signal:* scipy.test_stats:* scipy.test_structured:* "
        "scipy.test_solvers:* scipy.test_fft:*"
    ),
}

TRANSFORMATIONS: Mapping[str, str] = {
    "types without running, linearized and transposed functions": "transforms.test_abstract:*",
    "Jacobians by several arguments": (
        "transforms.test_jacobians:test_jacobians_by_several_arguments_are_a_tuple_of_matrices"
    ),
    "callbacks and effects": f"{_CALLBACKS}*",
    "stated derivatives": f"{_CUSTOM}*",
    "solutions with the derivatives of their equations": (
        "transforms.test_implicit:* "
        "scipy.test_solvers:test_solutions_have_gradients_by_their_equation"
    ),
    "members of a mapped axis exchange": "transforms.test_collectives:*",
    "vectorized functions, stages of a compiled one": "transforms.test_vectorize:*",
    "trees": "test_tree_util:*",
    "optimizers follow optax": "optim.test_optax:*",
    "programs of JAX": "jax.test_programs:* jax.test_modules:* jax.test_initializers:*",
    "NumPy's names of parameters": "jax.test_call_forms:*",
    "odeint, images, meshes of one device, words": "jax.test_further_modules:*",
    "nineteen published kinds of programs": "jax.test_published:*",
    "what is missing of JAX is listed by name": "jax.test_names:*",
}

EAGER: Mapping[str, str] = {
    "results do not change, and share nothing that does": (
        f"{_EAGER}test_a_name_for_an_array_keeps_its_values "
        f"{_EAGER}test_results_share_no_memory_with_what_can_change "
        f"{_EAGER}test_every_function_gives_arrays_that_cannot_be_changed"
    ),
    "integers of NumPy and arrays without axes stand wherever an integer may": (
        "numpy.test_integers_of_numpy:*"
    ),
    "one rule of promotion": f"{_EAGER}test_types_promote_as_inside_jit",
    "updates at an index outside jit": f"{_EAGER}test_updates_at_an_index_are_there_outside_jit",
    "indices out of range": (
        "numpy.test_scatter:test_an_index_out_of_range_stays_an_error_without_a_mode "
        "numpy.test_scatter:test_updates_out_of_range_are_jaxs "
        "numpy.test_scatter:test_reads_out_of_range_are_jaxs"
    ),
}

WRONG: Mapping[str, str] = {
    "quotients near the limits of integers and of infinities": (
        f"{_EDGES}test_quotients_of_extreme_integers {_EDGES}test_floor_divide_by_and_of_infinities"
    ),
    "rules that call their own function are lost at the third nesting": (
        f"{_CUSTOM}test_third_derivatives_follow_a_rule_that_calls_its_function"
    ),
    "the second derivative of sinc at 0": (
        f"{_EDGES}test_sinc_and_its_second_derivative_near_zero"
    ),
    "the gradient of the determinant of a singular matrix": "passes.autodiff.test_cofactors:*",
    "searchsorted of NaN": f"{_EDGES}test_searchsorted_takes_nan_for_the_largest",
    "signs of zeros, and an infinite hypotenuse": (
        f"{_EDGES}test_functions_that_tell_zeros_apart {_EDGES}test_fmod_keeps_the_sign_of_zero "
        f"{_EDGES}test_hypot_of_an_infinity_is_infinite"
    ),
    "traces of stacks": f"{_EDGES}test_trace_of_a_stack_is_one_per_matrix",
    "corners of relu6, the tail of gelu": (
        f"{_EDGES}test_relu6_has_no_slope_at_its_corners {_EDGES}test_exact_gelu_keeps_its_tail"
    ),
    "dtypes of vecdot and nanmax": f"{_EDGES}test_vecdot_and_nanmax_keep_integers",
    "bare exceptions of cross, average and pad": (
        f"{_EDGES}test_cross_along_one_axis_of_unequal_ranks "
        f"{_EDGES}test_average_over_axes_out_of_order "
        f"{_EDGES}test_pad_with_a_constant_for_each_side"
    ),
    "special values of complex functions": (
        f"{_EDGES}test_complex_log10_of_zero "
        f"{_EDGES}test_complex_functions_of_zeros_infinities_and_nan "
        "numpy.test_complex_functions:*"
    ),
}

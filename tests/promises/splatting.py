"""Splatting: what chapter 07 of the specification says of it, and the tests that hold it."""

from __future__ import annotations

from collections.abc import Mapping

_FACTS = "ir.ops.test_splat_facts:"
_OPS = "ir.ops.test_splat:"
_NATIVE = "codegen.kernels.test_splat:"
_BAD = "splat.test_bad_scenes:"
_WRONG = "splat.test_wrong_uses:"
_DRAWN = "splat.test_render:"
_FUSED = "passes.rewrites.test_fuse_decomposed_gaussian_splat:"
_EXAMPLE = "examples.test_splat:"
_EXPORT = "aot.test_splat:"

OPS: Mapping[str, str] = {
    "1 tensors, attributes and what does not fit": (
        f"{_OPS}test_what_does_not_fit_is_refused {_OPS}test_a_longer_meta_is_accepted "
        f"{_OPS}test_rasterize_finds_out_how_many_splats_there_are"
    ),
    "1.2 the camera is a constant of 23 numbers": (
        f"{_FACTS}test_a_camera_is_a_constant_of_23_numbers"
    ),
    "1.5 the prepare buffer": (
        f"{_FACTS}test_the_parity_scene_is_prepared_as_specified "
        f"{_FACTS}test_preparing_loses_nothing {_FACTS}test_lengths_are_as_specified"
    ),
    "1.6 the packed gradient": f"{_FACTS}test_packed_gradients_are_split_by_name",
    "two stages are the bits of one": f"{_FACTS}test_two_stages_give_the_same_bits_as_one",
    "2 the image is that of compositing every splat at every pixel": (
        f"{_NATIVE}test_images_are_those_of_compositing_everything"
    ),
    "2.2 rays and 2.5 alpha along them": (
        f"{_FACTS}test_the_ray_of_a_tilted_splat_passes_it_as_specified"
    ),
    "2.3 quaternions are used as they are": (
        f"{_BAD}test_quaternions_of_any_length_are_used_as_they_are"
    ),
    "2.4 colour": (
        f"{_FACTS}test_colour_is_that_of_two_bands "
        f"{_FACTS}test_limit_15_without_constant_terms_colours_have_the_gradient"
    ),
    "2.6 outlines, and lists by distance with ties by number": (
        f"{_FACTS}test_outlines_of_the_parity_scene_are_as_specified "
        f"{_FACTS}test_the_parity_scene_is_prepared_as_specified "
        f"{_BAD}test_lists_that_overflow_lose_the_farthest_and_say_how_many"
    ),
    "2.7 compositing": f"{_FACTS}test_the_nearer_of_two_splats_is_in_front",
    "3 the true derivative, checked in f64": (
        "ir.reference.test_splat:test_gradients_are_exact_in_f64 "
        f"{_NATIVE}test_gradients_are_those_of_finite_differences "
        f"{_FACTS}test_limits_11_to_15_gradients_are_those_of_finite_differences"
    ),
    "4 fused before it is differentiated": (
        f"{_FACTS}test_two_stages_are_one_before_differentiation {_FUSED}*"
    ),
    "4 vmap over cameras and over scenes": (
        f"{_DRAWN}test_views_of_one_scene_are_drawn_by_vmap "
        f"{_DRAWN}test_scenes_and_their_gradients_are_batched"
    ),
    "4 another door to the image": (
        f"{_FACTS}test_the_reference_door_draws_with_the_settings_of_the_camera "
        f"{_FACTS}test_the_reference_door_wants_settings_that_are_known"
    ),
    "5 the common form, and who chooses it": (
        f"{_FACTS}test_dispatch_is_as_specified "
        f"{_FACTS}test_dispatch_after_autodiff_leaves_the_gradient "
        f"{_FACTS}test_dispatch_reads_the_environment"
    ),
    "every op has a meaning, a kernel, derivatives, batching and a record": "test_completeness:*",
}

KERNELS: Mapping[str, str] = {
    "C, LLVM and the reference agree": f"{_NATIVE}test_native_code_agrees_with_the_reference",
    "the same bits at any number of threads": (
        f"{_NATIVE}test_results_have_the_same_bits_at_one_and_two_threads "
        f"{_NATIVE}test_lists_built_by_several_threads_are_those_of_one "
        f"{_EXPORT}test_gradients_and_sorts_have_equal_bits_in_parts_of_any_number"
    ),
    "sanitizers are clean": (f"{_EXPORT}test_gradients_and_sorts_are_clean_under_thread_sanitizer"),
    "a radix sort that sorts of all kinds use": (
        "passes.layout.test_split_sorts:* codegen.kernels.test_sort:*"
    ),
    "a gradient shares projection and lists with its image": (
        f"{_NATIVE}test_a_gradient_shares_projection_and_lists_with_its_image"
    ),
}

JOB: Mapping[str, str] = {
    "views held out reach 30 dB": f"{_EXAMPLE}test_fitting_finds_the_views_held_out",
    "photographs by a ray tracer": (
        f"{_EXAMPLE}test_a_photograph_shows_the_sky_above_and_the_world_below"
    ),
    "pictures and a turntable": (
        f"{_EXAMPLE}test_pictures_of_a_fit_are_photograph_fit_and_difference "
        f"{_EXAMPLE}test_somebodys_own_scene_is_drawn_as_a_turntable"
    ),
    "the layout of other tools": "splat.test_ply:*",
    "renderer and fitting step as C": (
        f"{_EXAMPLE}test_the_program_in_c_draws_what_python_draws "
        f"{_EXAMPLE}test_the_fitting_step_in_c_does_what_that_in_python_does"
    ),
    "PyTorch and JAX draw the same in the bench": (
        "bench.test_splatting:test_peers_draw_what_rlx_draws_and_have_gradients"
    ),
    "growth with visible work is drawn": "bench.test_splatting:test_growth_is_drawn",
}

BAD_SCENES: Mapping[str, str] = {
    "NaN and infinities": (
        f"{_BAD}test_a_splat_with_a_number_that_is_not_finite_is_not_drawn "
        f"{_NATIVE}test_a_broken_splat_spoils_nothing_but_what_it_covers"
    ),
    "scales of zero": (f"{_BAD}test_scales_of_zero_are_too_thin_and_one_of_them_alone_is_a_disk"),
    "quaternions of zeros": f"{_BAD}test_a_quaternion_of_zeros_draws_a_defined_picture",
    "lists that overflow": f"{_BAD}test_lists_that_overflow_lose_the_farthest_and_say_how_many",
    "counts above 2^24": f"{_FACTS}test_limit_06_counts_that_f32_does_not_hold_are_refused",
    "cameras without direction": f"{_BAD}test_a_camera_without_direction_draws_numbers",
    "arrays with other axes, settings and views": (
        f"{_WRONG}test_a_wrong_call_is_a_typed_error_with_a_remedy"
    ),
    "damaged files": f"{_WRONG}test_a_damaged_head_is_told splat.test_ply:*",
    "nothing": f"{_WRONG}test_a_scene_of_nothing_is_drawn_written_and_read",
    "darkness": f"{_WRONG}test_darkness_on_a_display_has_a_slope_of_zero",
}

LIFTED: Mapping[str, str] = {
    "7.1 bare pixels": (
        f"{_FACTS}test_limit_01_alpha_of_a_bare_pixel_does_not_depend_on_the_tiles"
    ),
    "7.2 an empty scene": (
        f"{_FACTS}test_limit_02_an_empty_scene_is_background_and_has_empty_gradients"
    ),
    "7.3 long splats": (
        f"{_FACTS}test_limit_03_a_long_splat_is_drawn_whole "
        f"{_FACTS}test_limit_03_a_splat_larger_than_the_screen_is_drawn "
        f"{_FACTS}test_limit_03_outlines_of_quaternions_of_any_length_are_those_of_alpha"
    ),
    "7.4 steps": f"{_FACTS}test_limit_04_the_limit_of_steps_holds_in_the_image_too",
    "7.5 overflow": (
        f"{_FACTS}test_limit_05_dropped_entries_are_counted_and_are_the_farthest "
        f"{_FACTS}test_limit_05_there_is_room_for_lists_by_default"
    ),
    "7.6 counts": f"{_FACTS}test_limit_06_counts_that_f32_does_not_hold_are_refused",
    "7.7 a buffer from elsewhere": f"{_FACTS}test_limit_07_rasterize_needs_no_producer",
    "7.8 what cannot be drawn": f"{_FACTS}test_limit_08_what_cannot_be_drawn_is_refused",
    "7.9 no registration": f"{_FACTS}test_limit_09_nothing_has_to_be_registered",
    "7.10 near and far": f"{_FACTS}test_limit_10_near_and_far_cull_nothing",
    "7.11 to 7.15 gradients": (
        f"{_FACTS}test_limits_11_to_15_gradients_are_those_of_finite_differences "
        f"{_FACTS}test_limit_12_opaque_splats_have_exact_gradients "
        f"{_FACTS}test_limit_13_gradients_do_not_depend_on_the_tiles"
    ),
    "7.16 no clipping": f"{_FACTS}test_limit_16_autodiff_clips_nothing",
    "7.17 no state": f"{_FACTS}test_limit_17_nothing_is_kept_from_an_earlier_scene",
    "7.18 second and forward derivatives": (
        f"{_FACTS}test_limit_18_second_and_forward_derivatives_are_refused_and_scenes_are_batched "
        f"{_DRAWN}test_forward_mode_and_second_derivatives_are_refused"
    ),
    "7.19 stages that differ": (
        f"{_FACTS}test_limit_19_one_preparation_serves_any_number_of_pictures "
        f"{_FACTS}test_limit_19_stages_that_differ_are_refused"
    ),
    "7.20 shapes of gradients": (
        f"{_FACTS}test_limit_20_gradients_have_the_shapes_of_what_they_belong_to"
    ),
    "7.21 bodies": f"{_FACTS}test_limit_21_a_body_is_the_same_picture_wherever_it_stands",
}

FACTS: Mapping[str, str] = {
    "8 the parity scene": (
        f"{_FACTS}test_the_parity_scene_is_drawn_as_specified "
        f"{_FACTS}test_a_small_tile_lists_more_entries_for_the_same_image "
        f"{_FACTS}test_gradients_of_the_parity_scene_are_as_specified "
        f"{_FACTS}test_gradients_without_the_alpha_channel_are_as_specified"
    ),
    "8 one and two splats": (
        f"{_FACTS}test_one_splat_in_one_pixel {_FACTS}test_the_nearer_of_two_splats_is_in_front"
    ),
    "8 anisotropic": (
        f"{_FACTS}test_a_tilted_splat_is_drawn_as_specified "
        f"{_FACTS}test_gradients_of_a_tilted_splat_are_as_specified "
        f"{_FACTS}test_harmonics_are_drawn_and_differentiated_as_specified"
    ),
    "8 thin and large": (
        f"{_FACTS}test_a_splat_thinner_than_a_quarter_of_a_pixel_is_not_drawn "
        f"{_FACTS}test_limit_03_a_long_splat_is_drawn_whole"
    ),
    "8 lengths": f"{_FACTS}test_lengths_are_as_specified",
    "8 behaviours": (
        f"{_FACTS}test_preparing_loses_nothing "
        f"{_FACTS}test_two_stages_are_one_before_differentiation "
        f"{_FACTS}test_dispatch_is_as_specified"
    ),
}

"""Gaussian splatting: one scene, or one camera, after the other."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import unrolled

unrolled(
    ops.gaussian_splat_render,
    ops.gaussian_splat_prepare,
    ops.gaussian_splat_rasterize,
    ops.gaussian_splat_render_backward,
    ops.splat_project,
    ops.splat_tile_counts,
    ops.splat_visits,
    ops.splat_entry_counts,
    ops.splat_entries,
    ops.splat_coefficients,
    ops.splat_composite,
    ops.splat_composite_backward,
    ops.splat_sum_moments,
    ops.splat_project_backward,
    because="an image is far more work than an op costs, and its lists differ from all others",
)

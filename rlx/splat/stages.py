"""The stages of Gaussian splatting: what its ops are made of, and what has kernels.

    splat_project        every splat: colour, local frame, distance, outline on the screen
    splat_tile_counts    how many tiles each outline touches
    splat_visits         the number of each entry of a list, as splats are visited near to far
    splat_entry_counts   of every block of splats: how many entries are in which tile
    splat_entries        of every block of splats: its entries to the lists of their tiles
    splat_coefficients   every splat: what its alpha at a pixel is computed from
    splat_composite      every tile: the image
    splat_composite_backward, splat_sum_moments, splat_project_backward      the gradient

Only the ops in `splat` make them, after a graph was differentiated and batched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.custom import DType, TensorType, define_op, require_dtype
from rlx.custom.kernels import Prim
from rlx.splat import reference, reference_pixels
from rlx.splat.gradient import PROJECT_BACKWARD
from rlx.splat.kernels import backward, lists, pixels
from rlx.splat.layout import COEFFICIENTS, MOMENTS, OUTLINE, VERSION, Screen
from rlx.splat.projection import COEFFICIENTS_OF, PROJECT


def _stage(
    reference: Callable[..., Any], kernel: Callable[..., None], **scratch: Any
) -> Callable[[Callable[..., Any]], Any]:
    def declare(infer: Callable[..., Any]) -> Any:
        return define_op(
            infer, reference=reference, kernel=kernel, version=VERSION, **scratch,
            no_derivative="it is a stage of gaussian_splat_render, which is differentiated as one",
        )  # fmt: skip

    return declare


def _require(takes: str, **operands: TensorType) -> None:
    for name, type in operands.items():
        require_dtype(type, takes, name)


def _rows(like: TensorType, *shape: int, dtype: DType = DType.F32) -> TensorType:
    """Return a type with one row for each row of `like`."""
    return TensorType(dtype, (like.shape[0], *shape))


@_stage(PROJECT.reference, PROJECT.kernel)
def splat_project(
    positions: TensorType,
    scales: TensorType,
    rotations: TensorType,
    opacities: TensorType,
    colors: TensorType,
    sh_coeffs: TensorType,
    uses_colors: TensorType,
    meta: TensorType,
    *,
    width: int,
    height: int,
    radius_scale: float,
    alpha_cutoff: float,
) -> tuple[TensorType, TensorType, TensorType, TensorType, TensorType, TensorType]:
    """See every splat `[n, ...]` from the camera of `meta`.

    Returns colour and raw opacity `[n, 4]`, whether it is valid `[n]`, the camera in its local
    frame `[n, 3]`, the reciprocals of its scales `[n, 3]`, its outline on the screen (f64 `[n, 8]`:
    centre, conic, half extents, and 0 for nothing, 1 for an ellipse or 2 for every tile), and
    the distance `[n]`, the largest number for what is not drawn.
    """
    _require("bool", uses_colors=uses_colors)
    _require("f32", positions=positions, scales=scales, rotations=rotations, meta=meta)
    _require("f32", opacities=opacities, colors=colors, sh_coeffs=sh_coeffs)
    del width, height, radius_scale, alpha_cutoff
    wide, one = _rows(positions, 3), _rows(positions)
    outlines = _rows(positions, OUTLINE, dtype=DType.F64)
    return _rows(positions, 4), one, wide, wide, outlines, one


@_stage(reference.splat_tile_counts, lists.splat_tile_counts)
def splat_tile_counts(
    outlines: TensorType, *, width: int, height: int, tile_size: int
) -> TensorType:
    """Count the tiles that each outline touches."""
    _require("f64", outlines=outlines)
    del width, height, tile_size
    return _rows(outlines, dtype=DType.I32)


@_stage(reference.splat_visits, lists.splat_visits)
def splat_visits(
    order: TensorType, counts: TensorType, *, max_list_entries: int
) -> tuple[TensorType, TensorType]:
    """Number the entries of all lists as they come when splats are visited in `order`.

    Returns where those of each splat begin and end `[n, 2]` (i64), and how many there is room for
    and how many there is none for `[2]` (i64).
    """
    _require("i64", order=order)
    _require("i32", counts=counts)
    del max_list_entries
    return _rows(counts, 2, dtype=DType.I64), TensorType(DType.I64, (2,))


@_stage(reference.splat_entry_counts, lists.splat_entry_counts)
def splat_entry_counts(
    order: TensorType,
    visits: TensorType,
    outlines: TensorType,
    *,
    width: int,
    height: int,
    tile_size: int,
    max_list_entries: int,
    blocks: int,
) -> TensorType:
    """Count the entries of each block of splats, in their order, by tile: `[blocks, tiles]`."""
    _require("i64", order=order, visits=visits)
    _require("f64", outlines=outlines)
    del max_list_entries
    return TensorType(DType.I32, (blocks, Screen(width, height, tile_size).tiles))


@_stage(
    reference.splat_entries,
    lists.splat_entries,
    scratch=lists.entries_scratch,
    scratch_prim=Prim.I32,
)
def splat_entries(
    order: TensorType,
    visits: TensorType,
    outlines: TensorType,
    starts: TensorType,
    totals: TensorType,
    *,
    width: int,
    height: int,
    tile_size: int,
    max_list_entries: int,
) -> tuple[TensorType, TensorType]:
    """Write down the splats of all lists, each block of splats from its `starts` on.

    Returns the splat of each entry `[entries]`, and the number of its visit `[entries]`.
    """
    _require("i64", order=order, visits=visits, totals=totals)
    _require("f64", outlines=outlines)
    _require("i32", starts=starts)
    del width, height, tile_size
    entries = TensorType(DType.I32, (max_list_entries,))
    return entries, entries


@_stage(COEFFICIENTS_OF.reference, COEFFICIENTS_OF.kernel)
def splat_coefficients(
    color_alpha: TensorType,
    valid: TensorType,
    pos_local: TensorType,
    inv_scale: TensorType,
    rotations: TensorType,
    meta: TensorType,
    *,
    width: int,
    height: int,
    alpha_cutoff: float,
) -> TensorType:
    """Return for each splat what its alpha at a pixel is computed from, `[n, 32]`.

    With x and y counted from a reference point of the screen, `alpha = o exp(-a / b)`, where
    `a = (l00 x + l10 y + z0)^2 + (l11 y + z1)^2 + zz` is the squared distance of ray and centre,
    in halves of squared sigmas, and `b = 1 + e1 x + e2 y + e00 x^2 + e01 x y + e11 y^2`.
    """
    _require("f32", color_alpha=color_alpha, valid=valid, pos_local=pos_local)
    _require("f32", inv_scale=inv_scale, rotations=rotations, meta=meta)
    del width, height, alpha_cutoff
    return _rows(color_alpha, COEFFICIENTS)


@_stage(reference_pixels.splat_composite, pixels.splat_composite)
def splat_composite(
    coefficients: TensorType,
    entries: TensorType,
    ranges: TensorType,
    meta: TensorType,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
) -> TensorType:
    """Blend the splats of each tile's list, near to far, into an image `[height * width * 4]`."""
    _require("f32", coefficients=coefficients, meta=meta)
    _require("i32", entries=entries, ranges=ranges)
    del tile_size, alpha_cutoff, max_splat_steps, transmittance_threshold
    return meta.with_shape((height * width * 4,))


@_stage(
    reference_pixels.splat_composite_backward,
    backward.splat_composite_backward,
    scratch=backward.backward_scratch,
)
def splat_composite_backward(
    coefficients: TensorType,
    entries: TensorType,
    places: TensorType,
    ranges: TensorType,
    meta: TensorType,
    d_image: TensorType,
    *,
    width: int,
    height: int,
    tile_size: int,
    alpha_cutoff: float,
    max_splat_steps: int,
    transmittance_threshold: float,
    loss_grad_clip: float,
) -> TensorType:
    """Return for each list entry, by its place, 16 sums over the pixels of its tile.

    The cotangents of colour, `k = d_alpha * alpha`, and the moments 1, x, y, x^2, x y, y^2 of
    `k / b` and of `k a / b^2` in the terms of `splat_coefficients`.
    """
    _require("f32", coefficients=coefficients, meta=meta, d_image=d_image)
    _require("i32", entries=entries, places=places, ranges=ranges)
    del width, height, tile_size, loss_grad_clip
    del alpha_cutoff, max_splat_steps, transmittance_threshold
    return meta.with_shape((entries.shape[0], MOMENTS))


@_stage(reference_pixels.splat_sum_moments, backward.splat_sum_moments)
def splat_sum_moments(moments: TensorType, visits: TensorType, totals: TensorType) -> TensorType:
    """Add the sums of the entries of each splat, in the order of its tiles, in f64."""
    _require("f32", moments=moments)
    _require("i64", visits=visits, totals=totals)
    return TensorType(DType.F64, (visits.shape[0], moments.shape[1]))


@_stage(PROJECT_BACKWARD.reference, PROJECT_BACKWARD.kernel)
def splat_project_backward(
    moments: TensorType,
    coefficients: TensorType,
    positions: TensorType,
    scales: TensorType,
    rotations: TensorType,
    opacities: TensorType,
    colors: TensorType,
    sh_coeffs: TensorType,
    uses_colors: TensorType,
    meta: TensorType,
    *,
    width: int,
    height: int,
    radius_scale: float,
) -> tuple[TensorType, TensorType, TensorType, TensorType, TensorType, TensorType]:
    """Turn each splat's sums into cotangents of what it is given by."""
    _require("f64", moments=moments)
    _require("bool", uses_colors=uses_colors)
    _require("f32", coefficients=coefficients, positions=positions, scales=scales, meta=meta)
    _require("f32", rotations=rotations, opacities=opacities, colors=colors, sh_coeffs=sh_coeffs)
    del width, height, radius_scale
    return positions, scales, rotations, opacities, colors, sh_coeffs

"""Uses of Gaussian splatting: small scenes, whole and stage by stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir.dtype import DType, as_dtype
from rlx.ir.op import OpDef
from rlx.splat import ops as splat_ops
from rlx.splat import reference, reference_pixels
from tests.record_data import Array, exactly
from tests.records import Operand, OpRecord, over_all_dtypes
from tests.splat_scenes import Scene, mixed_scene, one_splat, random_scene

stages: Any = reference
pixels: Any = reference_pixels


_SIZE: dict[str, Any] = {"width": 11, "height": 9}
_TILES: dict[str, Any] = {**_SIZE, "tile_size": 4}
_BLENDING: dict[str, Any] = {
    **_TILES, "alpha_cutoff": 1 / 255, "max_splat_steps": 3, "transmittance_threshold": 0.05,
}  # fmt: skip
_GROWTH = 64.0  # gradients cancel, and splats are many sigmas away from the camera


def _record(op: OpDef, name: str, *arrays: Array, **attributes: Any) -> OpRecord:
    operands = [
        Operand(a.shape, exactly(a), None if a.dtype == np.float32 else as_dtype(a.dtype))
        for a in arrays
    ]
    return over_all_dtypes(op, name, *operands, growth=_GROWTH, **attributes)


def _whole(name: str, scene: Scene, **settings: Any) -> list[OpRecord]:
    upstream = np.random.default_rng(0).standard_normal(4 * 11 * 9).astype(np.float32)
    given = {**_BLENDING, **settings}
    return [
        _record(splat_ops.gaussian_splat_render, name, *scene.arrays, **given),
        _record(splat_ops.gaussian_splat_prepare, name, *scene.arrays, **given),
        _record(
            splat_ops.gaussian_splat_render_backward, name, *scene.arrays, upstream, **given,
            loss_grad_clip=float("inf"),
        ),
    ]  # fmt: skip


def _stages(name: str, scene: Scene, room: int) -> list[OpRecord]:
    """Return a record of every stage, each on what the ones before it give."""
    given, meta = scene.arrays, scene.meta
    uses_colors, clip = np.array([False]), {"loss_grad_clip": 0.5}
    view = {**_SIZE, "radius_scale": 1.6}
    cutoff = {"alpha_cutoff": 1 / 255}
    with np.errstate(all="ignore"):
        projected = stages.splat_project(*given[:6], uses_colors, meta, **view, **cutoff)
        *frame, outlines, distances = projected
        order = np.argsort(distances, kind="stable")
        counts = stages.splat_tile_counts(outlines, **_TILES)
        visits, totals = stages.splat_visits(order, counts, max_list_entries=room)
        tiles = {**_TILES, "max_list_entries": room}
        each = stages.splat_entry_counts(order, visits, outlines, **tiles, blocks=3)
        following = np.cumsum(each.T).reshape(each.T.shape)  # the first of each tile and block
        starts = (following - each.T).T.astype(np.int32)
        bounds = np.append(starts[0], totals[0])
        ranges = np.stack([bounds[:-1], bounds[1:]], -1).astype(np.int32)
        entries, places = stages.splat_entries(order, visits, outlines, starts, totals, **tiles)
        coefficients = stages.splat_coefficients(*frame, given[2], meta, **_SIZE, **cutoff)
        upstream = np.random.default_rng(0).standard_normal(4 * 11 * 9).astype(np.float32)
        walked = (coefficients, entries, places, ranges, meta, upstream)
        moments = pixels.splat_composite_backward(*walked, **_BLENDING, **clip)
        sums = pixels.splat_sum_moments(moments, visits, totals)
    drawn = (coefficients, entries, ranges, meta)
    return [
        _record(splat_ops.splat_project, name, *given[:6], uses_colors, meta, **view, **cutoff),
        _record(splat_ops.splat_tile_counts, name, outlines, **_TILES),
        _record(splat_ops.splat_visits, name, order, counts, max_list_entries=room),
        _record(splat_ops.splat_entry_counts, name, order, visits, outlines, **tiles, blocks=3),
        _record(splat_ops.splat_entries, name, order, visits, outlines, starts, totals, **tiles),
        _record(splat_ops.splat_coefficients, name, *frame, given[2], meta, **_SIZE, **cutoff),
        _record(splat_ops.splat_composite, name, *drawn, **_BLENDING),
        _record(splat_ops.splat_composite_backward, name, *walked, **_BLENDING, **clip),
        _record(splat_ops.splat_sum_moments, name, moments, visits, totals),
        _record(
            splat_ops.splat_project_backward, name, sums, coefficients, *given[:6], uses_colors,
            meta,
            **view,
        ),
    ]  # fmt: skip


def _rasterized(name: str, scene: Scene) -> OpRecord:
    """Return the second half of a rendering, on what the first half gives."""
    whole = _record(splat_ops.gaussian_splat_prepare, name, *scene.arrays, **_BLENDING)
    from rlx.ir.reference import evaluate

    (prep,) = evaluate(whole.graph(DType.F32), whole.inputs(DType.F32))
    room = min(9 * len(scene.positions), 576)
    return _record(
        splat_ops.gaussian_splat_rasterize,
        name,
        prep,
        scene.meta,
        **_BLENDING,
        max_list_entries=room,
    )


RECORDS: list[OpRecord] = [
    *_whole("ordinary", random_scene(1, 5, size=0.3)),
    *_whole("colors", one_splat(), max_splat_steps=0, transmittance_threshold=0.0),
    *_whole("little-room", random_scene(2, 6, size=0.5), max_list_entries=7),
    _rasterized("ordinary", random_scene(1, 5, size=0.3)),
    *_stages("mixed", mixed_scene(), 200),
    *(
        r
        for r in _stages("little-room", random_scene(2, 6, size=0.5), 7)
        if r.op in (splat_ops.splat_visits, splat_ops.splat_entry_counts, splat_ops.splat_entries)
    ),
]

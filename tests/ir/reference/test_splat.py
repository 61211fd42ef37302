"""The gradient of Gaussian splatting in f64, stage by stage, compared with finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.splat import reference, reference_pixels
from tests.splat_oracle import render
from tests.splat_scenes import NAMES, Array, Scene, random_scene

splat: Any = reference
splat_pixels: Any = reference_pixels


SIZE: dict[str, Any] = {"width": 9, "height": 7}
TILES: dict[str, Any] = {**SIZE, "tile_size": 4}
CUTOFF = {"alpha_cutoff": 1e-9}
SMOOTH: dict[str, Any] = {
    **TILES, **CUTOFF, "max_splat_steps": 0, "transmittance_threshold": 0.0,
}  # fmt: skip


def listed(order: Array, counts: Array, outlines: Array, **tiles: int) -> tuple[Array, ...]:
    """Return the lists of all tiles, from one block of splats."""
    visits, totals = splat.splat_visits(order, counts, max_list_entries=100)
    tiles["max_list_entries"] = 100
    each = splat.splat_entry_counts(order, visits, outlines, **tiles, blocks=1)
    bounds = np.concatenate([[0], np.cumsum(each)])
    entries, places = splat.splat_entries(
        order, visits, outlines, bounds[None, :-1], totals, **tiles
    )  # fmt: skip
    return entries, places, np.stack([bounds[:-1], bounds[1:]], -1), visits, totals


def image_and_gradients(scene: Scene, upstream: Array) -> tuple[Array, tuple[Array, ...]]:
    """Run the stages one after the other, on f64."""
    *given, meta = (np.float64(getattr(scene, name)) for name in NAMES)
    view = {**SIZE, "radius_scale": 1.6}
    flags = np.array([False])
    *frame, outlines, distances = splat.splat_project(*given, flags, meta, **view, **CUTOFF)
    counts = splat.splat_tile_counts(outlines, **TILES)
    order = np.argsort(distances, kind="stable")
    entries, places, ranges, visits, totals = listed(order, counts, outlines, **TILES)
    numbers = splat.splat_coefficients(*frame, given[2], meta, **SIZE, **CUTOFF)
    image = splat_pixels.splat_composite(numbers, entries, ranges, meta, **SMOOTH)
    moments = splat_pixels.splat_composite_backward(
        numbers, entries, places, ranges, meta, upstream, **SMOOTH, loss_grad_clip=np.inf
    )
    sums = splat_pixels.splat_sum_moments(moments, visits, totals)
    return image, splat_pixels.splat_project_backward(sums, numbers, *given, flags, meta, **view)


@pytest.mark.slow
@pytest.mark.parametrize("coefficients", [1, 4])
def test_gradients_are_exact_in_f64(coefficients: int) -> None:
    scene = random_scene(7, 3, coefficients, size=0.4)
    upstream = np.random.default_rng(3).standard_normal(4 * 9 * 7)
    with np.errstate(all="ignore"):
        image, gradients = image_and_gradients(scene, upstream)
    plain = render(scene, 9, 7, alpha_cutoff=1e-9, everything=True)
    np.testing.assert_allclose(image, plain.reshape(-1), atol=1e-7)  # the cutoff is a jump
    for name, found in zip(NAMES, gradients, strict=False):
        value, step = np.float64(getattr(scene, name)), 1e-5
        for i in range(0, value.size, 2):
            losses = []
            for moved_by in (step, -step):
                moved = value.copy()
                moved.flat[i] += moved_by
                changed = render(
                    scene.with_(**{name: moved}), 9, 7, alpha_cutoff=1e-9, everything=True
                )
                losses.append(float(np.sum(changed.reshape(-1) * upstream)))
            expected = (losses[0] - losses[1]) / (2 * step)
            assert abs(found.flat[i] - expected) < 2e-7 * max(1.0, abs(expected))

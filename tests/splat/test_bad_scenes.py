"""Scenes that no photograph gives: a defined picture each, or a typed error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph
from rlx.splat import ops as splat_ops
from tests.splat_oracle import render
from tests.splat_runs import drawn, gradient, inputs, prepared
from tests.splat_scenes import Array, Scene, camera, random_scene

SIZE: dict[str, Any] = {"width": 12, "height": 10, "tile_size": 4, "max_splat_steps": 0}


def scene() -> Scene:
    return random_scene(5, 6, 1, size=0.25)


def native(given: Scene, **settings: Any) -> Array:
    graph = Graph("render")
    graph.set_outputs([splat_ops.gaussian_splat_render(*inputs(graph, given), **settings)])
    (image,) = rlx.compile(graph).run(given.feeds)
    return image.reshape(settings["height"], settings["width"], 4)


def without(given: Scene, splat: int) -> Scene:
    """Return the scene with one splat that is not there."""
    opacities = given.opacities.copy()
    opacities[splat] = 0.0
    return given.with_(opacities=opacities)


@pytest.mark.parametrize("name", ["positions", "scales", "rotations", "opacities"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_splat_with_a_number_that_is_not_finite_is_not_drawn(name: str, value: float) -> None:
    spoiled = np.array(getattr(scene(), name))
    spoiled.reshape(6, -1)[2, 0] = value
    bad = scene().with_(**{name: spoiled})
    expected = native(without(scene(), 2), **SIZE)
    for image in (native(bad, **SIZE), drawn(bad, **SIZE)):
        assert np.isfinite(image).all()
        np.testing.assert_allclose(image, expected, atol=2e-6)
    parts = gradient(bad, np.ones(480), **SIZE)
    assert all(np.isfinite(part).all() for part in parts.values())
    assert not parts["positions"][6:9].any()


def test_scales_of_zero_are_too_thin_and_one_of_them_alone_is_a_disk() -> None:
    scales = scene().scales.copy()
    scales[2] = -200.0  # its exponential is 0 in f32
    thin = scene().with_(scales=scales)
    np.testing.assert_allclose(native(thin, **SIZE), native(without(scene(), 2), **SIZE), atol=2e-6)
    flat = scene().scales.copy()
    flat[2, 2] = -200.0
    disk = scene().with_(scales=flat)
    image = native(disk, **SIZE)
    assert np.isfinite(image).all()
    assert np.abs(image - native(without(scene(), 2), **SIZE)).max() > 0.01
    np.testing.assert_allclose(image, drawn(disk, **SIZE), atol=2e-4)
    assert all(np.isfinite(p).all() for p in gradient(disk, np.ones(480), **SIZE).values())


@pytest.mark.parametrize("norm", [0.5, 0.9, 1.3, 2.0])
def test_quaternions_of_any_length_are_used_as_they_are(norm: float) -> None:
    turned = scene().with_(rotations=norm * scene().rotations)
    rounded = Scene(*[array.astype(np.float64) for array in turned.arrays])
    expected = render(rounded, 12, 10, transmittance_threshold=0.01)
    error = np.abs(native(turned, **SIZE) - expected).max(-1)
    assert np.sum(error > 2e-4) <= 1  # where alpha is the cutoff
    assert error.max() < 0.03


def test_a_quaternion_of_zeros_draws_a_defined_picture() -> None:
    rotations = scene().rotations.copy()
    rotations[2] = 0.0  # the formula gives the identity
    upright = rotations.copy()
    upright[2] = (1.0, 0.0, 0.0, 0.0)
    zero, one = (native(scene().with_(rotations=q), **SIZE) for q in (rotations, upright))
    np.testing.assert_allclose(zero, one, atol=2e-6)


def test_lists_that_overflow_lose_the_farthest_and_say_how_many() -> None:
    whole = prepared(scene(), **SIZE)
    entries = int(whole[15 * 6 + 54 :][: 2 * 9].reshape(-1, 2)[:, 1].max())
    assert whole[-1] == 0.0
    for room in (1, entries // 2, entries):
        assert prepared(scene(), **SIZE, max_list_entries=room)[-1] == entries - room
    half = {**SIZE, "max_list_entries": entries // 2}
    np.testing.assert_allclose(native(scene(), **half), drawn(scene(), **half), atol=2e-5)
    nearest = np.argsort(np.linalg.norm(scene().positions - scene().meta[:3], axis=1))
    buffer = prepared(scene(), **SIZE, max_list_entries=1)
    assert buffer[15 * 6] == nearest[0]


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ({"target": (0, 0, 4)}, False),  # it looks along z, away from the scene
        ({"up": (0, 0, 1)}, True),
        ({"up": (0, 0, 0)}, True),
    ],
    ids=["no-target", "up-ahead", "no-up"],
)
def test_a_camera_without_direction_draws_numbers(view: dict[str, Any], shown: bool) -> None:
    """What has no direction is (0, 0, 1); `up` may not be parallel to the line of sight."""
    given = scene().with_(meta=camera(**view))
    for image in (native(given, **SIZE), drawn(given, **SIZE)):
        assert np.isfinite(image).all()
        assert image[..., 3].any() == shown

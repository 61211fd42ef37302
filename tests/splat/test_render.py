"""`rlx.splat.render`: traced, differentiated and batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, NoRuleError
from rlx.splat import Scene, camera, linear_to_display, render
from tests.splat_scenes import Array, random_scene

SIZE: dict[str, Any] = {"width": 12, "height": 10, "tile_size": 8}


def scene(seed: int = 1) -> Scene:
    *arrays, _ = random_scene(seed, 6, size=0.3).arrays
    return Scene(*arrays)


def views(count: int) -> Array:
    return np.stack([camera((0.3 * i, 0.5, 4.0), (0, 0, 0), background=(0.2, 0.3, 0.4))
                     for i in range(count)])  # fmt: skip


def image(given: Any, view: Any) -> Any:
    return render(given, view, **SIZE)


def loss(given: Any, view: Any) -> Any:
    return rnp.sum(image(given, view) ** 2)


def test_a_splat_above_the_middle_is_drawn_in_the_upper_half() -> None:
    above = Scene(
        np.array([[0.0, 1.0, 0.0]], np.float32), np.full((1, 3), np.log(0.2), np.float32),
        np.array([[1.0, 0, 0, 0]], np.float32), np.array([0.9], np.float32),
        np.array([[1.0, 0, 0]], np.float32), np.zeros((1, 1, 3), np.float32),
    )  # fmt: skip
    alpha = np.asarray(image(above, camera((0, 0, 4), (0, 0, 0))))[..., 3]
    assert alpha[:5].sum() > 10 * alpha[5:].sum()
    right = np.asarray(image(above, camera((0, 0, 4), (-1, 1, 0))))[..., 3]
    assert right[:, 6:].sum() > 10 * right[:, :6].sum()


@pytest.mark.slow
def test_views_of_one_scene_are_drawn_by_vmap() -> None:
    given, cameras = scene(), views(3)
    together = rlx.jit(rlx.vmap(image, in_axes=(None, 0)))(given, cameras)
    alone = rlx.jit(image)
    for found, view in zip(together, cameras, strict=True):
        np.testing.assert_array_equal(found, alone(given, view))


@pytest.mark.slow
def test_scenes_and_their_gradients_are_batched() -> None:
    scenes = [scene(1), scene(2)]
    stacked = Scene(*(np.stack([getattr(s, n) for s in scenes])
                      for n in Scene.__dataclass_fields__))  # fmt: skip
    gradients = rlx.jit(rlx.vmap(rlx.grad(loss), in_axes=(0, None)))(stacked, views(1)[0])
    alone = rlx.jit(rlx.grad(loss))
    for i, each in enumerate(scenes):
        expected = alone(each, views(1)[0])
        for name in Scene.__dataclass_fields__:
            np.testing.assert_allclose(
                getattr(gradients, name)[i], getattr(expected, name), rtol=1e-5, atol=1e-6
            )


def test_the_camera_has_no_gradient() -> None:
    assert not np.asarray(rlx.grad(loss, argnums=1)(scene(), views(1)[0])).any()


def test_forward_mode_and_second_derivatives_are_refused() -> None:
    given, view = scene(), views(1)[0]
    with pytest.raises(NoRuleError, match="no forward-mode derivative"):
        rlx.jvp(lambda p: image(given, p), (view,), (view,))
    with pytest.raises(NoRuleError, match="no second derivative"):
        rlx.grad(lambda v: rnp.sum(rlx.grad(loss)(given.__class__(
            *[getattr(given, n) * v for n in Scene.__dataclass_fields__]), view).positions)
        )(1.0)  # fmt: skip


def test_light_is_linear() -> None:
    np.testing.assert_allclose(linear_to_display(np.float32(0.5) ** 2.2), 0.5, rtol=1e-6)


def test_a_camera_is_made_of_vectors() -> None:
    with pytest.raises(InputError, match=r"position has shape \[2\]"):
        camera((0, 0), (0, 0, 0))

"""Images of scenes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir import ops
from rlx.splat.scene import Scene
from rlx.tracing.apply import emit, function, inexact

DISPLAY_GAMMA = 2.2


def camera(
    position: ArrayLike,
    target: ArrayLike,
    up: ArrayLike = (0.0, 1.0, 0.0),
    *,
    fov: float = 60.0,
    background: ArrayLike = (0.0, 0.0, 0.0),
) -> NDArray[np.float32]:
    """Return a pinhole camera as an array: it may be traced, and batched with others.

    `fov` is the vertical field of view in degrees. The first row of an image is at its top.
    """
    parts = {"position": position, "target": target, "up": up, "background": background}
    given = {name: np.asarray(part, np.float32) for name, part in parts.items()}
    for name, part in given.items():
        if part.shape != (3,):
            raise InputError(
                f"{name} has shape {list(part.shape)}; it must be [3]", remedy="pass three numbers"
            )
    lens = np.array([fov, 0.01, 1000.0], np.float32)
    view = [given["position"], given["target"], -given["up"], lens, given["background"]]
    return np.concatenate([*view, np.zeros(8, np.float32)])


@function
def render(
    scene: Scene,
    view: Any,
    *,
    width: int,
    height: int,
    tile_size: int = 16,
    radius_scale: float = 1.0,
    alpha_cutoff: float = 1 / 255,
    max_splat_steps: int = 0,
    transmittance_threshold: float = 1e-3,
    max_list_entries: int | None = None,
) -> Any:
    """Draw `scene` as `view`, a `camera`, sees it: `[height, width, 4]`, light and alpha.

    Light is linear: displays want `linear_to_display` of it.
    """
    arrays = inexact(
        scene.positions, scene.scales, scene.rotations, scene.opacities, scene.colors,
        scene.harmonics, view,
    )  # fmt: skip
    image = emit(
        ops.gaussian_splat_render, *arrays, width=width, height=height, tile_size=tile_size,
        radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, max_splat_steps=max_splat_steps,
        transmittance_threshold=transmittance_threshold, max_list_entries=max_list_entries,
    )  # fmt: skip
    return rnp.reshape(image, (height, width, 4))


def linear_to_display(light: Any) -> Any:
    """Return light as displays take it, between 0 and 1."""
    return rnp.clip(light, 0.0, 1.0) ** (1.0 / DISPLAY_GAMMA)

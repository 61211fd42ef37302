"""Scenes for the tests of Gaussian splatting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NAMES = ("positions", "scales", "rotations", "opacities", "colors", "sh_coeffs", "meta")


@dataclass(frozen=True)
class Scene:
    """Six arrays of splats and a camera."""

    positions: Array
    scales: Array
    rotations: Array
    opacities: Array
    colors: Array
    sh_coeffs: Array
    meta: Array

    @property
    def arrays(self) -> list[Array]:
        """The operands of the ops, in their order, as f32."""
        return [np.asarray(getattr(self, name), np.float32) for name in NAMES]

    @property
    def feeds(self) -> dict[str, Array]:
        return dict(zip(NAMES, self.arrays, strict=True))

    def with_(self, **changed: Any) -> Scene:
        return replace(self, **changed)


def camera(
    position: Any = (0, 0, 4), target: Any = (0, 0, 0), up: Any = (0, 1, 0), fov: float = 60.0,
    background: Any = (0.1, 0.15, 0.2),
) -> Array:  # fmt: skip
    return np.array([*position, *target, *up, fov, 0.1, 20, *background, *[0.0] * 8], np.float32)


def parity_scene() -> Scene:
    """The scene of 18 splats with a known image."""
    i = np.arange(18)
    t = i / 17
    return Scene(
        positions=np.stack([-1 + 2 * t, 0.8 * np.sin(0.17 * i), -1 + 2 * t], -1),
        scales=np.full((18, 3), np.log(0.04)),
        rotations=np.tile([1.0, 0, 0, 0], (18, 1)),
        opacities=0.25 + 0.5 * t,
        colors=np.stack([0.2 + 0.7 * t, 0.15 + 0.6 * (1 - t), 0.1 + 0.5 * t], -1),
        sh_coeffs=np.zeros((18, 1, 3)),
        meta=camera(),
    )


def one_splat(**changed: Any) -> Scene:
    scene = Scene(
        positions=np.zeros((1, 3)),
        scales=np.full((1, 3), np.log(0.3)),
        rotations=np.array([[1.0, 0, 0, 0]]),
        opacities=np.array([0.8]),
        colors=np.array([[0.9, 0.2, 0.1]]),
        sh_coeffs=np.zeros(0),
        meta=camera(),
    )
    return scene.with_(**changed)


def tilted_splat(**changed: Any) -> Scene:
    """One splat with three scales and a general rotation."""
    return one_splat(
        positions=np.array([[0.2, 0.1, 0.0]]),
        scales=np.log([[0.3, 0.2, 0.5]]),
        rotations=np.array([[0.8, 0.2, -0.4, 0.4]]),
        opacities=np.array([0.6]),
        **changed,
    )


def random_scene(seed: int, splats: int, coefficients: int = 4, size: float = 0.2) -> Scene:
    """Splats in front of the camera, with quaternions that are not quite of length 1."""
    rng = np.random.default_rng(seed)
    rotations = rng.standard_normal((splats, 4))
    rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
    return Scene(
        positions=rng.uniform(-1, 1, (splats, 3)),
        scales=np.log(size) + rng.uniform(-0.7, 0.7, (splats, 3)),
        rotations=rotations * rng.uniform(0.9, 1.1, (splats, 1)),
        opacities=rng.uniform(0.2, 0.9, splats),
        colors=rng.uniform(0.1, 0.9, (splats, 3)),
        sh_coeffs=rng.uniform(-0.5, 0.5, (splats, coefficients, 3)),
        meta=camera(),
    )


def mixed_scene() -> Scene:
    """Splats of negative depth, around the camera, off screen; faint, thin, huge, broken ones."""
    scene = random_scene(3, 12)
    positions, scales = scene.positions.copy(), scene.scales.copy()
    opacities, rotations = scene.opacities.copy(), scene.rotations.copy()
    positions[1] = (0.0, 0.0, 6.0)  # behind the camera
    positions[2], scales[2], opacities[2] = (0.1, 0.0, 3.8), np.log(0.5), 0.1  # around it
    positions[3] = (40.0, 0.0, 0.0)  # off the screen
    opacities[4] = 0.001
    scales[5] = (np.log(0.5), np.log(0.01), np.log(0.01))
    scales[6] = np.log(30.0)
    scales[7, 1] = np.nan
    rotations[8] = np.inf
    positions[9] = positions[0]  # a tie
    opacities[10] = 1.5
    return scene.with_(positions=positions, scales=scales, opacities=opacities, rotations=rotations)

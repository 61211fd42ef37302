"""A scene: what each splat is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlx.tracing.pytree import register_dataclass


@dataclass(frozen=True)
class Scene:
    """N splats; arrays of f32, or what a transformation puts in their place."""

    positions: Any
    """`[N, 3]`."""
    scales: Any
    """Natural logarithms of the standard deviations along the splat's own axes, `[N, 3]`."""
    rotations: Any
    """Quaternions (w, x, y, z) from the splat's axes to the world, used as they are, `[N, 4]`."""
    opacities: Any
    """Between 0 and 1, `[N]`."""
    colors: Any
    """Red, green and blue, for scenes without harmonics, `[N, 3]`."""
    harmonics: Any
    """Coefficients of spherical harmonics, `[N, K, 3]`; only the first four count."""

    def __len__(self) -> int:
        return int(self.positions.shape[0])


register_dataclass(Scene)

"""A scene: what each splat is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlx.errors import InputError, ShapeError
from rlx.tracing.pytree import register_dataclass

_OWN_AXES: dict[str, tuple[int | None, ...]] = {
    "positions": (3,), "scales": (3,), "rotations": (4,), "opacities": (), "colors": (3,),
    "harmonics": (None, 3),
}  # fmt: skip
"""The axes of each array after that of splats; None is an extent of its own."""


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


def parts_of(scene: Any) -> dict[str, Any]:
    """Return the arrays of a scene by name; InputError for anything else."""
    if not isinstance(scene, Scene):
        raise InputError(
            f"the scene is a {type(scene).__name__}",
            remedy="pass a Scene; read_ply makes one of a file",
        )
    return {name: getattr(scene, name) for name in _OWN_AXES}


def require_shapes(shapes: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ShapeError unless all arrays of a scene have their axes, and one number of splats."""
    splats = shapes["positions"][0] if shapes["positions"] else 0
    for name, own in _OWN_AXES.items():
        found = shapes[name]
        wanted = (splats, *own)
        alike = zip(found, wanted, strict=False)
        if len(found) != len(wanted) or not all(extent in (f, None) for f, extent in alike):
            shown = ", ".join("K" if extent is None else str(extent) for extent in own)
            raise ShapeError(
                f"{name} has shape {list(found)}; it must be [{splats}{', ' * bool(own)}{shown}] "
                f"for the {splats} rows of positions",
                remedy="give every array a row for each splat, in the order of `Scene`",
            )

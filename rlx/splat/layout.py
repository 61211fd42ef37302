"""Sizes and layouts of the Gaussian splatting ops, and what they demand of their operands."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from rlx.custom import Attrs, TensorType, require_dtype
from rlx.errors import GraphError, ShapeError

VERSION = "1"
"""Of the ops, for compiled programs that are kept: these are kept by the sources of rlx, too."""
META_LENGTH = 23
"""Camera, background and settings as numbers; ops read the first 15 only."""
LARGEST_COUNT = 1 << 24
"""The largest integer up to which f32 holds all of them."""
PARAMS_LENGTH = 11
COEFFICIENTS = 32
"""Floats per splat from which pixels are composited (`splat_coefficients`)."""
POWERS = ("1", "x", "y", "xx", "xy", "yy")
MOMENT_NAMES = (
    *("red", "green", "blue", "alpha"),
    *(f"{of}_{power}" for of in ("distance", "span") for power in POWERS),
)
"""What the backward pass sums over the pixels of a list entry (`splat_composite_backward`).

The cotangents of a splat's colour, and of alpha by its logarithm; then those of the two terms that
alpha is computed from (the first one negated), times the powers of the pixel's place.
"""
MOMENTS = len(MOMENT_NAMES)
OUTLINE = 8
"""Numbers per splat that say which tiles it touches (`splat_project`)."""


@dataclass(frozen=True, slots=True)
class Screen:
    """An image in tiles."""

    width: int
    height: int
    tile_size: int

    def __post_init__(self) -> None:
        for name in ("width", "height", "tile_size"):
            if getattr(self, name) < 1:
                raise GraphError(
                    f"{name} is {getattr(self, name)}; it must be at least 1",
                    remedy=f"give a positive {name}",
                )

    @property
    def columns(self) -> int:
        return -(-self.width // self.tile_size)

    @property
    def rows(self) -> int:
        return -(-self.height // self.tile_size)

    @property
    def tiles(self) -> int:
        return self.columns * self.rows

    @property
    def pixels(self) -> int:
        return self.width * self.height


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RenderAttributes(Attrs):
    """What is drawn: the image and its tiles, and where splats and lists of them end."""

    width: int = 64
    height: int = 64
    tile_size: int = 16
    radius_scale: float = 1.6
    alpha_cutoff: float = 1 / 255
    max_splat_steps: int = 32
    transmittance_threshold: float = 0.01
    max_list_entries: int | None = None

    @property
    def screen(self) -> Screen:
        return Screen(self.width, self.height, self.tile_size)

    def compositing(self) -> dict[str, Any]:
        """Return the attributes of `splat_composite`, which has all but two of these."""
        elsewhere = ("radius_scale", "max_list_entries")
        own = (f.name for f in dataclasses.fields(RenderAttributes) if f.name not in elsewhere)
        return {name: getattr(self, name) for name in own}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RenderBackwardAttributes(RenderAttributes):
    """What is drawn, and how its cotangents are bounded."""

    loss_grad_clip: float = 1.0
    sh_band: int = 0
    max_anisotropy: float = 10.0


def gaussian_splat_tile_count(width: int, height: int, tile_size: int) -> int:
    """Return how many tiles an image has."""
    return Screen(width, height, tile_size).tiles


def gaussian_splat_prep_packed_len(
    splats: int, max_list_entries: int, width: int, height: int, tile_size: int
) -> int:
    """Return the length of the prepare buffer."""
    screen = Screen(width, height, tile_size)
    fixed = max_list_entries + 2 * screen.tiles + 3 * screen.pixels + PARAMS_LENGTH
    return 15 * max(splats, 1) + fixed


def gaussian_splat_packed_grad_len(splats: int, coefficients: int) -> int:
    """Return the length of the packed gradient for `coefficients` of the harmonics."""
    return 14 * splats + 3 * splats * max(coefficients, 1)


def list_entries(splats: int, screen: Screen, given: int | None) -> int:
    """Return the room for list entries: what is given, or enough for most scenes."""
    if given is None:
        generous = min(splats * screen.tiles, max(576, 64 * splats))
        return max(1, min(generous, LARGEST_COUNT))
    if not 0 < given <= LARGEST_COUNT:
        raise GraphError(
            f"max_list_entries is {given}; it must be in 1 .. {LARGEST_COUNT}",
            remedy="leave it out, or give the number of (splat, tile) pairs to make room for",
        )
    return given


def require_settings(alpha_cutoff: float, radius_scale: float = 1.0) -> None:
    if not 0.0 < alpha_cutoff < 1.0:
        raise GraphError(
            f"alpha_cutoff is {alpha_cutoff}; it must be between 0 and 1",
            remedy="1 / 255 draws what an image of 8 bits can show",
        )
    if not 0.0 < radius_scale < math.inf:
        raise GraphError(
            f"radius_scale is {radius_scale}; it must be positive", remedy="use the default of 1.6"
        )


def require_blending(max_splat_steps: int, transmittance_threshold: float) -> None:
    if max_splat_steps < 0:
        raise GraphError(
            f"max_splat_steps is {max_splat_steps}; it must be at least 0",
            remedy="give the number of splats that a pixel may show, or 0 for all",
        )
    if not 0.0 <= transmittance_threshold <= 1.0:
        raise GraphError(
            f"transmittance_threshold is {transmittance_threshold}; it must be in 0 .. 1",
            remedy="0.001 stops where no more of the light can be seen, 0 draws all",
        )


@dataclass(frozen=True, slots=True)
class SceneShape:
    """How many splats a scene has, and how many coefficients of the harmonics each."""

    splats: int
    coefficients: int

    @property
    def rows(self) -> int:
        """Rows that kernels see: an empty scene has one, which is not drawn."""
        return max(self.splats, 1)


def scene_shape(
    positions: TensorType,
    scales: TensorType,
    rotations: TensorType,
    opacities: TensorType,
    colors: TensorType,
    sh_coeffs: TensorType,
    meta: TensorType,
) -> SceneShape:
    """Return the shape of a scene, or raise an error that says what does not fit."""
    named = {
        "positions": positions, "scales": scales, "rotations": rotations, "opacities": opacities,
        "colors": colors, "sh_coeffs": sh_coeffs, "meta": meta,
    }  # fmt: skip
    for name, type in named.items():
        require_dtype(type, "f32", name)
    splats = _splat_count(positions)
    for name, per_splat in (("scales", 3), ("rotations", 4), ("opacities", 1), ("colors", 3)):
        require_count(named[name], per_splat * splats, name, f"{per_splat} for each splat")
    coefficients = _coefficient_count(sh_coeffs, splats)
    require_meta(meta)
    return SceneShape(splats, coefficients)


def require_meta(meta: TensorType) -> None:
    if count(meta, "meta") < META_LENGTH:
        raise ShapeError(
            f"meta has {count(meta, 'meta')} elements; it must have at least {META_LENGTH}",
            remedy="make it with rlx.splat.ops.gaussian_splat_render_meta or rlx.splat.camera",
        )


def count(type: TensorType, name: str) -> int:
    """Return the number of elements of an operand, which must be known."""
    elements = type.elements
    if not isinstance(elements, int):
        raise ShapeError(
            f"{name} has shape {type.describe_shape()}; splatting needs static extents",
            remedy="bind the symbol, or pad with splats of opacity 0",
        )
    return elements


def require_count(type: TensorType, wanted: int, name: str, what: str) -> None:
    found = count(type, name)
    if found != wanted:
        raise ShapeError(
            f"{name} has {found} elements; it must have {wanted}: {what}",
            remedy="give all tensors of a scene the same number of splats",
        )


def _splat_count(positions: TensorType) -> int:
    found = count(positions, "positions")
    if found % 3 or found // 3 > LARGEST_COUNT:
        raise ShapeError(
            f"positions has {found} elements; it must have 3 for each of at most "
            f"{LARGEST_COUNT} splats",
            remedy="pass an array of shape [splats, 3], or draw the scene in parts",
        )
    return found // 3


def _coefficient_count(sh_coeffs: TensorType, splats: int) -> int:
    found = count(sh_coeffs, "sh_coeffs")
    if found and (splats == 0 or found % (3 * splats)):
        raise ShapeError(
            f"sh_coeffs has {found} elements; it must have a multiple of {3 * splats}: "
            "three for each coefficient of each splat, or none",
            remedy="pass an array of shape [splats, coefficients, 3]",
        )
    return found // (3 * splats) if splats else 0

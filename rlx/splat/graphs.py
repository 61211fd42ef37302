"""What is built around the Gaussian splatting ops: cameras as constants, and their settings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rlx.custom import Graph, Value
from rlx.errors import GraphError, ShapeError
from rlx.splat.formulas import gaussian_splat_render
from rlx.splat.layout import META_LENGTH, require_meta

_FIRST_SETTING = 17
"""Place of the tile size in `meta`, after the camera and the size of the image."""


def gaussian_splat_render_meta(
    graph: Graph,
    position: ArrayLike,
    target: ArrayLike,
    up: ArrayLike,
    fov_y_degrees: float,
    near: float = 0.1,
    far: float = 100.0,
    background: ArrayLike = (0.0, 0.0, 0.0),
    *,
    width: int = 64,
    height: int = 64,
    tile_size: int = 16,
    radius_scale: float = 1.6,
    alpha_cutoff: float = 1 / 255,
    max_splat_steps: int = 32,
    transmittance_threshold: float = 0.01,
    max_list_entries: int = 0,
) -> Value:
    """Return a camera as the constant `meta` `[23]` of the splatting ops.

    The ops take size and settings from their own attributes; `meta` carries them for readers and
    for `gaussian_splat_render_reference`.
    """
    vectors = {"position": position, "target": target, "up": up, "background": background}
    given = {name: np.asarray(vector, np.float32) for name, vector in vectors.items()}
    for name, vector in given.items():
        if vector.shape != (3,):
            raise ShapeError(
                f"{name} has shape {list(vector.shape)}; it must be [3]",
                remedy="pass three numbers",
            )
    settings = [width, height, tile_size, radius_scale, alpha_cutoff, max_splat_steps]
    settings += [transmittance_threshold, max_list_entries]
    view = [given["position"], given["target"], given["up"], [fov_y_degrees, near, far]]
    return graph.constant(np.concatenate([*view, given["background"], settings]), "f32")


def gaussian_splat_render_reference(
    positions: Value,
    scales: Value,
    rotations: Value,
    opacities: Value,
    colors: Value,
    sh_coeffs: Value,
    meta: Value,
    *,
    width: int,
    height: int,
) -> Value:
    """Draw a scene with the settings that its camera carries, `meta[17..22]`.

    `meta` is a constant, as `gaussian_splat_render_meta` makes it: a kernel has its settings built
    in. Room for list entries of 0 is that of `gaussian_splat_render`.
    """
    tile_size, radius, cutoff, steps, threshold, room = _constant_settings(meta)
    return gaussian_splat_render(
        positions, scales, rotations, opacities, colors, sh_coeffs, meta,
        width=width, height=height, tile_size=int(tile_size), radius_scale=radius,
        alpha_cutoff=cutoff, max_splat_steps=int(steps), transmittance_threshold=threshold,
        max_list_entries=int(room) or None,
    )  # fmt: skip


def _constant_settings(meta: Value) -> list[float]:
    require_meta(meta.type)
    if meta.op.name != "constant":
        raise GraphError(
            f"meta is the result of {meta.op.name}; its settings must be known to draw with them",
            source=meta.node.source,
            remedy="make it with rlx.splat.ops.gaussian_splat_render_meta, or give the settings as "
            "attributes of gaussian_splat_render",
        )
    numbers = meta.node.attrs["value"].array.reshape(-1)
    return [float(number) for number in numbers[_FIRST_SETTING:META_LENGTH]]

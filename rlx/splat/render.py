"""Images of scenes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import rlx.numpy as rnp
from rlx.custom.kernels import upper
from rlx.errors import DTypeError, InputError, RlxError, ShapeError
from rlx.splat.scene import Scene, parts_of, require_shapes
from rlx.tracing.apply import as_tracer, function, inexact

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
    given = {name: _vector(name, part) for name, part in parts.items()}
    if isinstance(fov, np.ndarray) and fov.ndim == 0:
        fov = fov.item()
    if isinstance(fov, bool) or not (isinstance(fov, Real) and 0 < float(fov) < 180):
        raise InputError(
            f"fov is {fov!r}; it must be above 0 and below 180",
            remedy="pass the vertical field of view in degrees, for example 60",
        )
    lens = np.array([fov, 0.01, 1000.0], np.float32)
    view = [given["position"], given["target"], -given["up"], lens, given["background"]]
    return np.concatenate([*view, np.zeros(8, np.float32)])


def _vector(name: str, part: ArrayLike) -> NDArray[np.float32]:
    try:
        vector = np.asarray(part, np.float32)
    except RlxError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is {part!r}", remedy="pass three numbers") from error
    if vector.shape != (3,):
        raise InputError(
            f"{name} has shape {list(vector.shape)}; it must be [3]", remedy="pass three numbers"
        )
    if not np.isfinite(vector).all():
        raise InputError(f"{name} is {vector.tolist()}", remedy="pass three finite numbers")
    return vector


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

    Light is linear: apply `linear_to_display` for displays.
    """
    from rlx.custom import apply
    from rlx.splat.ops import gaussian_splat_render  # its kernels are loaded for the first image

    operands = _operands(scene, view)
    image = apply(
        gaussian_splat_render, *operands, width=width, height=height, tile_size=tile_size,
        radius_scale=radius_scale, alpha_cutoff=alpha_cutoff, max_splat_steps=max_splat_steps,
        transmittance_threshold=transmittance_threshold, max_list_entries=max_list_entries,
    )  # fmt: skip
    return rnp.reshape(image, (height, width, 4))


def _operands(scene: Any, view: Any) -> list[Any]:
    """Return the arrays of a scene and a camera in f32; the axes of each are checked."""
    given = {name: as_tracer(part) for name, part in {**parts_of(scene), "view": view}.items()}
    for name, array in given.items():
        if array.dtype in (np.float64, np.complex64, np.complex128) and not array.weak:
            raise DTypeError(
                f"{name} has dtype {array.dtype}; splats are drawn in f32",
                remedy="convert it with .astype('float32')",
            )
    if given["view"].ndim != 1:
        raise ShapeError(
            f"view has shape {list(given['view'].shape)}; it must be one camera",
            remedy="map over cameras: rlx.vmap(draw, in_axes=(None, 0))(scene, views)",
        )
    require_shapes({name: array.shape for name, array in given.items()})
    parts = {n: array if n == "view" else _up_to_bound(array) for n, array in given.items()}
    return inexact(*parts.values())


def _up_to_bound(array: Any) -> Any:
    """Return an array of splats with a row for as many as a symbolic number may be.

    The rows are zeros: splats without opacity, which are not drawn.
    """
    splats, *own = array.shape
    if isinstance(splats, int):
        return array
    return rnp.concatenate([array, rnp.zeros((upper(splats) - splats, *own), array.dtype)])


def linear_to_display(light: Any) -> Any:
    """Return light as displays take it, between 0 and 1.

    Darkness has no slope, as light above 1 has none: that of a root at 0 is infinite.
    """
    inside = rnp.clip(light, 0.0, 1.0)
    lit = inside > 0.0
    return rnp.where(lit, rnp.where(lit, inside, 1.0) ** (1.0 / DISPLAY_GAMMA), inside * 0.0)

"""Images: resizing, and blocks of positions as channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.ops.resampling import Coordinates
from rlx.nn.spatial import PerAxis, channel_axis, each, spatial_axes
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function

_MODES = {
    "nearest": "nearest",
    "linear": "linear", "bilinear": "linear", "trilinear": "linear",
    "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
"""Names of methods elsewhere, and the op's."""


@function
def resize(
    x: Any,
    size: PerAxis | None = None,
    method: Literal["nearest", "linear", "cubic", "bilinear", "bicubic", "trilinear"] = "linear",
    *,
    scale: float | Sequence[float] | None = None,
    coordinates: Coordinates = "half_pixel",
    antialias: bool = False,
    layout: str = "NCHW",
) -> Array:
    """Resample the spatial axes to `size`, or to `scale` times their extents, rounded down.

    Methods have the names of JAX and PyTorch alike: "bilinear" is "linear" along two axes. Cubic
    weights are those of PyTorch and ONNX (`a = -0.75`; JAX takes -0.5).
    `coordinates="align_corners"` keeps the corners where they are. `antialias` widens the filter
    of an axis that shrinks.
    """
    x = as_tracer(x)
    mode = _MODES.get(method)
    if mode is None:
        raise ShapeError(
            f"method is {method!r}; it must be one of {', '.join(map(repr, _MODES))}",
            remedy="choose one of these",
        )
    axes = spatial_axes(x.ndim, layout)
    extents = tuple(x.shape[axis] for axis in axes)
    if (size is None) == (scale is None):
        raise ShapeError(
            f"size is {size} and scale is {scale}; exactly one of them must be given",
            remedy="give the size, or the scale",
        )
    factors: tuple[float, ...] = ()
    if scale is not None:
        factors = (scale,) * len(axes) if isinstance(scale, (int, float)) else tuple(scale)
        size = tuple(int(extent * factor) for extent, factor in zip(extents, factors, strict=True))
    assert size is not None  # one of the two is given
    return emit(
        ops.resize, x, size=each("size", size, len(axes)), scale=factors, mode=mode,
        coordinates=coordinates, antialias=antialias, inner=1 if channel_axis(layout) == -1 else 0,
    )  # fmt: skip


@function
def pixel_shuffle(x: Any, factor: int) -> Array:
    """Spread channels of `[N, C, H, W]` over blocks of `factor` by `factor` positions."""
    return emit(ops.depth_to_space, as_tracer(x), block=factor, order="crd")


@function
def pixel_unshuffle(x: Any, factor: int) -> Array:
    """Gather blocks of `factor` by `factor` positions of `[N, C, H, W]` as channels."""
    return emit(ops.space_to_depth, as_tracer(x), block=factor, order="crd")

"""`jax.image`: images of any rank resized by weights per axis, as matrix products.

An element of the result is a weighted mean of elements around the position that it comes from;
weights are those of a filter, and sum to 1 where the position is inside.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.source_lines import calling_source
from rlx.numpy.axes import static_shape
from rlx.public_names import names_of as _names_of
from rlx.tracing.apply import as_tracer, function, inexact


class ResizeMethod(enum.Enum):
    """The filters."""

    NEAREST, LINEAR, LANCZOS3, LANCZOS5, CUBIC, CUBIC_PYTORCH, AREA = range(7)

    @staticmethod
    def from_string(name: str) -> ResizeMethod:
        """Return the method of a name."""
        if name not in _NAMES:
            raise InputError(
                f"method is {name!r}", source=calling_source(), remedy=f"use {', '.join(_NAMES)}"
            )
        return _NAMES[name]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch", "tricubic-pytorch"),
                    ResizeMethod.CUBIC_PYTORCH),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "area": ResizeMethod.AREA,
}  # fmt: skip


def _triangle(x: Any) -> Any:
    return rnp.maximum(0.0, 1.0 - x)


def _keys(a: float) -> Callable[[Any], Any]:
    """Return Keys' cubic filter with slope `a` at 1 (1981, equation 15)."""

    def cubic(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return rnp.where(x >= 2, 0.0, rnp.where(x >= 1, far, near))

    return cubic


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def windowed(x: Any) -> Any:
        return rnp.where(x > radius, 0.0, rnp.sinc(x) * rnp.sinc(x / radius))

    return windowed


_FILTERS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _keys(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _keys(-0.75),
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


_LEAST_TOTAL = 1000.0 * float(np.finfo(np.float32).eps)
"""Sums of weights up to this are none, for images of every dtype, as in JAX."""


_BEYOND = 2
"""Elements beyond an edge that the cubic filters reach."""


def _weights(
    extent: int, size: int, scale: Any, translation: Any, method: ResizeMethod, *,
    antialias: bool, edges: bool,
) -> Any:  # fmt: skip
    """Return a matrix (extent, size): the weights of each element of the result.

    With `edges`, elements at the edges go on beyond them.
    """
    inverse = 1.0 / scale
    width = rnp.maximum(inverse, 1.0) if antialias else 1.0
    place = (rnp.arange(size, dtype=inverse.dtype) + 0.5) * inverse - translation * inverse - 0.5
    beyond = _BEYOND if edges else 0
    sources = rnp.arange(-beyond, extent + beyond, dtype=inverse.dtype)
    apart = place[None, :] - sources[:, None]
    if method is ResizeMethod.AREA:
        half = 0.5 * inverse
        ends = rnp.minimum(apart + half, 0.5) - rnp.maximum(apart - half, -0.5)
        weights = rnp.maximum(0.0, ends)
    else:
        weights = _FILTERS[method](rnp.abs(apart) / width)
    if edges:  # what is beyond counts as the element at the edge
        nearest = np.clip(np.arange(-beyond, extent + beyond), 0, extent - 1)
        weights = rnp.asarray(np.eye(extent)[nearest].T, weights.dtype) @ weights
    total = rnp.sum(weights, 0, keepdims=True)
    some = rnp.abs(total) > _LEAST_TOTAL
    weights = rnp.where(some, weights / rnp.where(some, total, 1.0), 0.0)
    inside = rnp.logical_and(place >= -0.5, place <= extent - 0.5)
    return weights if edges else rnp.where(inside[None, :], weights, 0.0)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


@function
def scale_and_translate(
    image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any, translation: Any,
    method: str | ResizeMethod, antialias: bool = True, precision: Any = None,
) -> Any:  # fmt: skip
    """`image` of another `shape`: on `spatial_dims`, x of the result is (x - translation) / scale.

    Positions outside of the image give zeros.
    """
    del precision
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise InputError(
            "scale_and_translate has no nearest neighbor",
            source=calling_source(),
            remedy="use jax.image.resize, or another method",
        )
    dtype, (image, scale, translation) = _wide(image, scale, translation)
    found = _resampled(image, shape, spatial_dims, scale, translation, chosen, antialias=antialias)
    return rnp.astype(found, dtype)


def _wide(*arrays: Any) -> tuple[Any, list[Any]]:
    """Return the common dtype of the arrays, and them in it, or in f32 where it is smaller.

    Positions and weights of few digits would be off by far more than the one rounding at the end.
    """
    common = inexact(*arrays)
    dtype = common[0].value.dtype
    if dtype.is_low_precision:
        return dtype, [rnp.asarray(x, "float32") for x in arrays]
    return dtype, [*common]


def _resampled(
    image: Any, shape: Sequence[int], axes: Sequence[int], scale: Any, translation: Any,
    method: ResizeMethod, *, antialias: bool, edges: bool = False,
) -> Any:  # fmt: skip
    for place, axis in enumerate(axes):
        weights = _weights(image.shape[axis], shape[axis], scale[place], translation[place],
                           method, antialias=antialias, edges=edges)  # fmt: skip
        weights = rnp.astype(weights, image.dtype)
        image = rnp.moveaxis(rnp.tensordot(image, weights, ((axis,), (0,))), -1, axis)
    return image


@function
def resize(
    image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
    precision: Any = None,
) -> Any:  # fmt: skip
    """`image` of another `shape`; axes whose extents stay are left alone."""
    del precision
    image, chosen = as_tracer(image), _method(method)
    extents = static_shape(image)
    axes = [axis for axis, (n, m) in enumerate(zip(extents, shape, strict=True)) if n != m]
    if chosen is ResizeMethod.NEAREST:
        for axis in axes:
            ratio = extents[axis] / shape[axis]
            places = [math.floor((i + 0.5) * ratio) for i in range(shape[axis])]
            image = rnp.take(image, rnp.asarray(places), axis)
        return image
    dtype, (image,) = _wide(image)
    # In f32 a position would be off by its own rounding, and the weights by its slope times that.
    scale = rnp.asarray([shape[axis] / extents[axis] for axis in axes], "float64")
    if not axes:
        return rnp.astype(image, dtype)
    edges = chosen is ResizeMethod.CUBIC_PYTORCH and not antialias
    if chosen is ResizeMethod.CUBIC_PYTORCH and antialias:
        chosen = ResizeMethod.CUBIC
    found = _resampled(image, shape, axes, scale, rnp.zeros_like(scale), chosen,
                       antialias=antialias, edges=edges)  # fmt: skip
    return rnp.astype(found, dtype)


__dir__ = _names_of(__name__)

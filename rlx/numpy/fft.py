"""Discrete Fourier transforms under NumPy's names, in single precision.

`norm` says which direction divides by the length: `"backward"` (the default) the inverse,
`"forward"` the forward one, `"ortho"` both by its square root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise as e
from rlx.numpy.axes import axes_of, static_shape
from rlx.numpy.creation import dtype_of
from rlx.numpy.devices import require_device
from rlx.numpy.padding import pad
from rlx.numpy.shaping import moveaxis, roll
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.trace import shape_of

_Axes = Sequence[int] | None


@function
def fft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The transform along one axis, cut or filled with zeros to `n` elements."""
    return _along(_complex(a), n, axis, norm, inverse=False)


@function
def ifft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The inverse of `fft`."""
    return _along(_complex(a), n, axis, norm, inverse=True)


@function
def rfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The transform of real numbers: the first half of the spectrum and one more."""
    x = as_tracer(a)
    if x.value.dtype.is_complex:
        raise DTypeError("rfft: complex numbers are given", remedy="use fft for these")
    x, place, length = _of_length(convert(x, _part(x)), n, axis)
    return emit(ops.rfft, x, axis=place, scale=_scale(norm, length, inverse=False))


@function
def irfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The inverse of `rfft`: `n` real numbers, by default an even count."""
    half = _complex(a)
    extent = static_shape(half)[normalize_axis(axis, half.ndim)]
    length = _length(2 * (extent - 1) if n is None else n)
    x, place, _ = _of_length(half, length // 2 + 1, axis)
    return emit(ops.irfft, x, n=length, axis=place, scale=_scale(norm, length, inverse=True))


@function
def hfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The real spectrum of a signal whose other half is the conjugate."""
    return irfft(e.conj(_complex(a)), n, axis, opposite(norm))


@function
def ihfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """The inverse of `hfft`."""
    return e.conj(rfft(a, n, axis, opposite(norm)))


@function
def fftn(
    a: Any, s: _Axes = None, axes: _Axes = None, norm: str | None = None, out: None = None
) -> Array:
    """The transform along several axes, by default all."""
    return _along_several(_complex(a), s, axes, norm, inverse=False)


@function
def ifftn(
    a: Any, s: _Axes = None, axes: _Axes = None, norm: str | None = None, out: None = None
) -> Array:
    """The inverse of `fftn`."""
    return _along_several(_complex(a), s, axes, norm, inverse=True)


@function
def rfftn(
    a: Any, s: _Axes = None, axes: _Axes = None, norm: str | None = None, out: None = None
) -> Array:
    """The transform of real numbers along several axes; the last one is halved."""
    x = as_tracer(a)
    sizes, places = _halved(x, s, axes)
    halved = rfft(x, sizes[-1], places[-1], norm)
    return _along_several(halved, sizes[:-1], places[:-1], norm, inverse=False)


@function
def irfftn(
    a: Any, s: _Axes = None, axes: _Axes = None, norm: str | None = None, out: None = None
) -> Array:
    """The inverse of `rfftn`."""
    x = _complex(a)
    sizes, places = _halved(x, s, axes)
    last = 2 * (sizes[-1] - 1) if s is None else sizes[-1]
    whole = _along_several(x, sizes[:-1], places[:-1], norm, inverse=True)
    return irfft(whole, last, places[-1], norm)


@function
def fft2(
    a: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """`fftn` along two axes."""
    return fftn(a, s, axes, norm)


@function
def ifft2(
    a: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """`ifftn` along two axes."""
    return ifftn(a, s, axes, norm)


@function
def rfft2(
    a: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """`rfftn` along two axes."""
    return rfftn(a, s, axes, norm)


@function
def irfft2(
    a: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """`irfftn` along two axes."""
    return irfftn(a, s, axes, norm)


@function
def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """The frequencies of `fft`: those of the second half are negative."""
    require_device(device)
    return convert(np.fft.fftfreq(_length(n), d), dtype_of(dtype, DType.F64))


@function
def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """The frequencies of `rfft`."""
    require_device(device)
    return convert(np.fft.rfftfreq(_length(n), d), dtype_of(dtype, DType.F64))


@function
def fftshift(x: Any, axes: Any = None) -> Array:
    """Move the frequency 0 to the middle."""
    return _shifted(x, axes, lambda extent: extent // 2)


@function
def ifftshift(x: Any, axes: Any = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, lambda extent: -(extent // 2))


def _shifted(x: Any, axes: Any, distance: Any) -> Any:
    shape = shape_of(x)
    named = axes_of(axes, len(shape))
    return roll(x, tuple(distance(shape[axis]) for axis in named), named)


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def opposite(norm: str | None) -> str:
    """Return the norm by which the other direction divides as this one does by `norm`."""
    return _OPPOSITE[_checked(norm)]


def _checked(norm: str | None) -> str:
    if norm not in (None, *_OPPOSITE):
        raise InputError(
            f"norm is {norm!r}; it must be 'backward', 'ortho' or 'forward'",
            remedy="leave norm out for 'backward'",
        )
    return norm or "backward"


def _scale(norm: str | None, n: int, *, inverse: bool) -> float:
    named = _checked(norm)
    if named == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if (named == "backward") == inverse else 1.0


def _complex(a: Any) -> Any:
    x = as_tracer(a)
    if x.value.dtype.is_complex:
        return x
    part = _part(x)
    return convert(convert(x, part), part.with_parts)


def _part(x: Any) -> DType:
    """Return the dtype of the real parts of what `x` is transformed to."""
    (x,) = inexact(x)
    return DType.F64 if x.value.dtype is DType.F64 else DType.F32


def _length(n: Any) -> int:
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise ShapeError(
            f"a transform has {n!r} elements; it needs at least one",
            remedy="pass a length of 1 or more",
        )
    return int(n)


def _along(x: Any, n: int | None, axis: int, norm: str | None, *, inverse: bool) -> Any:
    x, place, length = _of_length(x, n, axis)
    scale = _scale(norm, length, inverse=inverse)
    return emit(ops.fft, x, axis=place, inverse=inverse, scale=scale)


def _of_length(x: Any, n: int | None, axis: int) -> tuple[Any, int, int]:
    """Cut or fill an axis to n elements; return also which axis it is, and its length."""
    if n is not None:
        x = _resized(x, _length(n), axis)
    place = normalize_axis(axis, x.ndim)
    return x, place, _length(static_shape(x)[place])


def _resized(x: Any, n: int, axis: int) -> Any:
    place = normalize_axis(axis, x.ndim)
    extent = static_shape(x)[place]
    if extent >= n:
        return _cut(x, n, place)
    widths = [(0, 0)] * x.ndim
    widths[place] = (0, n - extent)
    return pad(x, tuple(widths))


def _cut(x: Any, n: int, axis: int) -> Any:
    return x if static_shape(x)[axis] == n else moveaxis(moveaxis(x, axis, 0)[:n], 0, axis)


def _along_several(x: Any, s: _Axes, axes: _Axes, norm: str | None, *, inverse: bool) -> Any:
    sizes, places = _sizes_and_axes(x, s, axes)
    for size, axis in zip(reversed(sizes), reversed(places), strict=True):
        x = _along(x, size, axis, norm, inverse=inverse)
    return x


def _halved(x: Any, s: _Axes, axes: _Axes) -> tuple[list[int], list[int]]:
    """Return sizes and axes, of which the last one, which is halved, must be there."""
    found = _sizes_and_axes(x, s, axes)
    if not found[1]:
        raise ShapeError(
            "a real transform along no axis",
            remedy="name the axis whose spectrum is halved",
        )
    return found


def _sizes_and_axes(x: Any, s: _Axes, axes: _Axes) -> tuple[list[int], list[int]]:
    shape = static_shape(x)
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    if (s is not None and len(s) != len(axes)) or len(axes) > len(shape):
        raise ShapeError(
            f"s names {len(axes if s is None else s)} lengths and axes {len(axes)} axes, "
            f"and the array has {len(shape)}",
            remedy="give one length for each axis",
        )
    places = [normalize_axis(axis, len(shape)) for axis in axes]
    return [shape[place] for place in places] if s is None else list(s), places


__dir__ = _names_of(__name__)

"""Convolutions of signals; their spectra are those of `rlx.scipy.spectral`."""

from __future__ import annotations

import itertools
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.ir.shape import broadcast_shapes
from rlx.numpy import fft
from rlx.numpy.axes import axes_of, static_shape
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.scipy.spectral import csd as csd
from rlx.scipy.spectral import detrend as detrend
from rlx.scipy.spectral import istft as istft
from rlx.scipy.spectral import stft as stft
from rlx.scipy.spectral import welch as welch
from rlx.tracing.apply import function, inexact


@function
def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", *, precision: Any = None
) -> Array:
    """The convolution of arrays of one rank; mode full, same or valid."""
    a, b = inexact(in1, in2)
    if a.ndim != b.ndim:
        raise ShapeError(f"arrays of {a.ndim} and {b.ndim} axes", remedy="reshape one of them")
    if method not in ("auto", "direct", "fft"):
        raise InputError(f"method is {method!r}", remedy="use auto, direct or fft")
    if method == "fft" or (method == "auto" and min(a.size, b.size) > _MOST_DIRECT):
        return fftconvolve(a, b, mode)
    whole = rnp.convolve(a, b) if a.ndim == 1 else _direct(a, b)
    return _cut(whole, a.shape, b.shape, mode)


_MOST_DIRECT = 256
"""Elements of the smaller array up to which products are added one by one."""


def _direct(a: Any, b: Any) -> Any:
    """The full convolution: one array moved by each place of the smaller, times what is there."""
    if b.size > a.size:
        a, b = b, a
    total: Any = 0
    for place in itertools.product(*map(range, b.shape)):
        room = [(p, n - 1 - p) for p, n in zip(place, b.shape, strict=True)]
        total = total + rnp.pad(a, room) * b[place]
    return total


@function
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """The convolution by way of the spectra, along all or some axes; others broadcast."""
    a, b = inexact(in1, in2)
    if a.ndim != b.ndim:
        raise ShapeError(f"arrays of {a.ndim} and {b.ndim} axes", remedy="reshape one of them")
    along, shapes = axes_of(axes, a.ndim), (static_shape(a), static_shape(b))
    others = [axis for axis in range(a.ndim) if axis not in along]
    extents: tuple[Any, ...] = broadcast_shapes(
        *(tuple(shape[axis] for axis in others) for shape in shapes)
    )
    sizes = [shapes[0][axis] + shapes[1][axis] - 1 for axis in along]
    if rnp.issubdtype(a.dtype, rnp.complexfloating):
        whole = fft.ifftn(fft.fftn(a, sizes, along) * fft.fftn(b, sizes, along), sizes, along)
    else:
        whole = fft.irfftn(fft.rfftn(a, sizes, along) * fft.rfftn(b, sizes, along), sizes, along)
    first: list[Any]
    second: list[Any]
    first, second = ([*shape] for shape in shapes)
    for axis, extent in zip(others, extents, strict=True):
        first[axis] = second[axis] = extent  # what broadcasts is not cut
    return _cut(rnp.astype(whole, a.dtype), first, second, mode, along)


def _cut(whole: Any, a: Any, b: Any, mode: str, along: Any = None) -> Any:
    """Cut the full convolution of shapes `a` and `b`, `along` some axes, to what `mode` keeps."""
    if mode == "full":
        return whole
    if mode not in ("same", "valid"):
        raise ShapeError(f"mode is {mode!r}", remedy="use full, same or valid")
    if mode == "valid" and not (_covers(a, b) or _covers(b, a)):
        raise ShapeError(f"neither of {a} and {b} covers the other", remedy="use full or same")
    sizes = list(whole.shape)
    for axis in range(len(a)) if along is None else along:
        m, n = a[axis], b[axis]
        sizes[axis] = m if mode == "same" else max(m, n) - min(m, n) + 1
    starts = [(full - size) // 2 for full, size in zip(whole.shape, sizes, strict=True)]
    return whole[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


def _covers(a: Any, b: Any) -> bool:
    return all(m >= n for m, n in zip(a, b, strict=True))


@function
def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", *, precision: Any = None
) -> Array:
    """`convolve` with the conjugate of the reversed second array."""
    return convolve(in1, rnp.conj(rnp.flip(in2)), mode, method)


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    *,
    precision: Any = None,
) -> Array:
    """`convolve` of matrices, with zeros around."""
    _require_zeros(boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    *,
    precision: Any = None,
) -> Array:
    """`correlate` of matrices, with zeros around; "same" is centered as SciPy centers it."""
    _require_zeros(boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode)
    return rnp.flip(convolve(rnp.flip(in1), rnp.conj(in2), mode))


def _require_zeros(boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise UnsupportedError(
            f"boundary is {boundary!r}, with {fillvalue}", remedy="pad the array with rlx.numpy.pad"
        )


__dir__ = _names_of(__name__)

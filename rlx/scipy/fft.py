"""Transforms that SciPy adds to NumPy's: of cosines, and of signals with a real spectrum.

The cosine transform (DCT-II) and its inverse are made of an FFT of the same length: Makhoul, 1980,
A fast cosine transform in one and two dimensions. The transform is
`y[k] = 2 sum x[n] cos(pi k (2 n + 1) / (2 N))`; `norm="ortho"` makes it orthogonal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir import ops
from rlx.numpy.axes import static_shape
from rlx.numpy.fft import opposite
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, inexact
from rlx.tracing.only import only

_Axes = Sequence[int] | None


@function
@only(orthogonalize=(None,))
def dct(
    x: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: Any = None,
) -> Array:
    """The cosine transform along one axis, cut or filled with zeros to `n` elements."""
    return _along(_forward, x, type, n, axis, norm)


@function
@only(orthogonalize=(None,))
def idct(
    x: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: Any = None,
) -> Array:
    """The inverse of `dct`."""
    return _along(_backward, x, type, n, axis, norm)


@function
def dctn(
    x: Any,
    type: int = 2,
    s: _Axes = None,
    axes: _Axes = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
) -> Array:
    """`dct` along several axes, by default all."""
    return _along_several(_forward, x, type, s, axes, norm)


@function
@only(orthogonalize=(None,))
def idctn(
    x: Any,
    type: int = 2,
    s: _Axes = None,
    axes: _Axes = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
    orthogonalize: Any = None,
) -> Array:
    """The inverse of `dctn`."""
    return _along_several(_backward, x, type, s, axes, norm)


@function
def hfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> Array:
    """The real spectrum of a signal of which half is given."""
    return rnp.fft.hfft(x, n, axis, norm)


@function
def ihfft(
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> Array:
    """The inverse of `hfft`."""
    return rnp.fft.ihfft(x, n, axis, norm)


@function
def hfftn(
    x: Any,
    s: _Axes = None,
    axes: _Axes = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
) -> Array:
    """The real spectrum along several axes of a signal, the half of the last axis that is given."""
    return rnp.fft.irfftn(rnp.conj(x), s, axes, opposite(norm))


@function
def ihfftn(
    x: Any,
    s: _Axes = None,
    axes: _Axes = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
) -> Array:
    """The inverse of `hfftn`: half of the last axis."""
    return rnp.conj(rnp.fft.rfftn(x, s, axes, opposite(norm)))


@function
def hfft2(
    x: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
) -> Array:
    """`hfftn` along two axes."""
    return hfftn(x, s, axes, norm)


@function
def ihfft2(
    x: Any,
    s: _Axes = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: Any = None,
) -> Array:
    """`ihfftn` along two axes."""
    return ihfftn(x, s, axes, norm)


def _along_several(
    transform: Any, x: Any, type: int, s: _Axes, axes: _Axes, norm: str | None
) -> Any:
    (x,) = inexact(x)
    last = x.ndim if s is None else len(s)
    places = range(x.ndim - last, x.ndim) if axes is None else axes
    sizes: Sequence[int | None] = [None] * len(places) if s is None else s
    if len(sizes) != len(places):
        raise InputError(
            f"s names {len(sizes)} lengths and axes {len(places)} axes",
            remedy="give one length for each axis",
        )
    for size, place in zip(sizes, places, strict=True):
        x = _along(transform, x, type, size, place, norm)
    return x


def _along(transform: Any, x: Any, type: int, n: int | None, axis: int, norm: str | None) -> Any:
    if type != 2 or norm not in (None, "backward", "ortho"):
        raise InputError(
            f"type is {type} and norm {norm!r}; type must be 2, norm None, 'backward' or 'ortho'",
            remedy="scale the result of type 2",
        )
    (x,) = inexact(x)
    if x.value.dtype.is_complex:
        parts = (_along(transform, part(x), type, n, axis, norm) for part in (rnp.real, rnp.imag))
        return emit(ops.complex, *parts)
    rows = rnp.moveaxis(x, axis, -1)
    extent = static_shape(rows)[-1]
    length = extent if n is None else n
    if length < 1:
        raise InputError(f"a transform of {length} elements", remedy="pass one element at least")
    if length > extent:
        rows = rnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, length - extent)])
    scales = np.full(length, 1 / math.sqrt(2 * length) if norm == "ortho" else 1.0)
    scales[0] /= math.sqrt(2) if norm == "ortho" else 1.0
    found = transform(rows[..., :length], length, scales.astype(x.dtype))
    return rnp.moveaxis(rnp.astype(found, x.dtype), -1, axis)


def _turns(n: int) -> tuple[Any, Any]:
    angles = np.pi * np.arange(n) / (2 * n)
    return np.cos(angles), np.sin(angles)


def _forward(x: Any, n: int, scales: Any) -> Any:
    mixed = rnp.concatenate([x[..., ::2], rnp.flip(x[..., 1::2], -1)], -1)
    spectrum = rnp.fft.fft(mixed)
    cos, sin = (turn.astype(scales.dtype) for turn in _turns(n))
    return 2 * scales * (rnp.real(spectrum) * cos + rnp.imag(spectrum) * sin)


def _backward(y: Any, n: int, scales: Any) -> Any:
    y = y / scales
    reversed_ = rnp.flip(y[..., 1:], -1)
    mirrored = rnp.concatenate([rnp.zeros_like(y[..., :1]), reversed_], -1)
    cos, sin = (turn.astype(scales.dtype) for turn in _turns(n))
    spectrum = emit(ops.complex, 0.5 * (y * cos + mirrored * sin), 0.5 * (y * sin - mirrored * cos))
    mixed = rnp.real(rnp.fft.ifft(spectrum))
    half = (n + 1) // 2
    order = np.empty(n, np.int64)
    order[::2], order[1::2] = np.arange(half), np.arange(n - 1, half - 1, -1)
    return rnp.take(mixed, order, -1)


__dir__ = _names_of(__name__)

"""Spectra of signals over time, and densities of power, with SciPy's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.shape import normalize_axis
from rlx.numpy import fft
from rlx.numpy.axes import lists, static_shape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact


@lists("bp")
@function
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: Any = None
) -> Array:
    """`data` less its mean ("constant"), or less the lines that fit it best ("linear").

    A line runs from each of the places `bp` to the next. `overwrite_data` decides nothing.
    """
    x: Any = inexact(data)[0]
    if type not in ("linear", "constant"):
        raise ShapeError(f"type is {type!r}", remedy="use linear or constant")
    axis = normalize_axis(axis, x.ndim)
    if type == "constant":
        return x - rnp.mean(x, axis, keepdims=True)
    size = static_shape(x)[axis]
    places = np.unique([0, *np.atleast_1d(bp).tolist(), size])
    if places[0] < 0 or places[-1] > size:
        raise InputError(
            f"bp is {bp} for an axis of {size} elements", remedy=f"give breakpoints in [0, {size}]"
        )
    rows = rnp.moveaxis(x, axis, -1)
    parts = [rows[..., a:b] for a, b in zip(places[:-1].tolist(), places[1:].tolist(), strict=True)]
    return rnp.moveaxis(rnp.concatenate([_without_line(part) for part in parts], -1), -1, axis)


def _without_line(x: Any) -> Any:
    """Take off the line that fits the last axis best."""
    centered = x - rnp.mean(x, -1, keepdims=True)
    size = x.shape[-1]
    times = rnp.arange(size, dtype=rnp.real(x).dtype) - (size - 1) / 2
    scale = size * (size * size - 1) / 12 or 1  # the sum of the squares of times, of one none
    return centered - rnp.sum(centered * times, -1, keepdims=True) / scale * times


@function
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and the spectra of windowed segments of signals, times last.

    The spectra of complex signals have negative frequencies, too.
    """
    (x,) = inexact(x)
    axis = normalize_axis(axis, x.ndim)
    how = _segments_of(x, window, nperseg, noverlap, nfft, axis)
    x = rnp.moveaxis(x, axis, -1)
    around = how.size // 2 if boundary is not None else 0
    x = _extended(x, around, boundary)
    more = -(x.shape[-1] - how.size) % how.step % how.size if padded else 0
    x = rnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])
    frequencies, spectra, _ = _spectra(x, how, fs, detrend, return_onesided)
    spectra = spectra * rnp.sqrt(_scale_of(how.weights, fs, scaling, density="psd"))
    middles = rnp.arange(spectra.shape[-2]) * how.step + (0 if boundary else how.size / 2)
    return frequencies, middles / fs, rnp.moveaxis(rnp.swapaxes(spectra, -1, -2), -2, axis)


@function
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the cross density of two signals, the mean over overlapping segments.

    Signals of unequal length are padded with zeros; `average` may be "median".
    """
    x, y = inexact(x, x if y is None else y)
    x, y = (rnp.moveaxis(z, axis, -1) for z in (x, y))
    length = max(x.shape[-1], y.shape[-1])
    x, y = (_lengthened(z, length) for z in (x, y))
    how = _segments_of(x, window, nperseg, noverlap, nfft, -1)
    onesided = return_onesided and not x.value.dtype.is_complex
    frequencies, first, count = _spectra(x, how, fs, detrend, onesided)
    second = first if y is x else _spectra(y, how, fs, detrend, onesided)[1]
    scale = _scale_of(how.weights, fs, scaling) * count
    found = _averaged(rnp.conj(first) * second * scale, average)
    return frequencies, rnp.moveaxis(found, -1, axis)


@function
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies and the power density of signals, the mean over overlapping segments."""
    frequencies, found = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip
    return frequencies, rnp.real(found)


@function
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Array, Array]:
    """Times, and the signals whose `stft` is nearest to the given one.

    Places that no window covers are 0.
    """
    (spectra,) = inexact(Zxx)
    time, frequency = (normalize_axis(axis, spectra.ndim) for axis in (time_axis, freq_axis))
    if time == frequency:
        raise ShapeError(f"times and frequencies are both axis {time}", remedy="name two axes")
    spectra = rnp.moveaxis(spectra, (time, frequency), (-2, -1))
    count = static_shape(spectra)[-1]
    usual = 2 * (count - 1) if input_onesided else count
    size = _length_of(window, nperseg, usual)
    if nfft is None:
        nfft = size if input_onesided and size == usual + 1 else usual
    how = _checked(size, noverlap, nfft, window, rnp.real(spectra).dtype)
    back = fft.irfft if input_onesided else fft.ifft
    frames = back(spectra, nfft)[..., :size]
    weights = how.weights / rnp.sqrt(_scale_of(how.weights, fs, scaling, density="psd"))
    found = _overlapped(frames * weights, how.step)
    cover = _overlapped(rnp.broadcast_to(rnp.square(how.weights), frames.shape[-2:]), how.step)
    signals = found / rnp.where(rnp.greater(cover, _LEAST_COVER), cover, 1)
    if boundary:
        signals = signals[..., size // 2 : signals.shape[-1] - size // 2]
    times = rnp.arange(signals.shape[-1]) / fs
    return times, rnp.moveaxis(signals, -1, time - (frequency < time))


_LEAST_COVER = 1e-10


class _Segments(NamedTuple):
    """Elements of a segment, from one to the next, of its transform; and the window."""

    size: int
    step: int
    transform: int
    weights: Any


def _segments_of(
    x: Any, window: Any, size: Any, overlap: Any, transform: Any, axis: int
) -> _Segments:
    extent = static_shape(x)[axis]
    given = _length_of(window, size, 256)
    size = min(given, extent) if _is_named(window) else given
    if size > extent:
        raise ShapeError(
            f"a window of {size} elements for a signal of {extent}", remedy="give a shorter one"
        )
    return _checked(
        size, overlap, size if transform is None else transform, window, rnp.real(x).dtype
    )


def _length_of(window: Any, size: int | None, usual: int) -> int:
    """Return the elements of a segment: as many as the window has, if it is an array."""
    if _is_named(window):
        return usual if size is None else size
    if np.ndim(window) != 1:
        raise ShapeError(
            f"a window of shape {np.shape(window)}", remedy="give a name, or an array of one axis"
        )
    length = int(np.shape(window)[0])
    if size not in (None, length):
        raise ShapeError(f"nperseg is {size}, the window has {length}", remedy="leave nperseg out")
    return length


def _checked(size: int, overlap: int | None, transform: int, window: Any, dtype: Any) -> _Segments:
    if size < 1:
        raise InputError(f"nperseg is {size}", remedy="give 1 or more")
    overlap = size // 2 if overlap is None else overlap
    if not overlap < size:
        raise InputError(
            f"noverlap is {overlap}, nperseg {size}", remedy="give a noverlap below nperseg"
        )
    if transform < size:
        raise InputError(f"nfft is {transform}, nperseg {size}", remedy="give nperseg or more")
    return _Segments(size, size - overlap, transform, rnp.astype(_window(window, size), dtype))


_COSINES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
"""Weights of cosines of 0, 1, 2, ... periods, which are added and subtracted in turn."""


def _is_named(window: Any) -> bool:
    return isinstance(window, (str, tuple))


def _window(name: Any, size: int) -> Any:
    """Return the periodic window of a name, of `("kaiser", beta)`, or the one that is given."""
    if not _is_named(name):
        return rnp.asarray(name)
    if isinstance(name, tuple) and len(name) == 1:
        (name,) = name
    if name in ("boxcar", "ones", "rect"):
        return rnp.ones(size)
    if isinstance(name, tuple) and len(name) == 2 and name[0] == "kaiser":
        return rnp.kaiser(size + 1, name[1])[:-1]
    if name in ("bartlett", "triangle"):
        return rnp.bartlett(size + 1)[:-1]
    if name not in _COSINES:
        known = ", ".join((*_COSINES, "bartlett", "boxcar", '("kaiser", beta)'))
        raise ShapeError(f"window is {name!r}", remedy=f"use {known}, or an array")
    angle = 2 * math.pi * rnp.arange(size) / size
    return sum((-1) ** k * w * rnp.cos(k * angle) for k, w in enumerate(_COSINES[name]))


_EXTENSIONS: dict[str, dict[str, str]] = {
    "zeros": {"mode": "constant"},
    "constant": {"mode": "edge"},
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}


def _extended(x: Any, width: int, boundary: str | None) -> Any:
    if boundary is None:
        return x
    if boundary not in _EXTENSIONS:
        raise InputError(
            f"boundary is {boundary!r}", remedy=f"use {', '.join(_EXTENSIONS)} or None"
        )
    return rnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(width, width)], **_EXTENSIONS[boundary])


def _lengthened(x: Any, length: int) -> Any:
    more = length - x.shape[-1]
    return rnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)]) if more else x


def _spectra(x: Any, how: _Segments, fs: Any, trend: Any, onesided: bool) -> tuple[Any, Any, Any]:
    """Return frequencies, the spectra of segments, and what each frequency counts for."""
    count = (x.shape[-1] - how.size) // how.step + 1
    index = how.step * np.arange(count)[:, None] + np.arange(how.size)
    segments = _without_trend(rnp.take(x, index, -1), trend) * how.weights
    if not onesided or x.value.dtype.is_complex:
        return fft.fftfreq(how.transform, 1 / fs), fft.fft(segments, how.transform), 1.0
    # Frequencies but the first and, of even lengths, the last represent negative ones, too.
    numbers = np.arange(how.transform // 2 + 1)
    once = (numbers == 0) | (2 * numbers == how.transform)
    counted = np.where(once, 1, 2).astype(how.weights.dtype)
    return fft.rfftfreq(how.transform, 1 / fs), fft.rfft(segments, how.transform), counted


def _without_trend(segments: Any, trend: str | Callable[[Any], Any] | bool | None) -> Any:
    if not trend:
        return segments
    if isinstance(trend, str):
        return detrend(segments, type=trend)
    if not callable(trend):
        raise InputError(
            f"detrend is {trend!r}", remedy="use linear, constant, a function, or False for none"
        )
    return trend(segments)


def _scale_of(weights: Any, fs: Any, scaling: str, density: str = "density") -> Any:
    """Return what makes densities (by the name they have), or powers, of squares of spectra."""
    if scaling == density:
        return 1 / (fs * rnp.sum(rnp.square(weights)))
    if scaling != "spectrum":
        raise InputError(f"scaling is {scaling!r}", remedy=f"use {density} or spectrum")
    return 1 / rnp.square(rnp.sum(weights))


def _averaged(spectra: Any, average: str) -> Any:
    if average == "mean":
        return rnp.mean(spectra, -2)
    if average != "median":
        raise InputError(f"average is {average!r}", remedy="use mean or median")
    # The median of a power is below its mean, by this factor where noise is normal.
    count = spectra.shape[-2]
    bias = 1 + sum(1 / (2 * k + 1) - 1 / (2 * k) for k in range(1, (count - 1) // 2 + 1))
    parts = [rnp.median(part, -2) / bias for part in (rnp.real(spectra), rnp.imag(spectra))]
    return rnp.astype(parts[0] + 1j * parts[1], spectra.dtype)


def _overlapped(segments: Any, step: int) -> Any:
    """Add up segments, each `step` elements after the one before."""
    count, size = static_shape(segments)[-2:]
    places = step * np.arange(count)[:, None] + np.arange(size)
    found = rnp.zeros((*segments.shape[:-2], step * (count - 1) + size), segments.dtype)
    return found.at[..., places].add(segments)

"""Convolutions and spectra of signals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.numpy import fft
from rlx.numpy.axes import static_shape
from rlx.tracing.apply import function, inexact


@function
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
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
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """The convolution by way of the spectra."""
    a, b = inexact(in1, in2)
    if axes is not None and sorted(axes) != list(range(a.ndim)):
        raise ShapeError(f"axes is {axes}", remedy="leave axes out: all of them")
    pairs = zip(static_shape(a), static_shape(b), strict=True)
    sizes = [m + n - 1 for m, n in pairs]
    if rnp.issubdtype(a.dtype, rnp.complexfloating):
        whole = fft.ifftn(fft.fftn(a, sizes) * fft.fftn(b, sizes))
    else:
        whole = fft.irfftn(fft.rfftn(a, sizes) * fft.rfftn(b, sizes), sizes)
    return _cut(rnp.astype(whole, a.dtype), a.shape, b.shape, mode)


def _cut(whole: Any, a: Any, b: Any, mode: str) -> Any:
    if mode == "full":
        return whole
    if mode not in ("same", "valid"):
        raise ShapeError(f"mode is {mode!r}", remedy="use full, same or valid")
    if mode == "valid" and not (_covers(a, b) or _covers(b, a)):
        raise ShapeError(f"neither of {a} and {b} covers the other", remedy="use full or same")
    sizes = a if mode == "same" else [max(m, n) - min(m, n) + 1 for m, n in zip(a, b, strict=True)]
    starts = [(full - size) // 2 for full, size in zip(whole.shape, sizes, strict=True)]
    return whole[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


def _covers(a: Any, b: Any) -> bool:
    return all(m >= n for m, n in zip(a, b, strict=True))


@function
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """`convolve` with the conjugate of the reversed second array."""
    return convolve(in1, rnp.conj(rnp.flip(in2)), mode, method)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
    """`convolve` of matrices, with zeros around."""
    _require_zeros(boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Any:
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


@function
def detrend(data: Any, axis: int = -1, type: str = "linear") -> Any:
    """`data` less its mean ("constant"), or less the line that fits it best ("linear")."""
    x: Any = inexact(data)[0]
    centered = x - rnp.mean(x, axis, keepdims=True)
    if type == "constant" or x.shape[axis] < 2:
        return centered
    if type != "linear":
        raise ShapeError(f"type is {type!r}", remedy="use linear or constant")
    size = x.shape[axis]
    shape = [1] * x.ndim
    shape[axis] = size
    times = rnp.reshape(rnp.arange(size, dtype=x.dtype) - (size - 1) / 2, shape)
    slope = rnp.sum(centered * times, axis, keepdims=True) / rnp.sum(times * times)
    return centered - slope * times


def _window(name: Any, size: int) -> Any:
    if not isinstance(name, str):
        return rnp.asarray(name)
    if name in ("boxcar", "ones", "rect"):
        return rnp.ones(size)
    cosines = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}
    if name not in cosines:
        raise ShapeError(f"window is {name!r}", remedy=f"use boxcar, {', '.join(cosines)}")
    angle = 2 * math.pi * rnp.arange(size) / size
    parts = enumerate(cosines[name])
    return sum((-1) ** k * weight * rnp.cos(k * angle) for k, weight in parts)


def _frames(x: Any, size: int, step: int) -> Any:
    count = (x.shape[-1] - size) // step + 1
    index = step * rnp.arange(count)[:, None] + rnp.arange(size)[None, :]
    return rnp.take(x, index, -1)


@function
def stft(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: int = 256,
    noverlap: int | None = None, *, boundary: str | None = "zeros", padded: bool = True,
) -> Any:  # fmt: skip
    """Frequencies, times, and the spectra of windowed pieces of real signals, times last."""
    (x,) = inexact(x)
    nperseg = min(nperseg, x.shape[-1])
    step = nperseg - (nperseg // 2 if noverlap is None else noverlap)
    weights = rnp.astype(_window(window, nperseg), x.dtype)
    around = nperseg // 2 if boundary == "zeros" else 0
    length = x.shape[-1] + 2 * around
    more = -(length - nperseg) % step if padded else 0
    x = rnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(around, around + more)])
    spectra = fft.rfft(_frames(x, nperseg, step) * weights) / rnp.sum(weights)
    times = (rnp.arange(spectra.shape[-2]) * step + (0 if around else nperseg / 2)) / fs
    return fft.rfftfreq(nperseg, 1 / fs), times, rnp.swapaxes(spectra, -1, -2)


@function
def istft(
    Zxx: Any, fs: float = 1.0, window: Any = "hann", nperseg: int | None = None,  # noqa: N803
    noverlap: int | None = None, *, boundary: bool = True,
) -> Any:  # fmt: skip
    """Times, and the signals whose `stft` is nearest to the given one.

    Places that no window covers are 0.
    """
    (spectra,) = inexact(Zxx)
    size = 2 * (static_shape(spectra)[-2] - 1) if nperseg is None else nperseg
    step = size - (size // 2 if noverlap is None else noverlap)
    frames = fft.irfft(rnp.swapaxes(spectra, -1, -2), size)
    weights = rnp.astype(_window(window, size), frames.dtype)
    found = _overlapped(frames * (weights * rnp.sum(weights)), step)
    cover = _overlapped(rnp.broadcast_to(rnp.square(weights), frames.shape[-2:]), step)
    signals = found / rnp.where(rnp.greater(cover, _LEAST_COVER), cover, 1)
    if boundary:
        signals = signals[..., size // 2 : signals.shape[-1] - size // 2]
    return rnp.arange(signals.shape[-1]) / fs, signals


_LEAST_COVER = 1e-10


def _overlapped(frames: Any, step: int) -> Any:
    """Add up pieces, each `step` behind the one before."""
    count, size = static_shape(frames)[-2:]
    places = step * np.arange(count)[:, None] + np.arange(size)
    found = rnp.zeros((*frames.shape[:-2], step * (count - 1) + size), frames.dtype)
    return found.at[..., places].add(frames)


@function
def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann", nperseg: int = 256,
    noverlap: int | None = None, *, detrend: str | None = "constant",
) -> Any:  # fmt: skip
    """Frequencies and the cross density of two real signals, the mean over overlapping pieces.

    Signals of unequal length are padded with zeros.
    """
    x, y = inexact(x, y)
    length = max(x.shape[-1], y.shape[-1])
    nperseg = min(nperseg, length)
    step = nperseg - (nperseg // 2 if noverlap is None else noverlap)
    weights = rnp.astype(_window(window, nperseg), x.dtype)
    first, second = (
        _spectra(
            rnp.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, length - z.shape[-1])]),
            step,
            weights,
            detrend,
        )
        for z in (x, y)
    )
    densities = rnp.conj(first) * second * _density_of(weights, fs)
    return fft.rfftfreq(nperseg, 1 / fs), rnp.mean(densities, -2)


@function
def welch(
    x: Any, fs: float = 1.0, window: Any = "hann", nperseg: int = 256,
    noverlap: int | None = None, *, detrend: str | None = "constant",
) -> Any:  # fmt: skip
    """Frequencies and the power density of real signals, the mean over overlapping pieces."""
    (x,) = inexact(x)
    nperseg = min(nperseg, x.shape[-1])
    step = nperseg - (nperseg // 2 if noverlap is None else noverlap)
    weights = rnp.astype(_window(window, nperseg), x.dtype)
    power = rnp.square(rnp.abs(_spectra(x, step, weights, detrend)))
    return fft.rfftfreq(nperseg, 1 / fs), rnp.mean(power * _density_of(weights, fs), -2)


def _spectra(x: Any, step: int, weights: Any, detrend: str | None) -> Any:
    frames = _frames(x, weights.shape[0], step)
    if detrend == "constant":
        frames = frames - rnp.mean(frames, -1, keepdims=True)
    return fft.rfft(frames * weights)


def _density_of(weights: Any, fs: float) -> Any:
    """Return what turns products of spectra into densities, for each frequency."""
    size = weights.shape[0]
    number = rnp.arange(size // 2 + 1)
    once = rnp.logical_or(rnp.equal(number, 0), rnp.equal(2 * number, size))
    doubled = rnp.where(once, 1, 2)  # the other frequencies stand for negative ones, too
    return rnp.astype(doubled, weights.dtype) / (fs * rnp.sum(weights * weights))

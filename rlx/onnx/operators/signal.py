"""Fourier transforms and what is built around them."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.ir.shape import normalize_axis
from rlx.onnx.operators.shape import listable
from rlx.onnx.registry import Static, operator
from rlx.onnx.types import numpy_dtype

_MALFORMED = "the model is malformed: export it again"


def _basis(length: int, kept: int, inverse: bool, dtype: Any) -> tuple[Any, Any]:
    """Return cosines and sines of the transform, `[length, kept]`."""
    listable(length * kept, "the matrix of the transform")
    turns = np.outer(np.arange(length), np.arange(kept)) % length / length
    angle = 2 * np.pi * turns * (1 if inverse else -1)
    scale = 1 / length if inverse else 1.0
    return (np.cos(angle) * scale).astype(dtype), (np.sin(angle) * scale).astype(dtype)


def transform(x: Any, axis: int, length: int | None, inverse: bool, onesided: bool) -> Any:
    """Return the discrete Fourier transform along an axis; the last axis holds the parts."""
    position = normalize_axis(axis, x.ndim)
    moved = rnp.moveaxis(x, position, -2)
    extent = moved.shape[-2]
    count = extent if length is None else _positive(length, "the length of the transform")
    if inverse and onesided:
        count = 2 * (extent - 1) if length is None else length
        return rnp.moveaxis(_real_inverse(moved, count), -2, position)
    moved = _fitted(moved, count)
    kept = count // 2 + 1 if onesided else count
    cosines, sines = _basis(count, kept, inverse, x.dtype)
    re = rnp.getitem(moved, (..., 0))
    real, imaginary = rnp.matmul(re, cosines), rnp.matmul(re, sines)
    if moved.shape[-1] == 2:
        im = rnp.getitem(moved, (..., 1))
        real = rnp.subtract(real, rnp.matmul(im, sines))
        imaginary = rnp.add(imaginary, rnp.matmul(im, cosines))
    return rnp.moveaxis(rnp.stack([real, imaginary], -1), -2, position)


def _fitted(x: Any, count: int) -> Any:
    """Cut the second to last axis, or fill it with zeros."""
    extent = x.shape[-2]
    if extent >= count:
        return rnp.getitem(x, (..., slice(0, count), slice(None)))
    widths = ((0, 0),) * (x.ndim - 2) + ((0, count - extent), (0, 0))
    return rnp.pad(x, widths)


def _real_inverse(x: Any, count: int) -> Any:
    """Return the real signal of which half the spectrum is given."""
    listable((count // 2 + 1) * count, "the matrix of the transform")
    half = _fitted(x, count // 2 + 1)
    weights = np.full(count // 2 + 1, 2.0)
    weights[0] = 1.0
    if count % 2 == 0:
        weights[-1] = 1.0
    turns = np.outer(np.arange(count // 2 + 1), np.arange(count)) % count / count
    scale = (weights / count)[:, None]
    cosines = (np.cos(2 * np.pi * turns) * scale).astype(x.dtype)
    sines = (np.sin(2 * np.pi * turns) * scale).astype(x.dtype)
    re, im = rnp.getitem(half, (..., 0)), rnp.getitem(half, (..., 1))
    signal = rnp.subtract(rnp.matmul(re, cosines), rnp.matmul(im, sines))
    return rnp.expand_dims(signal, -1)


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise FormatError(f"{what} is {number}; it must be 1 or more", remedy=_MALFORMED)
    return number


@operator("DFT", since=20)
def dft(
    x: Any, length: Static = None, axis: Static = None, *, inverse: int = 0, onesided: int = 0
) -> Any:
    named = -2 if axis is None else int(np.reshape(axis, ()))
    count = None if length is None else int(np.reshape(length, ()))
    return transform(x, named, count, bool(inverse), bool(onesided))


@operator("DFT")
def dft_17(
    x: Any, length: Static = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    count = None if length is None else int(np.reshape(length, ()))
    return transform(x, axis, count, bool(inverse), bool(onesided))


@operator("STFT")
def stft(
    x: Any, step: Static, window: Any = None, length: Static = None, *, onesided: int = 1
) -> Any:
    """Transforms of frames `step` apart: `[batch, frames, bins, 2]`."""
    size = int(np.reshape(length, ())) if length is not None else window.shape[0]
    apart = _positive(int(np.reshape(step, ())), "the step between frames")
    _positive(size, "the length of a frame")
    signal = x if x.ndim == 3 else rnp.expand_dims(x, -1)
    listable(signal.shape[1], "the signal")
    starts = np.arange(0, signal.shape[1] - size + 1, apart)
    listable(len(starts) * size, "the frames")
    places = starts[:, None] + np.arange(size)
    frames = rnp.take(signal, places, axis=1)
    if window is not None:
        frames = rnp.multiply(frames, rnp.reshape(window, (1, 1, size, 1)))
    return transform(frames, 2, None, inverse=False, onesided=bool(onesided))


@operator("MelWeightMatrix")
def mel_weight_matrix(
    bins: Static, length: Static, rate: Static, lower: Static, upper: Static,
    *, output_datatype: int = 1,
) -> Any:  # fmt: skip
    """Triangles over the bins of a spectrum, evenly apart on the mel scale."""
    count, size, sampled = (int(np.reshape(v, ())) for v in (bins, length, rate))
    if min(count, size, sampled) < 1:
        raise FormatError(
            f"{count} bins of spectra of {size} at {sampled} Hz: each must be 1 or more",
            remedy=_MALFORMED,
        )
    listable((count + 2) * (size // 2 + 1), "the matrix of weights")
    low, high = (2595 * np.log10(1 + float(np.reshape(v, ())) / 700) for v in (lower, upper))
    step = (high - low) / (count + 2)
    mels = np.arange(count + 2) * step + low
    edges = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // sampled).astype(np.int64)
    found = np.zeros((size // 2 + 1, count))
    if edges.min() < 0 or edges.max() >= len(found):
        raise FormatError(
            f"triangles from bin {edges.min()} to bin {edges.max()} of a spectrum of {len(found)}",
            remedy=_MALFORMED,
        )
    for i in range(count):
        first, center, last = edges[i : i + 3]
        if center == first:
            found[center, i] = 1
        else:
            rising = np.arange(first, center + 1)
            found[rising, i] = (rising - first) / (center - first)
        if last > center:
            falling = np.arange(center, last)
            found[falling, i] = (last - falling) / (last - center)
    return found.astype(numpy_dtype(output_datatype))

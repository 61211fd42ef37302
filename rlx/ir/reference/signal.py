"""The discrete Fourier transform in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.fft)
def fft(x: Array, *, axis: int, inverse: bool, scale: float) -> Array:
    """In f64, rounded once; the order of the sums is the library's."""
    if np.iscomplexobj(x):
        return (_transformed(x, inverse, axis) * scale).astype(x.dtype)
    re, im = np.split(x.astype(np.float64), 2, axis=-1)
    found = _transformed(re + 1j * im, inverse) * scale
    return np.concatenate([found.real, found.imag], axis=-1).astype(x.dtype)


@reference(ops.dft)
def dft(x: Array, _roots: Array, *, inverse: bool, scale: float) -> Array:
    return (_transformed(x, inverse, 1) * scale).astype(x.dtype)


@reference(ops.dft_of_prime)
def dft_of_prime(x: Array, *_tables: Array, inverse: bool, scale: float) -> Array:
    return dft(x, *_tables[:1], inverse=inverse, scale=scale)


@reference(ops.dft_of_reals)
def dft_of_reals(x: Array, _roots: Array, *, scale: float) -> Array:
    return rfft(x, axis=1, scale=scale)


@reference(ops.dft_to_reals)
def dft_to_reals(x: Array, _roots: Array, *, scale: float) -> Array:
    return irfft(x, n=2 * (x.shape[1] - 1), axis=1, scale=scale)


@reference(ops.rfft)
def rfft(x: Array, *, axis: int, scale: float) -> Array:
    found = np.fft.rfft(x.astype(np.float64), axis=axis) * scale
    return found.astype(np.result_type(x.dtype, np.complex64))


@reference(ops.irfft)
def irfft(x: Array, *, n: int, axis: int, scale: float) -> Array:
    found = np.fft.irfft(x.astype(np.complex128), n, axis=axis, norm="forward") * scale
    return found.astype(x.real.dtype)


def _transformed(x: Array, inverse: bool, axis: int = -1) -> Array:
    wide = x.astype(np.complex128)
    if inverse:
        back: Array = np.fft.ifft(wide, axis=axis, norm="forward")
        return back
    found: Array = np.fft.fft(wide, axis=axis)
    return found

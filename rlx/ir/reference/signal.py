"""The discrete Fourier transform in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.fft)
def fft(x: Array, *, inverse: bool, scale: float) -> Array:
    """In f64, rounded once; the order of the sums is the library's."""
    if np.iscomplexobj(x):
        return (_transformed(x, inverse) * scale).astype(x.dtype)
    re, im = np.split(x.astype(np.float64), 2, axis=-1)
    found = _transformed(re + 1j * im, inverse) * scale
    return np.concatenate([found.real, found.imag], axis=-1).astype(x.dtype)


def _transformed(x: Array, inverse: bool) -> Array:
    wide = x.astype(np.complex128)
    found: Array = np.fft.ifft(wide, norm="forward") if inverse else np.fft.fft(wide)
    return found

"""Derivatives of Fourier transforms: they are linear, and the transpose of one is another."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import upper
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear, nondifferentiable


def fft_vjp(at: Pullback, x: Value, *, axis: int, inverse: bool, scale: float) -> Derivatives:
    return [ops.fft(at.cotangent, axis=axis, inverse=not inverse, scale=scale)]


def rfft_vjp(at: Pullback, x: Value, *, axis: int, scale: float) -> Derivatives:
    """Between real and complex the pairing counts the real part twice."""
    n = upper(x.shape[axis])
    weighted = at.cotangent * _bin_weights(at.cotangent, n, axis, ends=2.0, inside=1.0)
    return [ops.irfft(weighted, n=n, axis=axis, scale=scale)]


def irfft_vjp(at: Pullback, x: Value, *, n: int, axis: int, scale: float) -> Derivatives:
    spectrum = ops.rfft(at.cotangent, axis=axis, scale=scale)
    return [spectrum * _bin_weights(x, n, axis, ends=0.5, inside=1.0)]


def _bin_weights(spectrum: Value, n: int, axis: int, *, ends: float, inside: float) -> Value:
    """Return weights of bins: those that mirror themselves are at the ends."""
    weights = np.full(n // 2 + 1, inside)
    weights[0] = ends
    if n % 2 == 0:
        weights[-1] = ends
    shape = [1] * spectrum.rank
    shape[axis] = len(weights)
    return spectrum.graph.constant(weights.reshape(shape), spectrum.dtype)


linear(ops.fft, fft_vjp)
linear(ops.rfft, rfft_vjp)
linear(ops.irfft, irfft_vjp)
nondifferentiable(
    *(ops.dft, ops.dft_of_prime, ops.dft_of_reals, ops.dft_to_reals),
    because="the formula of fft, rfft or irfft makes it, which is differentiated as one",
)

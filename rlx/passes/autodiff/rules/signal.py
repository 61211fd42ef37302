"""Derivatives of the Fourier transform: it is linear, and its own transpose up to a sign."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear, nondifferentiable


def fft_vjp(at: Pullback, x: Value, *, axis: int, inverse: bool, scale: float) -> Derivatives:
    return [ops.fft(at.cotangent, axis=axis, inverse=not inverse, scale=scale)]


linear(ops.fft, fft_vjp)
nondifferentiable(ops.dft, because="the formula of fft makes it, which is differentiated as one")

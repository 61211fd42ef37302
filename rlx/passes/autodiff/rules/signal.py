"""Derivatives of the Fourier transform: it is linear, and its own transpose up to a sign."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.autodiff.registry import Derivatives, Pullback, linear


def fft_vjp(at: Pullback, x: Value, *, inverse: bool, scale: float) -> Derivatives:
    return [ops.fft(at.cotangent, inverse=not inverse, scale=scale)]


linear(ops.fft, fft_vjp)

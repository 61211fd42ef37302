"""Cotangents of complex values: JAX's convention outside, one with real pairings in the rules.

Of a real function of `z = x + iy`, JAX's gradient is `df/dx - i df/dy`, and the pullback of a
holomorphic function multiplies by its derivative. The rules of this package compute the gradient
by the conjugate, `g = (df/dx + i df/dy) / 2`, of which a tangent `t` gives `2 Re(conj(g) t)`.
"""

from __future__ import annotations

from rlx.ir.graph import Value
from rlx.passes.algebra import conjugate


def from_rules(cotangent: Value) -> Value:
    """Return a cotangent of the rules by JAX's convention; real ones are the same."""
    return conjugate(cotangent) * 2.0 if cotangent.dtype.is_complex else cotangent


def to_rules(cotangent: Value) -> Value:
    """Return a cotangent by JAX's convention as the rules have it; real ones are the same."""
    return conjugate(cotangent) * 0.5 if cotangent.dtype.is_complex else cotangent

"""Solutions of least squares and pseudo-inverses, by the singular values that count.

Leading axes are a batch. Singular values up to the real part of `rtol`, a number for each matrix,
times the largest count as zero.
"""

from __future__ import annotations

from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.decompositions import svd
from rlx.ir.ops.elementwise import cast, conj, gt, real, where
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import reduce_max
from rlx.ir.ops.shape import reshape
from rlx.ir.ops.solve import swap_last

__all__ = ["least_squares", "pseudo_inverse"]

_FAMILY = "linalg"


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def pseudo_inverse(a: Value, rtol: Value) -> Value:
    """The pseudo-inverse of Moore and Penrose."""
    left, inverses, right = _by_values(a, rtol)
    across = reshape(inverses, shape=(*inverses.shape[:-1], 1, inverses.shape[-1]))
    found: Value = matmul(right * across, _adjoint(left))
    return found


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def least_squares(a: Value, b: Value, rtol: Value) -> Value:
    """The least x among those for which `a @ x - b` is least."""
    left, inverses, right = _by_values(a, rtol)
    down = reshape(inverses, shape=(*inverses.shape, 1))
    found: Value = matmul(right, down * matmul(_adjoint(left), b))
    return found


def _by_values(a: Value, rtol: Value) -> tuple[Value, Value, Value]:
    """Return left vectors, the inverses of the values that count, 0 for others, right vectors."""
    is_wide = a.type.with_shape(a.shape[-2:]).static_shape[0] < a.shape[-1]
    u, s, vt = svd(swap_last(a) if is_wide else a)
    ratio = real(rtol) if a.dtype.is_complex else rtol
    cut = reshape(ratio, shape=(*ratio.shape, 1)) * reduce_max(s, axes=(-1,), keepdims=True)
    kept = gt(s, cut)
    inverses = cast(where(kept, 1.0 / where(kept, s, 1.0), 0.0), to=a.dtype)
    left, right = (swap_last(vt), _conjugate(u)) if is_wide else (u, _adjoint(vt))
    return left, inverses, right


def _conjugate(z: Value) -> Value:
    found: Value = conj(z) if z.dtype.is_complex else z
    return found


def _adjoint(z: Value) -> Value:
    return swap_last(_conjugate(z))

"""Random matrices."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.numpy.axes import shape_from
from rlx.random.continuous import standard_normal
from rlx.random.uniforms import float_dtype
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function


@function
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Array:
    """Uniformly drawn matrices [n, m] whose rows or columns, the fewer of them, are orthonormal."""
    columns = n if m is None else m
    extents = (*shape_from(shape), max(n, columns), min(n, columns))
    drawn = standard_normal(key, extents, float_dtype(dtype, "orthogonal"))
    q, r = rnp.linalg.qr(drawn)
    signs = rnp.sign(rnp.linalg.diagonal(r))
    found = rnp.multiply(q, rnp.expand_dims(signs, -2))
    return rnp.matrix_transpose(found) if n < columns else found

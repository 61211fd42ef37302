"""Running means of gradients and of their powers, and their bias corrections."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.tracing.pytree import tree_leaves, tree_map
from rlx.tracing.trace import element_type


def moment(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """Return the running means of the updates to the power `order`."""
    return tree_map(lambda g, t: decay * t + (1 - decay) * _power(g, order), updates, moments)


def _power(g: Any, order: int) -> Any:
    return g if order == 1 else rnp.square(rnp.abs(g))


def infinity_moment(updates: Any, moments: Any, decay: Any, eps: Any) -> Any:
    """Return the running maxima of the updates' magnitudes."""
    return tree_map(lambda g, t: rnp.maximum(rnp.abs(g) + eps, decay * t), updates, moments)


def bias_corrected(moments: Any, decay: Any, count: Any) -> Any:
    """Return running means that began at 0, as if they had begun with the first update."""
    dtypes = dict.fromkeys(map(_factor_dtype, tree_leaves(moments)))
    factors = {d: 1 / (1 - rnp.power(d(decay), rnp.astype(count, d))) for d in dtypes}
    return tree_map(lambda t: rnp.astype(t * factors[_factor_dtype(t)], t.dtype), moments)


def _factor_dtype(x: Any) -> type[np.floating[Any]]:
    """Return float64 for arrays of it; for others float32."""
    return np.float64 if element_type(x).dtype is DType.F64 else np.float32


def nesterov_moment(updates: Any, moments: Any, decay: Any, count: Any, nesterov: bool) -> Any:
    """Return corrected first moments; with `nesterov`, one step ahead."""
    if not nesterov:
        return bias_corrected(moments, decay, count)
    ahead = bias_corrected(moments, decay, count + 1)
    now = bias_corrected(updates, decay, count)
    return tree_map(lambda m, g: decay * m + (1 - decay) * g, ahead, now)


def ratio(means: Any, squares: Any, eps: Any, eps_root: Any = 0.0) -> Any:
    """Return the means over the roots of the squares."""

    def divide(m: Any, v: Any) -> Any:
        return m / (rnp.sqrt(v + eps_root if eps_root else v) + eps)

    return tree_map(divide, means, squares)


def in_dtypes(moments: Any, dtype: Any) -> Any:
    """Return `moments` converted to `dtype`, unless that is None."""
    if dtype is None:
        return moments
    return tree_map(lambda t: rnp.astype(t, dtype), moments)

"""Products of one-hot vectors: rows of the other matrix, which are looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.tracing.apply import wrap
from rlx.tracing.trace import TracedArray, as_value


def rows_of_one_hot(a: Any, b: Any, weights: np.ndarray[Any, Any] | None) -> Any:
    """Return `a @ b` as rows of `b` where `a` is one-hot by construction, else None.

    That is `cast(places == arange(depth))`, as JAX and TensorFlow write it; a place beyond the
    depth gives zeros. `weights` are the numbers of `b`, if known: a product would spread a NaN or
    infinity of one row to all, and has no zeros below zero.
    """
    if weights is None or weights.ndim != 2 or not isinstance(a, TracedArray):
        return None
    found = _places(as_value(a))
    if found is None or not np.isfinite(weights).all() or _has_negative_zero(weights):
        return None
    places = wrap(found)
    depth = weights.shape[0]
    inside = rnp.logical_and(rnp.greater_equal(places, 0), rnp.less(places, depth))
    rows = rnp.take(b, rnp.squeeze(places, -1), axis=0, mode="clip")
    return rnp.where(inside, rows, np.zeros((), weights.dtype))


def _places(one_hot: Value) -> Value | None:
    """Return the integers, with a last axis of one, that a value is the one-hot vectors of."""
    if one_hot.op is not ops.cast or one_hot.node.operands[0].op is not ops.eq:
        return None
    depth = one_hot.shape[-1]
    if not isinstance(depth, int):
        return None
    first, second = one_hot.node.operands[0].node.operands
    for places, classes in ((first, second), (second, first)):
        counts = classes.op is ops.constant and classes.shape[-1:] == (depth,)
        if not counts or places.rank != one_hot.rank or places.shape != (*one_hot.shape[:-1], 1):
            continue
        numbers = classes.node.attribute("value").array.reshape(-1)
        if places.dtype.is_int and np.array_equal(numbers, np.arange(depth)):
            return places
    return None


def _has_negative_zero(x: np.ndarray[Any, Any]) -> bool:
    return bool((np.signbit(x) & (x == 0)).any())

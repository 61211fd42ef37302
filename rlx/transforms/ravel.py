"""`ravel_pytree`: all elements of a tree as one vector, and the way back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.errors import DTypeError, ShapeError
from rlx.tracing.pytree import tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the leaves of a tree in one vector, and the function that makes the tree of one.

    The vector's dtype is the one that all leaves promote to; the way back gives each leaf its
    own shape and dtype, and takes floats of any precision for floats. A tree without leaves is a
    vector without elements.

        flat, unravel = rlx.ravel_pytree({"w": w, "b": b})
        assert unravel(flat)["w"].shape == w.shape

    Raises:
        ShapeError: by the way back, for an array that is no vector of as many elements.
        DTypeError: by the way back, for a vector of another kind of numbers.
    """
    leaves, structure = tree_flatten(pytree)
    arrays: list[Any] = [rnp.asarray(leaf) for leaf in leaves]
    sizes = [math.prod(array.shape) for array in arrays]
    kinds = [(array.shape, array.dtype) for array in arrays]
    ends = list(itertools.accumulate(sizes))
    total = sum(sizes)
    common = rnp.result_type(*(dtype for _, dtype in kinds)) if arrays else rnp.dtype("float32")

    def unravel(vector: Any) -> Any:
        if rnp.shape(vector) != (total,):
            raise ShapeError(
                f"unravel: a vector of shape {rnp.shape(vector)} was given for a tree of "
                f"{total} elements",
                remedy=f"give a vector of shape ({total},)",
            )
        if not _is_taken(rnp.result_type(vector), common):
            raise DTypeError(
                f"unravel: a vector of dtype {rnp.result_type(vector)} was given for a tree "
                f"that promotes to {common}",
                remedy=f"convert the vector with astype({str(common)!r})",
            )
        parts = [vector[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        whole = zip(parts, kinds, strict=True)
        return tree_unflatten(structure, [rnp.reshape(p, s).astype(d) for p, (s, d) in whole])

    if not arrays:
        return rnp.zeros(0, common), unravel
    return rnp.concatenate([rnp.ravel(array).astype(common) for array in arrays]), unravel


def _is_taken(given: Any, common: Any) -> bool:
    """True if numbers of one dtype are of the other's kind, or of a lesser one."""
    return bool(given == common or rnp.can_cast(given, common, "same_kind"))

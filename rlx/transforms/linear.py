"""Linear parts of functions: `linearize` and `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.tracing.pytree import tree_map
from rlx.tracing.trace import element_type
from rlx.transforms.abstract import ShapeDtypeStruct
from rlx.transforms.differentiate import jvp, vjp


def linearize(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return `fun(*primals)` and the linear function from tangents to the result's tangent.

    That function computes what it needs of `fun` again; in one compiled graph the two merge.
    """

    def pushforward(*tangents: Any) -> Any:
        return jvp(fun, primals, tangents)[1]

    return fun(*primals), pushforward


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in arguments like `primals`."""
    origin = tuple(tree_map(_zeros, primal) for primal in primals)

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        pulled: tuple[Any, ...] = vjp(fun, *origin)[1](cotangent)
        return pulled

    return transposed


def _zeros(leaf: Any) -> Any:
    if isinstance(leaf, ShapeDtypeStruct):
        return rnp.zeros(leaf.shape, leaf.dtype)
    return rnp.zeros_like(leaf, element_type(leaf).dtype.numpy)

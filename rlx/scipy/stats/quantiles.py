"""Quantiles of distributions that have no formula for them; all is computed in f64.

Derivatives are those of the implicit function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.random.truncated import beyond
from rlx.scipy import special
from rlx.tracing.apply import function
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import jvp


def quantile(
    name: str, solve: Callable[..., Any], share: Callable[..., Any], density: Callable[..., Any],
    *, upper: bool,
) -> Callable[..., Any]:  # fmt: skip
    """Return the inverse of `share(x, *shapes)` by `solve(p, upper, *shapes)`."""

    @custom_jvp
    def inverse(p: Any, *shapes: Any) -> Any:
        dtype = p.dtype
        wide = [rnp.astype(x, np.float64) for x in rnp.broadcast_arrays(p, *shapes)]
        return rnp.astype(solve(wide[0], upper, *wide[1:]), dtype)

    @inverse.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (p, *shapes), (dp, *changes) = primals, tangents
        x = inverse(p, *shapes)
        moved = jvp(lambda *shapes: share(x, *shapes), tuple(shapes), tuple(changes))[1]
        slope = rnp.exp(density(x, *shapes))
        return x, (dp - moved) / (-slope if upper else slope)

    inverse.__name__ = name
    return inverse


@function
def truncnorm_quantile(p: Any, upper: bool, a: Any, b: Any) -> Any:
    """The truncated normal's: beyond 1 or -1 by the ratio of tails, else by the smaller share."""
    below, above = (1 - p, p) if upper else (p, 1 - p)
    valid = rnp.less(a, b)
    is_right, is_left = rnp.greater(a, 1), rnp.less(b, -1)
    is_tail = valid & (is_right | is_left)
    near, far = rnp.where(is_right, a, -b), rnp.where(is_right, b, -a)
    near, far = rnp.where(is_tail, near, 2.0), rnp.where(is_tail, far, 3.0)
    inner, outer = rnp.where(is_right, below, above), rnp.where(is_right, above, below)
    tail = beyond(inner, outer, near, far)
    low, high = rnp.where(is_tail | ~valid, -1.0, a), rnp.where(is_tail | ~valid, 1.0, b)
    lower = special.ndtr(low) + below * (special.ndtr(high) - special.ndtr(low))
    higher = special.ndtr(-high) + above * (special.ndtr(-low) - special.ndtr(-high))
    by_lower = rnp.less(lower, higher)
    found = special.ndtri(rnp.where(by_lower, lower, higher))
    found = rnp.where(by_lower, found, -found)
    found = rnp.where(is_tail, rnp.where(is_right, tail, -tail), found)
    found = rnp.minimum(rnp.maximum(found, a), b)
    found = rnp.where(rnp.equal(below, 0), a, rnp.where(rnp.equal(above, 0), b, found))
    return rnp.where(valid, found, rnp.nan)

"""Orthogonal polynomials of `torch.special`, by their recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.torch.registry import RULES, Entry

Step = Callable[[Any, Any, Any, Any], Any]
"""The polynomial of degree k + 1 of x, k and those of degrees k - 1 and k."""


def _polynomial(first: Callable[[Any], Any], step: Step, is_limited: bool = False) -> Any:
    """Return the function of `x` and degrees: 1, `first(x)`, then by `step`; 0 below degree 0.

    Where it `is_limited`, degrees above 128 (f32) or 512 (f64) give NaN, as in PyTorch.
    """

    def apply(x: Any, degree: Any) -> Any:
        x, degree = rnp.broadcast_arrays(rnp.asarray(x), rnp.asarray(degree))
        dtype = x.value.dtype
        degree = rnp.trunc(degree).astype("i64")
        highest = rnp.max(degree, initial=0)
        limit = 512 if dtype is DType.F64 else 128
        if is_limited:
            highest = rnp.minimum(highest, limit)

        def go_on(state: Any) -> Any:
            return rnp.less_equal(state[0], highest)

        def advance(state: Any) -> Any:
            k, before, own, found = state
            found = rnp.where(rnp.equal(degree, k), own, found)
            return k + 1, own, step(x, k.astype(dtype), before, own).astype(dtype), found

        start = (
            rnp.asarray(1, "i64"), rnp.ones_like(x), first(x).astype(dtype),
            rnp.equal(degree, 0).astype(dtype),
        )  # fmt: skip
        found = rlx.while_loop(go_on, advance, start)[-1]
        return rnp.where(rnp.greater(degree, limit), math.nan, found) if is_limited else found

    return apply


def _chebyshev(x: Any, k: Any, before: Any, own: Any) -> Any:
    return 2 * x * own - before


def _shifted(apply: Any) -> Any:
    return lambda x, degree: apply(2 * rnp.asarray(x) - 1, degree)


_FIRST: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1,
}  # fmt: skip
_TABLE = {
    **{f"chebyshev_polynomial_{kind}": _polynomial(f, _chebyshev) for kind, f in _FIRST.items()},
    **{
        f"shifted_chebyshev_polynomial_{kind}": _shifted(_polynomial(f, _chebyshev))
        for kind, f in _FIRST.items()
    },
    "hermite_polynomial_h": _polynomial(
        lambda x: 2 * x, lambda x, k, before, own: 2 * (x * own - k * before), True
    ),
    "hermite_polynomial_he": _polynomial(
        lambda x: x, lambda x, k, before, own: x * own - k * before, True
    ),
    "laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x,
        lambda x, k, before, own: ((2 * k + 1 - x) * own - k * before) / (k + 1),
    ),
    "legendre_polynomial_p": _polynomial(
        lambda x: x, lambda x, k, before, own: ((2 * k + 1) * x * own - k * before) / (k + 1)
    ),
}
RULES.update({f"special_{name}": Entry(apply, "result") for name, apply in _TABLE.items()})

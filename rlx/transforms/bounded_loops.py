"""Scans over a number of steps that is symbolic: run to its bound, with the steps beyond skipped.

A program is compiled once for all extents within their bounds, and the memory of a loop is
planned for its bound anyway. A skipped step is the branch of a `cond` that returns the carry, so
it costs the test alone, and derivatives are those of the steps that are run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.shape import Dim, Extent, is_at_most
from rlx.ir.source_lines import calling_source
from rlx.tracing.loops import scan_rows
from rlx.tracing.pytree import tree_map
from rlx.tracing.trace import element_type, shape_of
from rlx.transforms.abstract import eval_shape
from rlx.transforms.branches import cond

Function = Callable[..., Any]


def scan_to_bound(
    f: Function,
    init: Any,
    xs: Any,
    steps: Dim,
    reverse: bool,
    checkpoints: int | Literal["sqrt"] | None,
) -> Any:
    """Append the loop `carry, y = f(carry, x)` over `steps` rows to the open trace."""
    if not is_at_most(0, steps):
        raise ShapeError(
            f"scan: the number of steps, {steps}, may be negative",
            source=calling_source(),
            remedy="bound it from below, rlx.Dim(..., min=, max=)",
        )
    rows = tree_map(functools.partial(_padded, steps, steps.upper), xs)
    carry, ys = _scan(f, init, rows, steps, reverse, checkpoints)
    return carry, tree_map(lambda y: y[:steps], ys)


def fori_to_bound(step: Function, init: Any, first: Extent, steps: Dim) -> Any:
    """Append the loop `carry, _ = step(carry, index)` for `steps` indices, none if negative."""
    indices = rnp.arange(max(steps.upper, 0)) + first
    return _scan(step, init, indices, steps, False, None)[0]


def _scan(
    f: Function,
    init: Any,
    rows: Any,
    steps: Dim,
    reverse: bool,
    checkpoints: int | Literal["sqrt"] | None,
) -> Any:
    """Append the scan over all rows up to the bound of `steps`, which skips the others."""

    @functools.wraps(f)
    def step(carry: Any, row: Any) -> Any:
        index, x = row
        outputs = eval_shape(f, carry, x)[1]

        def taken(carry: Any, x: Any) -> Any:  # `f` may have the signature of what it wraps
            return f(carry, x)

        def skipped(carry: Any, _: Any) -> Any:
            return carry, tree_map(lambda y: rnp.zeros(y.shape, y.dtype), outputs)

        return cond(index < steps, taken, skipped, carry, x)

    numbers = rnp.arange(max(steps.upper, 0))
    return scan_rows(step, init, (numbers, rows), None, reverse, checkpoints)


def _padded(steps: Dim, bound: int, x: Any) -> Any:
    """Return rows with zeros after them up to the bound."""
    missing = rnp.zeros((bound - steps, *shape_of(x)[1:]), element_type(x).dtype)
    return rnp.concatenate([x, missing])

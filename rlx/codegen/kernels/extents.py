"""Extents inside a kernel: literals, or expressions over its i64 arguments; groups of axes."""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Prim
from rlx.ir.shape import Extent, Factor, Quotient, Shape


class Extents:
    """Turns extents into expressions; `symbols` maps each symbol's name to its argument."""

    def __init__(self, symbols: Mapping[str, E]) -> None:
        self._symbols = dict(symbols)

    def __call__(self, extent: Extent) -> E:
        if isinstance(extent, int):
            return const(extent, Prim.I64)
        total = const(0, Prim.I64)
        for monomial, coefficient in extent.terms:
            term = const(coefficient, Prim.I64)
            for factor in monomial:
                term = term * self._factor(factor)
            total = total + term
        return total

    def number(self, extent: Extent) -> int | E:
        """Return an extent as the number that it is, or as an expression."""
        return extent if isinstance(extent, int) else self(extent)

    def _factor(self, factor: Factor) -> E:
        """Return a factor; division rounds towards zero, so a dividend is made nonnegative."""
        if not isinstance(factor, Quotient):
            return self._symbols[factor.name]
        dividend, missing = factor.nonnegative
        return self(dividend) / factor.divisor - missing


def matrix_groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Group the axes of `[..., rows, columns]` as (batch, row, column)."""
    rank = len(shape) - 2
    return (tuple(range(rank)), (rank,), (rank + 1,))


def row_groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Group the axes as (nothing, all rows, column): one matrix multiplies all rows."""
    rank = len(shape) - 1
    return ((), tuple(range(rank)), (rank,))


def vector_groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Group the axes as (all but the last, the last)."""
    rank = len(shape) - 1
    return (tuple(range(rank)), (rank,))

"""Extents as numbers: a program reads them off its shapes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.shape import Dim, Extent, Quotient, Symbol
from rlx.numpy import elementwise
from rlx.tracing.apply import emit


def extent_number(extent: Extent) -> Any:
    """Return an extent as an i64: a traced one where the extent is symbolic."""
    if isinstance(extent, int):
        return np.int64(extent)
    products = (
        functools.reduce(elementwise.multiply, map(_factor, monomial), np.int64(coefficient))
        for monomial, coefficient in extent.terms
    )
    return functools.reduce(elementwise.add, products)


def _factor(factor: Symbol | Quotient) -> Any:
    """Return a symbol as the sum of so many ones."""
    if isinstance(factor, Quotient):
        return elementwise.floor_divide(extent_number(factor.dividend), np.int64(factor.divisor))
    extent = Dim(factor.name, max=factor.max, min=factor.min)
    return emit(ops.reduce_sum, emit(ops.expand, np.int64(1), shape=(extent,)), axes=(0,))

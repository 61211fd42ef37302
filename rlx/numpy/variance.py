"""Variance and standard deviation, with versions that ignore NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, product
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of
from rlx.numpy.creation import dtype_of, ones_like
from rlx.numpy.reductions import mean, of_integers, present, sum
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, emit, function, inexact
from rlx.tracing.trace import element_type


@function
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: float | None = None,
) -> Array:
    """Variance about the mean; divided by the count less `ddof`, also called `correction`."""
    if ddof and correction is not None:
        raise InputError(
            f"ddof is {ddof} and correction is {correction}, which are two names of one parameter",
            remedy="pass one of them",
        )
    ddof = ddof if correction is None else correction
    if dtype is None and element_type(a).dtype.is_int:
        return of_integers(var, a, axis, ddof=ddof, keepdims=keepdims, where=where)
    (a,) = inexact(a) if dtype is None else [_in_dtype(a, dtype_of(dtype, DType.F64))]
    if where is not None:  # what is left out must not spoil slopes
        a = elementwise.where(where, a, 0)
    centered = elementwise.subtract(a, mean(a, axis, keepdims=True, where=where))
    squares = (
        emit(ops.complex_norm_sq, centered)
        if a.value.dtype.is_complex
        else elementwise.square(centered)
    )
    if where is not None:
        chosen = elementwise.where(where, ones_like(squares), 0)
        count = elementwise.subtract(sum(chosen, axis, keepdims=keepdims), ddof)
        total = sum(squares, axis, keepdims=keepdims, where=where)
        return elementwise.divide(total, elementwise.maximum(count, 0))
    if ddof == 0:
        return mean(squares, axis, keepdims=keepdims)
    elements: Extent = product(a.shape[each] for each in axes_of(axis, a.ndim))
    degrees = elementwise.maximum(elementwise.subtract(elements, ddof), 0.0)
    return elementwise.divide(sum(squares, axis, keepdims=keepdims), degrees)


def _in_dtype(x: Any, dtype: DType) -> Any:
    """Return `x` in the dtype in which its variance is asked for."""
    if element_type(x).dtype.is_complex and not dtype.is_complex:
        raise DTypeError(
            f"dtype is {dtype}, and the elements are complex, whose imaginary parts would be lost",
            remedy="leave dtype out, or pass rlx.numpy.real(x)",
        )
    return convert(x, dtype)


@function
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: float | None = None,
) -> Array:
    """Standard deviation: the root of `var`."""
    how: dict[str, Any] = {"ddof": ddof, "correction": correction, "keepdims": keepdims}
    return elementwise.sqrt(var(a, axis, dtype, where=where, **how))


@function
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Variance of what is no NaN; NaN where no more than `ddof` elements are left."""
    chosen = present(a, where)
    found = var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=chosen)
    counted = elementwise.logical_and(chosen, ones_like(a, "bool"))
    is_open = elementwise.less_equal(sum(counted, axis, keepdims=keepdims), ddof)
    return elementwise.where(is_open, np.nan, found)


@function
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Standard deviation of what is no NaN."""
    found = nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where)
    return elementwise.sqrt(found)

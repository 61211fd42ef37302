"""Whole arrays compared, and what kinds of numbers arrays hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.shape import broadcast_shapes
from rlx.numpy import elementwise
from rlx.numpy.reductions import all
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function
from rlx.tracing.trace import TracedArray, element_type, shape_of


@function
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """True if all elements are close, as `isclose` has it."""
    return all(elementwise.isclose(a, b, rtol, atol, equal_nan))


@function
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """True if both arrays have one shape and the same elements."""
    if shape_of(a1) != shape_of(a2):
        return as_tracer(False)
    return all(_same(a1, a2, equal_nan))


@function
def array_equiv(a1: Any, a2: Any) -> Array:
    """True if both arrays broadcast to the same elements."""
    try:
        broadcast_shapes(shape_of(a1), shape_of(a2))
    except ShapeError:
        return as_tracer(False)
    return all(elementwise.equal(a1, a2))


def _same(x: Any, y: Any, equal_nan: bool) -> Any:
    same = elementwise.equal(x, y)
    if not equal_nan:
        return same
    both = elementwise.logical_and(elementwise.isnan(x), elementwise.isnan(y))
    return elementwise.logical_or(same, both)


@function
def isposinf(x: Any, out: None = None) -> Array:
    """True where `x` is the positive infinity."""
    return elementwise.equal(x, np.inf) if _is_float(x) else elementwise.not_equal(x, x)


@function
def isneginf(x: Any, out: None = None) -> Array:
    """True where `x` is the negative infinity."""
    return elementwise.equal(x, -np.inf) if _is_float(x) else elementwise.not_equal(x, x)


def _is_float(x: Any) -> bool:
    return element_type(x).dtype.is_float


@function
def isreal(x: Any) -> Array:
    """True where the imaginary part is zero."""
    return elementwise.equal(elementwise.imag(x), 0)


@function
def iscomplex(x: Any) -> Array:
    """True where the imaginary part is not zero."""
    return elementwise.not_equal(elementwise.imag(x), 0)


def iscomplexobj(x: Any) -> bool:
    """True for an array of complex numbers, whatever they are."""
    return _type_of(x).is_complex


def isrealobj(x: Any) -> bool:
    """True for an array of real numbers."""
    return not _type_of(x).is_complex


def isscalar(element: Any) -> bool:
    """True for numbers and arrays without axes."""
    if isinstance(element, (TracedArray, np.ndarray)):
        return not shape_of(element)
    return bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """True for what can be iterated over: arrays with an axis, lists."""
    return bool(shape_of(y)) if isinstance(y, TracedArray) else bool(np.iterable(y))


def _type_of(x: Any) -> DType:
    return element_type(np.asarray(x) if isinstance(x, (list, tuple)) else x).dtype

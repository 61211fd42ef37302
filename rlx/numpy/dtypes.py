"""Element types: their classes, limits, kinds, and what several of them promote to."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy import character as character
from numpy import complexfloating as complexfloating
from numpy import dtype as dtype
from numpy import flexible as flexible
from numpy import floating as floating
from numpy import generic as generic
from numpy import iinfo as iinfo
from numpy import inexact as inexact
from numpy import integer as integer
from numpy import number as number
from numpy import object_ as object_
from numpy import signedinteger as signedinteger
from numpy import unsignedinteger as unsignedinteger

from rlx.errors import DTypeError, ShapeError
from rlx.ir.dtype import DType, as_dtype
from rlx.numpy.creation import dtype_of
from rlx.tracing import promotion
from rlx.tracing.promotion import ElementType
from rlx.tracing.trace import TracedArray, element_type
from rlx.tracing.widths import with_wide_types

float_ = np.float64
int_ = np.int64
double = np.float64
single = np.float32
csingle = np.complex64
cdouble = complex_ = np.complex128
bool = np.bool_
"""Names that NumPy and JAX have for the same classes."""


def finfo(dtype: Any) -> Any:
    """The limits of a floating type."""
    return ml_dtypes.finfo(_numpy(dtype))  # type: ignore[no-untyped-call]  # is not annotated


def issubdtype(arg1: Any, arg2: Any) -> builtins.bool:
    """True if a type is a kind of another; bfloat16 and floats of eight bits are floating."""
    first = arg1 if _is_abstract(arg1) else _numpy(arg1)
    if any(first == each for each in _EXTENSIONS):
        return arg2 in (np.generic, np.number, np.inexact, np.floating) or _numpy(arg2) == first
    return np.issubdtype(first, arg2)


_EXTENSIONS = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


def _is_abstract(x: Any) -> builtins.bool:
    """True for a class of several types, as `floating`."""
    return isinstance(x, type) and issubclass(x, np.generic) and x in _ABSTRACT


_ABSTRACT = frozenset(
    {
        *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact),
        *(np.floating, np.complexfloating, np.flexible, np.character),
    }
)


@with_wide_types
def _numpy(x: Any) -> np.dtype[Any]:
    """Return the NumPy type of a type, a name or an array."""
    if isinstance(x, (TracedArray, np.ndarray, np.generic)):
        return element_type(x).dtype.numpy
    return dtype_of(x, DType.F64).numpy


def isdtype(dtype: Any, kind: Any) -> Any:
    """True if a type is of a kind: a type, a name of the array standard, or one of a tuple."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    own = as_dtype(_numpy(dtype))
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind](own)
    if isinstance(kind, str):
        raise ShapeError(f"kind is {kind!r}", remedy=f"use one of {', '.join(_KINDS)}")
    return own is as_dtype(_numpy(kind))


_KINDS: dict[str, Callable[[DType], Any]] = {
    "bool": lambda d: d is DType.BOOL,
    "signed integer": lambda d: d.is_signed_int,
    "unsigned integer": lambda d: d.is_int and not d.is_signed_int,
    "integral": lambda d: d.is_int,
    "real floating": lambda d: d.is_float,
    "complex floating": lambda d: d.is_complex,
    "numeric": lambda d: d is not DType.BOOL,
}


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type to which arrays, numbers and types promote, as in arithmetic."""
    return promotion.promote_types(map(_element_type, arrays_and_dtypes)).dtype.numpy


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The type to which two types promote."""
    return result_type(np.dtype(_numpy(type1)), np.dtype(_numpy(type2)))


def _element_type(x: Any) -> ElementType:
    if isinstance(x, type) and x in (int, float, complex):
        return ElementType(dtype_of(x, DType.F64), weak=True)
    if isinstance(x, (np.dtype, type, str, DType)):
        return ElementType(as_dtype(_numpy(x)))
    return element_type(x)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> Any:
    """True if a type converts to another under NumPy's rule `casting`."""
    if isinstance(from_, (int, float, complex)) and not isinstance(from_, np.generic):
        raise DTypeError("can_cast takes no Python numbers", remedy="pass their type")
    return np.can_cast(_numpy(from_), _numpy(to), casting)  # type: ignore[arg-type]  # a name

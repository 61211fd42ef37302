"""`Tracer`: the array that a traced function sees. It behaves like a NumPy array.

Operators and methods are the functions of `rlx.numpy`. What needs the numbers themselves
(`if`, `float`, `np.asarray`) is an error that says what to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from rlx.ir.graph import calling_source
from rlx.ir.shape import Shape, product
from rlx.tracing.errors import ConcretizationError, MutationError
from rlx.tracing.trace import TracedArray

_NUMPY_OPERATORS = frozenset({
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "matmul",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
})  # fmt: skip
"""What `array <operator> tracer` arrives as."""


class Tracer(TracedArray):
    """An array whose numbers are known only when the compiled function runs."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype.numpy

    @property
    def ndim(self) -> int:
        return self.value.rank

    @property
    def size(self) -> Any:
        return product(self.value.shape)

    @property
    def T(self) -> Any:  # noqa: N802  NumPy's name
        return rnp.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802  NumPy's name
        return rnp.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        return rnp.real(self)

    @property
    def imag(self) -> Any:
        return rnp.imag(self)

    @property
    def at(self) -> IndexUpdater:
        """`x.at[i].set(v)` and `x.at[i].add(v)` return an updated copy."""
        return IndexUpdater(self)

    def __repr__(self) -> str:
        weak = ", weak" if self.weak else ""
        return f"Tracer<{self.value.type}{weak}>"

    def __len__(self) -> Any:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over an array without axes")
        return iter([self[index] for index in range(len(self))])

    def __getitem__(self, index: Any) -> Any:
        return rnp.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        del index, value
        raise MutationError(
            "a traced array cannot be changed in place",
            source=calling_source(),
            remedy="use x = x.at[index].set(value)",
        )

    # What needs numbers

    def _refuse(self, use: str, remedy: str) -> NoReturn:
        made = self.value.node.source
        origin = "" if made is None else f" (made at {made})"
        raise ConcretizationError(
            f"{use} needs the numbers of a traced array of type {self.value.type}{origin}, "
            "which are not known while the function is traced",
            source=calling_source(),
            remedy=remedy,
        )

    def __bool__(self) -> NoReturn:
        self._refuse(
            "a Python condition (if, while, and, or, not)",
            "use rlx.numpy.where for a choice, or make the value a static argument",
        )

    def __float__(self) -> NoReturn:
        self._refuse("float()", "use x.astype('f64') to convert, or convert the function's result")

    def __int__(self) -> NoReturn:
        self._refuse("int()", "use x.astype('i64') to convert, or make it a static argument")

    def __complex__(self) -> NoReturn:
        self._refuse("complex()", "use x.astype('c64') to convert")

    def __index__(self) -> NoReturn:
        self._refuse("a Python index, range or shape", "make the value a static argument")

    def item(self) -> NoReturn:
        self._refuse("item()", "convert the function's result instead")

    def tolist(self) -> NoReturn:
        self._refuse("tolist()", "convert the function's result instead")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        del dtype, copy
        self._refuse("a NumPy function", "use the function of that name in rlx.numpy")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc.__name__ in _NUMPY_OPERATORS and method == "__call__" and not kwargs:
            return getattr(rnp, ufunc.__name__)(*inputs)
        return self._refuse(
            f"numpy.{ufunc.__name__}", f"use rlx.numpy.{ufunc.__name__} on traced arrays"
        )

    # Operators

    def __add__(self, other: Any) -> Any:
        return _binary(rnp.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary(rnp.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary(rnp.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary(rnp.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary(rnp.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary(rnp.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary(rnp.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(rnp.divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary(rnp.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary(rnp.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary(rnp.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary(rnp.remainder, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, other: Any) -> Any:
        return _binary(rnp.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary(rnp.power, other, self)

    def __matmul__(self, other: Any) -> Any:
        return _binary(rnp.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _binary(rnp.matmul, other, self)

    def __and__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_and, self, other)

    def __rand__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_and, other, self)

    def __or__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_or, self, other)

    def __ror__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_or, other, self)

    def __xor__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _binary(rnp.bitwise_xor, other, self)

    def __lshift__(self, other: Any) -> Any:
        return _binary(rnp.left_shift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _binary(rnp.left_shift, other, self)

    def __rshift__(self, other: Any) -> Any:
        return _binary(rnp.right_shift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _binary(rnp.right_shift, other, self)

    def __invert__(self) -> Any:
        return rnp.bitwise_not(self)

    def __neg__(self) -> Any:
        return rnp.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return rnp.abs(self)

    def __round__(self, digits: int = 0) -> Any:
        return rnp.round(self, digits)

    def __eq__(self, other: object) -> Any:
        return _binary(rnp.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return _binary(rnp.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary(rnp.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(rnp.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(rnp.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(rnp.greater_equal, self, other)

    __hash__ = None  # type: ignore[assignment]  # `==` gives an array, as in NumPy

    # Methods

    def astype(self, dtype: Any) -> Any:
        return rnp.astype(self, dtype)

    def copy(self) -> Any:
        return self

    def reshape(self, *shape: Any) -> Any:
        return rnp.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        if not axes:
            return rnp.transpose(self)
        return rnp.transpose(self, axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return rnp.swapaxes(self, axis1, axis2)

    def ravel(self) -> Any:
        return rnp.ravel(self)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        return rnp.squeeze(self, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        return rnp.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        return rnp.take(self, indices, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return rnp.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return rnp.trace(self, offset, axis1, axis2)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return rnp.sum(self, axis, dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return rnp.prod(self, axis, dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return rnp.mean(self, axis, dtype, keepdims=keepdims)

    def var(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return rnp.var(self, axis, ddof=ddof, keepdims=keepdims)

    def std(self, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        return rnp.std(self, axis, ddof=ddof, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return rnp.max(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return rnp.min(self, axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        return rnp.any(self, axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        return rnp.all(self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return rnp.argmax(self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return rnp.argmin(self, axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Any:
        return rnp.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Any:
        return rnp.cumprod(self, axis, dtype)

    def dot(self, other: Any) -> Any:
        return rnp.dot(self, other)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        return rnp.clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        return rnp.round(self, decimals)

    def conj(self) -> Any:
        return rnp.conj(self)

    def sort(self, axis: int = -1) -> Any:
        return rnp.sort(self, axis)

    def argsort(self, axis: int = -1) -> Any:
        return rnp.argsort(self, axis)


def _binary(operation: Any, left: Any, right: Any) -> Any:
    """Apply an operator; what is no array is left to the other operand."""
    if isinstance(left, _OPERANDS) and isinstance(right, _OPERANDS):
        return operation(left, right)
    return NotImplemented


_OPERANDS = (TracedArray, np.ndarray, np.generic, int, float, complex)

# Last, because the functions that the methods stand for need the class itself.
import rlx.numpy as rnp  # noqa: E402
from rlx.numpy.index_updates import IndexUpdater  # noqa: E402

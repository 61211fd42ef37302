"""Methods and operators of arrays: functions of `rlx.numpy`, attached to `Tracer` and `Array`.

Importing `rlx.numpy` attaches them, so that the classes know nothing of what is above them.
Those of an `Array` run at once, also while a function is traced, unless an operand is traced.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.ir.shape import Dim
from rlx.numpy import devices, elementwise, products
from rlx.runtime.arrays import Array, frozen, plain
from rlx.tracing.trace import TracedArray, arrays_of, current_trace, suspended
from rlx.tracing.tracer import Tracer

if TYPE_CHECKING:
    from rlx.numpy.index_updates import IndexUpdater

_rnp: Any = sys.modules["rlx.numpy"]
"""The package, which imports the module of a function when it is first used."""


class _Methods(Tracer):
    """Methods that `attach` adds to `Tracer`."""

    __slots__ = ()

    @property
    def T(self) -> Any:  # noqa: N802  NumPy's name
        return _rnp.transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802  NumPy's name
        return _rnp.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        return elementwise.real(self)

    @property
    def imag(self) -> Any:
        return elementwise.imag(self)

    @property
    def at(self) -> IndexUpdater:
        """`x.at[i].set(v)` and `x.at[i].add(v)` return an updated copy."""
        from rlx.numpy.index_updates import IndexUpdater

        return IndexUpdater(self)

    @property
    def device(self) -> str:
        """The one that there is."""
        return devices.DEVICE

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array itself."""
        del stream
        devices.require_device(device)
        return self

    def __getitem__(self, index: Any) -> Any:
        return _rnp.getitem(self, index)

    def __iter__(self) -> Iterator[Any]:
        self._require_axis("iteration")
        return iter([self[index] for index in range(len(self))])

    def __divmod__(self, other: Any) -> Any:
        return operator.floordiv(self, other), operator.mod(self, other)

    def __invert__(self) -> Any:
        return elementwise.bitwise_not(self)

    def __neg__(self) -> Any:
        return elementwise.negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return elementwise.abs(self)

    def __round__(self, digits: int | None = None) -> Any:
        """As Python's: an integer if no number of digits is named."""
        if digits is None:
            return elementwise.astype(elementwise.round(self), int)
        return elementwise.round(self, digits)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return elementwise.astype(self, dtype, copy=copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        del api_version
        return _rnp

    def block_until_ready(self) -> Any:
        return self

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        return _rnp.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def transpose(self, *axes: Any) -> Any:
        if not axes:
            return _rnp.transpose(self)
        return _rnp.transpose(self, axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return _rnp.swapaxes(self, axis1, axis2)

    def ravel(self, order: str = "C") -> Any:
        return _rnp.ravel(self, order)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> Any:
        return _rnp.squeeze(self, axis)

    def repeat(self, repeats: Any, axis: int | None = None, **how: Any) -> Any:
        return _rnp.repeat(self, repeats, axis, **how)

    def take(self, indices: Any, axis: int | None = None, **how: Any) -> Any:
        return _rnp.take(self, indices, axis, **how)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return _rnp.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return _rnp.trace(self, offset, axis1, axis2)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.sum(self, axis, dtype, keepdims=keepdims, **how)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.prod(self, axis, dtype, keepdims=keepdims, **how)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.mean(self, axis, dtype, keepdims=keepdims, **how)

    def var(self, axis: Any = None, ddof: int = 0, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.var(self, axis, ddof=ddof, keepdims=keepdims, **how)

    def std(self, axis: Any = None, ddof: int = 0, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.std(self, axis, ddof=ddof, keepdims=keepdims, **how)

    def max(self, axis: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.max(self, axis, keepdims=keepdims, **how)

    def min(self, axis: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.min(self, axis, keepdims=keepdims, **how)

    def any(self, axis: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.any(self, axis, keepdims=keepdims, **how)

    def all(self, axis: Any = None, keepdims: bool = False, **how: Any) -> Any:
        return _rnp.all(self, axis, keepdims=keepdims, **how)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return _rnp.argmax(self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        return _rnp.argmin(self, axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Any:
        return _rnp.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Any:
        return _rnp.cumprod(self, axis, dtype)

    def dot(self, other: Any, **how: Any) -> Any:
        return _rnp.dot(self, other, **how)

    def clip(self, min: Any = None, max: Any = None) -> Any:
        return elementwise.clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        return elementwise.round(self, decimals)

    def conj(self) -> Any:
        return elementwise.conj(self)

    conjugate = conj

    def sort(self, axis: int | None = -1, **how: Any) -> Any:
        return _rnp.sort(self, axis, **how)

    def argsort(self, axis: int | None = -1, **how: Any) -> Any:
        return _rnp.argsort(self, axis, **how)


_ARITHMETIC = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.remainder,
    "pow": elementwise.power,
    "matmul": products.matmul,
    "and": elementwise.bitwise_and,
    "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor,
    "lshift": elementwise.left_shift,
    "rshift": elementwise.right_shift,
}
"""Operators that exist with the array on the right, too."""

_COMPARISONS = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}

_OPERATIONS = {f.__name__: f for f in (*_ARITHMETIC.values(), *_COMPARISONS.values())}
"""What `array <operator> tracer` arrives as, by the names of NumPy's ufuncs."""

_OPERANDS = (TracedArray, np.ndarray, np.generic, int, float, complex, Dim)


def _forward(operation: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return the operator; what is no array is left to the other operand."""

    def apply(self: Any, other: Any) -> Any:
        return operation(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return apply


def _reflected(operation: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return the operator with the array on the right."""

    def apply(self: Any, other: Any) -> Any:
        return operation(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return apply


class _OfTracer(Tracer):
    """Methods of traced arrays that differ from those of `Array`."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _OPERATIONS.get(ufunc.__name__)
        if operation is not None and method == "__call__" and not kwargs:
            return operation(*inputs)
        return self._refuse(
            f"numpy.{ufunc.__name__}", f"use rlx.numpy.{ufunc.__name__} on traced arrays"
        )

    def copy(self) -> Any:
        return self


class _OfArray(Array):
    """Methods of `Array` that differ from those of traced arrays."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _OPERATIONS.get(ufunc.__name__)
        if operation is not None and method == "__call__" and not kwargs:
            return operation(*inputs)
        if any(isinstance(x, TracedArray) for x in inputs):
            return NotImplemented
        return getattr(ufunc, method)(*plain(inputs), **plain(kwargs))

    def __getitem__(self, index: Any) -> Any:
        if not _is_traced(index):
            with contextlib.suppress(IndexError):  # raised below, with the source line and a remedy
                return frozen(np.asarray(self.view(np.ndarray)[index]), self.weak_type)
        return _rnp.getitem(self, index)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over an array without axes")
        return iter([self[index] for index in range(len(self))])

    def copy(self, order: Any = "C") -> Any:
        return frozen(np.array(self, order=order), self.weak_type)

    def view(self, *types: Any, **named: Any) -> Any:
        found = np.ndarray.view(self, np.ndarray)
        if types or named:
            found = found.view(*types, **named)
        asked = any(isinstance(x, type) and issubclass(x, np.ndarray) for x in types)
        if asked or "type" in named:  # another class of arrays, such as a masked one
            return found
        return frozen(found, self.weak_type and not types)


def _of_numpy(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of NumPy's arrays whose results cannot be changed."""

    @functools.wraps(method)
    def call(self: Any, *operands: Any, **named: Any) -> Any:
        return arrays_of(method(self.view(np.ndarray), *plain(operands), **plain(named)))

    return call


_KEPT_FROM_NUMPY = (
    *("argpartition", "byteswap", "choose", "compress", "getfield", "nonzero", "searchsorted"),
)


def _is_traced(index: Any) -> bool:
    items = index if index.__class__ is tuple else (index,)
    return any(isinstance(item, TracedArray) for item in items)


def _at_once(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of arrays of numbers run at once, unless it is given a traced one."""

    @functools.wraps(method)
    def call(*operands: Any, **named: Any) -> Any:
        if current_trace() is None or any(isinstance(x, TracedArray) for x in operands):
            return method(*operands, **named)
        with suspended():
            return method(*operands, **named)

    return call


def _attach() -> None:
    """Give `Tracer` and `Array` their methods and operators."""
    methods = _own(_Methods)
    for name, operation in (_ARITHMETIC | _COMPARISONS).items():
        methods[f"__{name}__"] = _forward(operation)
    for name, operation in _ARITHMETIC.items():
        methods[f"__r{name}__"] = _reflected(operation)
    for name, method in (methods | _own(_OfTracer)).items():
        setattr(Tracer, name, method)
    for name in _ARITHMETIC:
        methods[f"__i{name}__"] = methods[f"__{name}__"]
    at_once = {n: _at_once(m) if callable(m) else m for n, m in methods.items() if n != "at"}
    kept = {name: _of_numpy(getattr(np.ndarray, name)) for name in _KEPT_FROM_NUMPY}
    for name, method in (kept | methods | at_once | _own(_OfArray)).items():
        setattr(Array, name, method)


def _own(cls: type) -> dict[str, Any]:
    return {name: what for name, what in vars(cls).items() if name not in _OF_ANY_CLASS}


_OF_ANY_CLASS = frozenset(vars(type("_", (), {"__slots__": ()})))

_attach()

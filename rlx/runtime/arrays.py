"""`Array`: what functions of `rlx.numpy`, jitted functions and transformations return.

It is a NumPy array that cannot be changed. Being one makes NumPy's protocols free: `np.asarray`
is a view, and a result costs no more than a bare array. What differs: its operators are those of
`rlx.numpy`, which attaches them (`rlx.numpy.methods`), so that types promote as inside `jit`;
NumPy's functions see it as a plain array and return plain arrays.

Compiled graphs (`rlx.compile`, `Session`) return NumPy arrays: their results are plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy import ndarray

from rlx.errors import MutationError

Plain = ndarray[Any, Any]


class Array(ndarray[Any, Any]):
    """An immutable array of numbers."""

    __slots__ = ()
    weak_type = False
    """Whether the dtype gives way to others, as that of a Python number does."""
    _baseclass = ndarray
    """What NumPy's masked arrays take their data for: its methods are NumPy's then."""

    if TYPE_CHECKING:  # methods that rlx.numpy attaches

        def __getattr__(self, name: str) -> Any: ...

        T: Array
        mT: Array  # noqa: N815  NumPy's name
        real: Array
        imag: Array
        __add__: Callable[..., Array]
        __radd__: Callable[..., Array]
        __sub__: Callable[..., Array]
        __rsub__: Callable[..., Array]
        __mul__: Callable[..., Array]
        __rmul__: Callable[..., Array]
        __truediv__: Callable[..., Array]
        __rtruediv__: Callable[..., Array]
        __floordiv__: Callable[..., Array]
        __rfloordiv__: Callable[..., Array]
        __mod__: Callable[..., Array]
        __rmod__: Callable[..., Array]
        __pow__: Callable[..., Array]
        __rpow__: Callable[..., Array]
        __matmul__: Callable[..., Array]
        __rmatmul__: Callable[..., Array]
        __and__: Callable[..., Array]
        __or__: Callable[..., Array]
        __xor__: Callable[..., Array]
        __lshift__: Callable[..., Array]
        __rshift__: Callable[..., Array]
        __lt__: Callable[..., Array]
        __le__: Callable[..., Array]
        __gt__: Callable[..., Array]
        __ge__: Callable[..., Array]
        __getitem__: Callable[..., Array]

        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...

        sort: Callable[..., Array]
        argsort: Callable[..., Array]
        repeat: Callable[..., Array]
        astype: Callable[..., Array]
        sum: Callable[..., Array]
        mean: Callable[..., Array]
        max: Callable[..., Array]
        min: Callable[..., Array]
        prod: Callable[..., Array]
        std: Callable[..., Array]
        var: Callable[..., Array]
        reshape: Callable[..., Array]
        transpose: Callable[..., Array]
        swapaxes: Callable[..., Array]
        squeeze: Callable[..., Array]
        ravel: Callable[..., Array]
        flatten: Callable[..., Array]
        cumsum: Callable[..., Array]
        cumprod: Callable[..., Array]
        clip: Callable[..., Array]
        round: Callable[..., Array]
        dot: Callable[..., Array]
        take: Callable[..., Array]
        diagonal: Callable[..., Array]
        trace: Callable[..., Array]
        conj: Callable[..., Array]
        conjugate: Callable[..., Array]
        argmax: Callable[..., Array]
        argmin: Callable[..., Array]
        all: Callable[..., Array]
        any: Callable[..., Array]
        to_device: Callable[..., Array]

    def block_until_ready(self) -> Self:
        """Return the array: calls have finished when they return."""
        return self

    # NumPy's protocols

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(cls, ndarray) for cls in types):
            return NotImplemented
        return func(*plain(args), **plain(kwargs))

    def __reduce_ex__(self, protocol: Any) -> Any:
        del protocol
        return frozen, (self.view(ndarray), self.weak_type)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        del memo
        return frozen(np.array(self), self.weak_type)  # a donated array may be overwritten

    def __dlpack__(self, *, max_version: Any = None, **options: Any) -> Any:
        """Return the array for another library; older ones cannot mark it as read-only."""
        knows_flags = max_version is not None and max_version >= (1, 0)
        array = self.view(ndarray) if knows_flags else _writeable_alias(self)
        return array.__dlpack__(max_version=max_version, **options)

    def __repr__(self) -> str:
        text = np.array2string(self.view(ndarray), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Array({text}, dtype={self.dtype.name}{weak})"

    def __str__(self) -> str:
        return str(self.view(ndarray))

    # What would change it

    def _refuse(self, use: str, remedy: str) -> NoReturn:
        raise MutationError(f"{use}: an rlx.Array cannot be changed in place", remedy=remedy)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        del index, value
        self._refuse("x[index] = value", "use x = x.at[index].set(value), or np.array(x), a copy")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        del value
        self._refuse(f"x.{name} = value", "use a function that returns another array")

    def setflags(self, write: Any = None, align: Any = None, uic: Any = None) -> None:
        """Refuse to make it writeable; `write=False` keeps a donated result from being reused."""
        if write or uic:
            self._refuse("x.setflags(write=True)", "use np.array(x), a copy that can be changed")
        if write is not None and isinstance(self.base, ndarray):
            self.base.setflags(write=False)
        super().setflags(write=write, align=align, uic=uic)

    def resize(self, *shape: Any, refcheck: bool = True) -> NoReturn:
        del shape, refcheck
        self._refuse("x.resize", "use rlx.numpy.resize(x, shape)")

    __hash__ = None  # `==` gives an array, as in NumPy


class WeakArray(Array):
    """An array of a weak type: the result of Python's numbers alone."""

    __slots__ = ()
    weak_type = True


ARRAY_CLASSES = frozenset({ndarray, Array})
"""Classes of arrays that compiled code reads in place."""


BUFFER_CLASSES: list[type] = []
"""At most one class of another library's arrays, which compiled code reads as buffers."""


def frozen(array: Plain, weak: bool = False) -> Array:
    """Return `array`, which has no other writer, as an immutable one."""
    cls = WeakArray if weak else Array
    if array.__class__ is cls:
        return array
    result = array.view(cls)
    ndarray.setflags(result, write=False)
    return result


def unshared(results: Sequence[Plain], operands: Sequence[Any]) -> list[Plain]:
    """Return `results`, copied where they share memory with an operand that may yet change."""
    own = [x for x in operands if isinstance(x, ndarray) and not isinstance(x, Array)]
    return [result.copy() if _shares(result, own) else result for result in results]


def _shares(array: Plain, others: Sequence[Plain]) -> bool:
    if array.base is None:
        return any(array is other for other in others)
    return any(np.may_share_memory(array, other) for other in others)


def plain(x: Any) -> Any:
    """Return `x` with the arrays in tuples, lists and dicts as NumPy's own, without copying."""
    if isinstance(x, Array):
        return x.view(ndarray)
    if x.__class__ in (tuple, list):
        return x.__class__(plain(each) for each in x)
    if x.__class__ is dict:
        return {name: plain(each) for name, each in x.items()}
    return x


class _Alias:
    """A writable alias of a read-only array's memory."""

    def __init__(self, array: Plain) -> None:
        self._array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def _writeable_alias(array: Array) -> Plain:
    return np.asarray(_Alias(array.view(ndarray)))

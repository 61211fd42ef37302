"""Functions from outside of a program, by name: what `ffi_call` and `effect_call` call.

    register_target("saxpy", address)        # a C function
    register_target("rank", numpy_function)  # a Python callable on NumPy arrays

A target registered again replaces the one before, in programs compiled earlier, too: they look the
function up in a slot at every call. C functions have this signature:

    int32_t target(const T *operand..., T *result..., const int64_t *shapes,
                   const uint8_t *attributes, int64_t attribute_bytes);

All arrays are dense; results are not cleared before. `shapes` holds the number of operands, that of
results, and for each array its type, its rank and its extents. Types are numbered as XLA's
`PrimitiveType` has them (`TYPE_NUMBERS`). What is not 0 ends the run, with that code.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, ForeignCallError, GraphError, ShapeError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.types import TensorType
from rlx.signal_safe_lock import reentrant_lock

Array: TypeAlias = NDArray[Any]
HostFunction: TypeAlias = Callable[..., Any]

TYPE_NUMBERS = {
    DType.BOOL: 1,
    DType.I8: 2,
    DType.I16: 3,
    DType.I32: 4,
    DType.I64: 5,
    DType.U8: 6,
    DType.U16: 7,
    DType.U32: 8,
    DType.U64: 9,
    DType.F16: 10,
    DType.F32: 11,
    DType.F64: 12,
    DType.C64: 15,
    DType.BF16: 16,
    DType.C128: 18,
    DType.F8_E5M2: 19,
    DType.F8_E4M3FN: 20,
}
_DTYPES = {number: dtype for dtype, number in TYPE_NUMBERS.items()}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(eq=False)
class CallTarget:
    """A name and its current target: a Python callable, or the address of a C function."""

    name: str
    function: HostFunction | None
    address: int = 0
    watchers: list[Callable[[], None]] = field(default_factory=list)
    """What is notified when the name is registered for another function."""
    arrays: dict[str, int] = field(default_factory=dict)
    """How many operands and results it has under each symbol; VARIOUS if calls differ."""

    def replace(self, function: HostFunction | None, address: int) -> None:
        self.function, self.address = function, address
        for notify in self.watchers:
            notify()

    def symbol(self, operands: int, results: int) -> str:
        """Return what compiled code calls the target: a C function by its own name."""
        symbol = self.name
        if self.function is not None:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", self.name)
            symbol = f"{PYTHON_PREFIX}{plain}_{operands}_{results}"
            while SYMBOLS.get(symbol, self) is not self:  # of a name that C spells the same
                symbol += "_"
        SYMBOLS[symbol] = self
        count = operands + results
        self.arrays[symbol] = count if self.arrays.get(symbol, count) == count else VARIOUS
        return symbol

    def call(
        self, operands: Sequence[Array], results: Sequence[TensorType], attributes: bytes
    ) -> tuple[Array, ...]:
        """Apply the target to arrays; what it returns must have the types `results`."""
        if self.function is None:
            return _call_address(self, operands, results, attributes)
        named = {"attributes": attributes} if attributes else {}
        given = self.function(*(operand.copy() for operand in operands), **named)
        listed = given if isinstance(given, (tuple, list)) else (given,)
        if len(listed) != len(results):
            raise ShapeError(
                f"{self.name} returned {len(listed)} arrays; {len(results)} were declared",
                remedy="return one array for each declared result",
            )
        pairs = zip(listed, results, strict=True)
        return tuple(_result(self.name, i, *pair) for i, pair in enumerate(pairs))


class Callback(str):
    """The name of an unregistered target, and the target, which lives as long."""

    target: CallTarget


TARGETS: dict[str, CallTarget] = {}
"""Registered targets by name."""

_CALLBACKS: weakref.WeakValueDictionary[str, Callback] = weakref.WeakValueDictionary()
SYMBOLS: weakref.WeakValueDictionary[str, CallTarget] = weakref.WeakValueDictionary()
"""What compiled code calls by these symbols."""
_OF_REALS = ("gesv", "potrf", "getrf", "syevd", "gesdd", "geqrf", "orgqr", "geev")
_OF_COMPLEX_NUMBERS = ("gesv", "potrf", "getrf", "heevd", "gesdd", "geqrf", "ungqr", "geev")
LAPACK = (
    *(f"{letter}{name}_" for name in _OF_REALS for letter in "sd"),
    *(f"{letter}{name}_" for name in _OF_COMPLEX_NUMBERS for letter in "cz"),
)
"""What kernels call of LAPACK: a library has all of it, or none is called."""
PYTHON_PREFIX = "rlx_python_"
"""With what the symbols of Python callables begin."""
VARIOUS = -1
"""The number of arrays of a C function that several programs call with several numbers of them."""

_lock = reentrant_lock()
_numbers = itertools.count()


def register_target(name: str, target: HostFunction | int) -> None:
    """Register a Python callable, or the C function at an address, as `name`."""
    function = target if callable(target) else None
    if function is None and not _IDENTIFIER.fullmatch(name):
        raise GraphError(
            f"the C function {name!r} has a name that C does not allow",
            remedy="use letters, digits and underscores",
        )
    address = 0 if callable(target) else int(target)
    if function is None and not address:
        raise GraphError(f"target {name!r} is a null pointer", remedy="give a function's address")
    with _lock:
        known = TARGETS.get(name)
        if known is None:
            TARGETS[name] = CallTarget(name, function, address)
        else:
            known.replace(function, address)


def callback(function: HostFunction, title: str) -> Callback:
    """Return a new name for `function`, which it is kept with."""
    names = (f"{title}_{number}" for number in _numbers)
    name = Callback(next(name for name in names if name not in TARGETS))
    name.target = CallTarget(str(name), function)
    _CALLBACKS[str(name)] = name
    return name


def find_target(name: str) -> CallTarget:
    """Return the target of a name, or raise a GraphError."""
    if isinstance(name, Callback):
        return name.target
    kept = _CALLBACKS.get(name)
    found = TARGETS.get(name) or (kept.target if kept is not None else None)
    if found is None:
        raise GraphError(
            f"no function is registered as {name!r}",
            remedy=f"call rlx.ffi.register_ffi_target({name!r}, function) before",
        )
    return found


def shape_words(types: Sequence[TensorType]) -> list[Any]:
    """Return type, rank and extents of each array, in a row."""
    return [w for t in types for w in (TYPE_NUMBERS[t.dtype], t.rank, *t.shape)]


def types_in(words: Sequence[int]) -> list[TensorType]:
    """Return the types that `shape_words` wrote."""
    types, place = [], 0
    while place < len(words):
        rank = words[place + 1]
        shape = tuple(words[place + 2 : place + 2 + rank])
        types.append(TensorType(_DTYPES[words[place]], shape))
        place += 2 + rank
    return types


def _result(name: str, position: int, given: Any, type: TensorType) -> Array:
    """Return a result as an array; only Python's numbers are converted."""
    array = np.asarray(given, _kept_as(given, type.dtype))
    what = f"result {position} of {name}"
    if array.shape != type.shape:
        raise ShapeError(
            f"{what} has shape {array.shape}; {type.describe_shape()} was declared",
            remedy="return an array of the declared shape",
        )
    if array.dtype != type.dtype.numpy:
        raise DTypeError(
            f"{what} has dtype {array.dtype}; {type.dtype} was declared",
            remedy=f"convert it with .astype('{type.dtype}'), or declare {array.dtype}",
        )
    return array


def _kept_as(given: Any, dtype: DType) -> Any:
    """Return the declared dtype for a number of Python's that it holds; None for all else."""
    if isinstance(given, np.generic) or not isinstance(given, (bool, int, float, complex)):
        return None
    fits = dtype.is_complex or isinstance(given, bool)
    fits |= dtype.is_float and not isinstance(given, complex)
    if dtype.is_int and not fits and isinstance(given, int):
        limits = np.iinfo(dtype.numpy)
        fits = limits.min <= given <= limits.max
    return dtype.numpy if fits else None


def function_type(arrays: int) -> Any:
    """Return the ctypes class of a target of so many operands and results."""
    pointers = [ctypes.c_void_p] * (arrays + 2)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, ctypes.c_int64)


def _call_address(
    target: CallTarget,
    operands: Sequence[Array],
    results: Sequence[TensorType],
    attributes: bytes,
) -> tuple[Array, ...]:
    given = [np.ascontiguousarray(operand) for operand in operands]
    made = [np.zeros(type.static_shape, type.dtype.numpy) for type in results]
    types = [TensorType(as_dtype(array.dtype), array.shape) for array in given]
    words = [len(given), len(made), *shape_words([*types, *results])]
    shapes = np.array(words, np.int64)
    extra = np.frombuffer(attributes, np.uint8)
    pointers = [array.ctypes.data for array in (*given, *made, shapes, extra)]
    code = function_type(len(given) + len(made))(target.address)(*pointers, extra.size)
    if code != 0:
        raise failed_call(target.name, code)
    return tuple(made)


def failed_call(name: str, code: int) -> ForeignCallError:
    """Return the error for a C function that returned `code`."""
    return ForeignCallError(f"{name} returned {code}", remedy=f"see what {code} means to {name}")

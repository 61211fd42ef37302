"""Slots: where compiled code finds the addresses of targets, and how it calls Python.

A target has one slot for each symbol that compiled code calls it by. The slot of a Python callable
holds a function that takes the interpreter's lock, shows the arrays, and keeps what was raised
until the call of the program has ended and raises it again.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.errors import GraphError
from rlx.ir.foreign import (
    SYMBOLS,
    VARIOUS,
    Array,
    CallTarget,
    failed_call,
    function_type,
    types_in,
)
from rlx.ir.types import TensorType
from rlx.signal_safe_lock import reentrant_lock

_FIRST_RAISED = -(2**31)
_MOST_RAISED = 2**20
"""Codes from the first on denote exceptions; a C function has all the others."""

_raised: dict[int, BaseException] = {}
_numbers = itertools.count()
_lock = reentrant_lock()


class _Slot:
    """One address, which changes with the target."""

    def __init__(self, target: CallTarget, symbol: str) -> None:
        self._target = weakref.ref(target)
        self._symbol = symbol
        self._cell = ctypes.c_void_p()
        self._into_python: Any = None
        self.fill()

    @property
    def place(self) -> int:
        return ctypes.addressof(self._cell)

    def fill(self) -> None:
        target = self._target()
        if target is None:
            return
        arrays = target.arrays[self._symbol]
        if target.function is not None and arrays == VARIOUS:
            self._into_python = function_type(0)(_refusal(target.name))
        elif target.function is not None and self._into_python is None:
            self._into_python = function_type(arrays)(_entry(self._target))
        pointer = ctypes.cast(self._into_python, ctypes.c_void_p).value
        self._cell.value = pointer if target.function is not None else target.address


_slots: weakref.WeakKeyDictionary[CallTarget, dict[str, _Slot]] = weakref.WeakKeyDictionary()


def slot_of(symbol: str) -> int | None:
    """Return where the address of the target of this symbol is kept; None if it is no target's."""
    target = SYMBOLS.get(symbol)
    if target is None:
        return None
    with _lock:
        slots = _slots.setdefault(target, {})
        if symbol not in slots:
            slots[symbol] = _Slot(target, symbol)
            target.watchers.append(slots[symbol].fill)
        return slots[symbol].place


def raised_by(code: int, name: str) -> BaseException:
    """Return what ended a call of the target `name`: an exception, or a C function's status."""
    return _raised.pop(code, None) or failed_call(name, code)


def _entry(target: weakref.ref[CallTarget]) -> Callable[..., int]:
    """Return the function that compiled code calls for a Python callable."""

    def enter(*words: Any) -> int:
        try:
            _run(target(), words)
        except BaseException as error:  # whatever it is belongs to the caller of the program
            return _keep(error)
        return 0

    return enter


def _refusal(name: str) -> Callable[..., int]:
    """Return a wrapper of a Python callable for any number of arrays."""

    def refuse(*_: Any) -> int:
        return _keep(
            GraphError(
                f"{name} was a C function that programs call with several numbers of arrays, and "
                "is a Python callable now",
                remedy="register the callable under another name, or compile the program again",
            )
        )

    return refuse


def _run(target: CallTarget | None, words: Sequence[Any]) -> None:
    assert target is not None  # the program that calls it keeps it
    *pointers, shapes, attributes, attribute_bytes = words
    given, made = _types(shapes)
    operands = [_view(p, t) for p, t in zip(pointers, given, strict=False)]
    content = ctypes.string_at(attributes, attribute_bytes) if attribute_bytes else b""
    results = target.call(operands, made, content)
    for pointer, type, result in zip(pointers[len(given) :], made, results, strict=True):
        _view(pointer, type)[...] = result


def _types(shapes: int) -> tuple[list[TensorType], list[TensorType]]:
    """Return the types of operands and results that a table of `shape_words` holds."""
    table = ctypes.cast(shapes, ctypes.POINTER(ctypes.c_int64))
    count, results = int(table[0]), int(table[1])
    end = 2
    for _ in range(count + results):
        end += 2 + int(table[end + 1])
    types = types_in([int(table[i]) for i in range(2, end)])
    return types[:count], types[count:]


def _view(pointer: int | None, type: TensorType) -> Array:
    """Return the array at an address; an empty one has none."""
    array: Array = np.zeros(type.static_shape, type.dtype.numpy)
    if pointer and array.nbytes:
        memory: Any = (ctypes.c_char * array.nbytes).from_address(pointer)
        array = np.frombuffer(memory, array.dtype).reshape(array.shape)
    return array


def _keep(error: BaseException) -> int:
    code = _FIRST_RAISED + next(_numbers) % _MOST_RAISED
    _raised[code] = error
    return code

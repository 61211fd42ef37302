"""Functions from outside as ops, under JAX's names.

    rlx.ffi.register_ffi_target("saxpy", library.saxpy)
    call = rlx.ffi.ffi_call("saxpy", rlx.ShapeDtypeStruct((8,), np.float32))
    y = call(x, attributes=struct.pack("<f", 2.0))

`rlx.ir.foreign` defines what a target is, and the signature of one in C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from rlx.ir.foreign import register_target
from rlx.public_names import names_of as _names_of
from rlx.transforms.callbacks import ffi_call as ffi_call


def register_ffi_target(name: str, target: Callable[..., Any] | int) -> None:
    """Register `target` as `name`: a Python callable on NumPy arrays, or a C function.

    A C function is an address, or what `ctypes` found in a library. Another target of the same
    name replaces it, in programs that are compiled already, too.
    """
    if isinstance(target, _C_FUNCTION):
        _LIBRARIES[name] = target
        target = ctypes.cast(target, ctypes.c_void_p).value or 0
    register_target(name, target)


_C_FUNCTION: type[Any] = ctypes.CFUNCTYPE(None).__mro__[1]
"""The class of all functions that ctypes finds."""

_LIBRARIES: dict[str, Any] = {}
"""What keeps registered functions loaded."""

__all__ = ["ffi_call", "register_ffi_target"]

__dir__ = _names_of(__name__)

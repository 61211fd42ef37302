"""Linked object code in executable memory of this process.

Code is never writable and executable at a time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping

from rlx.codegen.llvm.linker import PAGE, LinkedObject
from rlx.errors import ToolchainError

MAPS_CODE = hasattr(mmap, "MAP_PRIVATE")
"""True on POSIX systems, whose memory this module makes executable."""


class LoadedCode:
    """Machine code that can be called; it is unloaded with this object."""

    def __init__(self, linked: LinkedObject, symbols: Mapping[str, int]) -> None:
        size = -(-len(linked.content) // PAGE) * PAGE
        self._exports = linked.exports
        self._memory = mmap.mmap(
            -1,
            size,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
        self._memory.write(linked.content)
        for name, place in linked.imports.items():
            self._memory[place : place + 8] = symbols[name].to_bytes(8, "little")
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        _protect(self._start, linked.code_bytes, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(self._start + linked.code_bytes, size - linked.code_bytes, mmap.PROT_READ)

    def address(self, name: str) -> int:
        return self._start + self._exports[name]


def process_symbol(name: str) -> int | None:
    """Return the address of a function that this process exports, such as one of libm."""
    try:
        function = ctypes.CDLL(None)[name]
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def _protect(address: int, size: int, protection: int) -> None:
    change = ctypes.CDLL(None, use_errno=True).mprotect
    change.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if size and change(address, size, protection) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ToolchainError(
            f"this system does not let code be loaded: {reason}",
            remedy="allow executable memory for the process, or export the program with rlx.aot",
        )

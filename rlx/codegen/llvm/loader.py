"""Linked object code in executable memory of this process, and functions that can be replaced.

Code is never writable and executable at a time.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator, Mapping

from rlx.codegen.llvm.linker import PAGE, LinkedObject
from rlx.errors import ToolchainError

_JUMP = struct.Struct("<2si")
"""`jmp *distance(%rip)`"""

MAPS_CODE = hasattr(mmap, "MAP_PRIVATE")
"""True on POSIX systems, whose memory this module makes executable."""


class LoadedCode:
    """Machine code that can be called; it is unloaded with this object."""

    def __init__(self, linked: LinkedObject, symbols: Mapping[str, int]) -> None:
        size = -(-len(linked.content) // PAGE) * PAGE
        self._exports = linked.exports
        self._memory = _memory(size)
        self._memory.write(linked.content)
        for name, place in linked.imports.items():
            self._memory[place : place + 8] = symbols[name].to_bytes(8, "little")
        self._start = _address(self._memory)
        _protect(self._start, linked.code_bytes, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(self._start + linked.code_bytes, size - linked.code_bytes, mmap.PROT_READ)

    def address(self, name: str) -> int:
        return self._start + self._exports[name]


class Stubs:
    """Functions at fixed addresses that jump to others, which change while they are called.

    A page of jumps through the pointers of the next page, which is not executable. Only for x86-64.
    """

    def __init__(self, targets: Mapping[str, int]) -> None:
        self._places = {name: 8 * number for number, name in enumerate(targets)}
        self._size = -(-8 * len(targets) // PAGE) * PAGE
        self._memory = _memory(2 * self._size)
        for place in self._places.values():
            distance = self._size - _JUMP.size  # from the end of the jump to its pointer
            self._memory[place : place + _JUMP.size] = _JUMP.pack(b"\xff\x25", distance)
        self._start = _address(self._memory)
        self.redirect(targets)
        _protect(self._start, self._size, mmap.PROT_READ | mmap.PROT_EXEC)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def address(self, name: str) -> int:
        return self._start + self._places[name]

    def redirect(self, targets: Mapping[str, int]) -> None:
        """Let functions jump elsewhere: each is replaced at once for all threads."""
        for name, target in targets.items():
            pointer = self._start + self._size + self._places[name]
            ctypes.c_uint64.from_address(pointer).value = target


def process_symbol(name: str) -> int | None:
    """Return the address of a function that this process exports, such as one of libm."""
    try:
        function = ctypes.CDLL(None)[name]
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def _memory(size: int) -> mmap.mmap:
    """Return new pages, to be written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _protect(address: int, size: int, protection: int) -> None:
    change = ctypes.CDLL(None, use_errno=True).mprotect
    change.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if size and change(address, size, protection) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ToolchainError(
            f"this system does not let code be loaded: {reason}",
            remedy="allow executable memory for the process, or export the program with rlx.aot",
        )

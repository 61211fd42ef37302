"""Shared libraries and native function pointers, through the extension module of cffi.

The only file that touches cffi. Calls through the returned functions release the GIL. The
extension reads C types by itself; the package around it would bring a parser of all of C, which
takes longer to import than a program from the cache takes to load.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import _cffi_backend

from rlx.errors import ToolchainError

ffi: Any = _cffi_backend.FFI()
Pointer: TypeAlias = Any
"""A cffi pointer; cffi has no static types for its values."""


@functools.cache
def function_type(declaration: str) -> Any:
    """Return the cffi type of a function pointer such as `int (*)(uint8_t *, int64_t)`."""
    return ffi.typeof(declaration)


def function_at(address: int, declaration: str) -> Callable[..., Any]:
    """Return the native function at `address` as a Python callable."""
    function: Callable[..., Any] = ffi.cast(function_type(declaration), address)
    return function


def pointer_to(address: int, type: str = "uint8_t *") -> Pointer:
    """Return `address` as a pointer argument."""
    return ffi.cast(type, address)


_HAS_NOHUGEPAGE = hasattr(mmap, "MADV_NOHUGEPAGE")


def discard(address: int, size: int) -> None:
    """Let the system take whole pages of private memory back; elsewhere than on Linux, keep them.

    `MADV_DONTNEED` discards content on Linux alone, which alone has `MADV_NOHUGEPAGE`.
    """
    if _HAS_NOHUGEPAGE:
        _advise(address, size, mmap.MADV_DONTNEED)


def keep_pages_small(address: int, size: int) -> None:
    """Let the system hand out whole pages of memory one by one, as they are first written."""
    if _HAS_NOHUGEPAGE:
        _advise(address, size, mmap.MADV_NOHUGEPAGE)


def _advise(address: int, size: int, advice: int) -> None:
    advise = system_function("madvise", "int (*)(void *, size_t, int)")
    advise(ffi.cast("void *", address), size, advice)


def system_function(name: str, declaration: str) -> Callable[..., Any]:
    """Return a function of the C library of this process."""
    process: Any = _cffi_backend.load_library(None, ffi.RTLD_NOW)
    function: Callable[..., Any] = process.load_function(function_type(declaration), name)
    return function


def pointer_into(words: Any) -> Pointer:
    """Return a pointer to an array of int64, which it keeps alive."""
    return ffi.from_buffer("int64_t[]", words)


def _opened(path: Path, flags: int) -> Any:
    """Return an open library; ctypes opens those whose path this locale cannot spell."""
    try:
        return _cffi_backend.load_library(str(path), flags)
    except UnicodeEncodeError:
        import ctypes

        handle = ctypes.CDLL(str(path), mode=flags)._handle
        return _cffi_backend.load_library(ffi.cast("void *", handle), flags)


class SharedLibrary:
    """An open shared library; `symbols_for_all` offers its symbols to libraries opened later."""

    def __init__(self, path: Path, *, symbols_for_all: bool = False) -> None:
        scope = ffi.RTLD_GLOBAL if symbols_for_all else ffi.RTLD_LOCAL
        self.path = path
        self._found: dict[str, int | None] = {}
        try:
            self._library: Any = _opened(path, ffi.RTLD_NOW | scope)
        except OSError as error:
            raise ToolchainError(
                f"cannot load {path}: {error}",
                remedy="compile it for this machine; check that the libraries it needs are there",
            ) from error

    def address(self, symbol: str) -> int:
        """Return the address of a function, or raise ToolchainError."""
        found = self.find(symbol)
        if found is None:
            raise ToolchainError(
                f"{self.path} has no symbol {symbol}",
                remedy="load the library that this program was compiled to",
            )
        return found

    def find(self, symbol: str) -> int | None:
        """Return the address of a function, or None."""
        if symbol not in self._found:
            self._found[symbol] = self._look_up(symbol)
        return self._found[symbol]

    def _look_up(self, symbol: str) -> int | None:
        try:
            function = self._library.load_function(function_type("void (*)(void)"), symbol)
        except AttributeError:
            return None
        return int(ffi.cast("intptr_t", function))


def call_for_text(address: int) -> str:
    """Call a `const char *(void)` function and return its text."""
    text: bytes = ffi.string(function_at(address, "char *(*)(void)")())
    return text.decode()

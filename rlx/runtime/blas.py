"""Locating the BLAS library that generated code calls, and holding it to one thread.

`blas_files` finds the libraries. All take 32-bit integers. Nothing is loaded before the
first executable that needs it.

Two traps are handled while loading. OpenBLAS does not know every CPU and may choose slow kernels
(`blas_cores`). And its own thread pool would fight ours for the same cores, so it gets one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlx.dataclass import dataclass
from rlx.errors import ToolchainError
from rlx.ir.foreign import LAPACK, SYMBOLS
from rlx.runtime.blas_cores import DETECTED, core_types, fastest_core_type
from rlx.runtime.blas_files import library_of_environment, library_of_name
from rlx.runtime.native import SharedLibrary, call_for_text, function_at
from rlx.target import Target

_PREFIXES = ("", "scipy_")
_PROBE = "cblas_sgemm"


_slots: dict[int, ctypes.c_void_p] = {}
"""Where addresses of functions are kept, for as long as the process."""


@dataclass(frozen=True, slots=True)
class Blas:
    """A loaded BLAS. `core` is what it says its kernels are made for, if it says."""

    library: SharedLibrary
    prefix: str
    core: str | None
    forced: str = DETECTED
    """The core type that was set while it was loaded, if any."""

    def symbol(self, name: str) -> str:
        """Return what this library calls the function `name`, such as `cblas_sgemm`."""
        return self.prefix + name

    def has(self, name: str) -> bool:
        return self.library.find(self.symbol(name)) is not None

    @property
    def has_lapack(self) -> bool:
        """True if it has every routine that kernels call; some have a part of LAPACK."""
        return all(self.has(name) for name in LAPACK)

    def address(self, name: str) -> int:
        return self.library.address(self.symbol(name))

    def slot(self, name: str) -> int:
        """Return where the address of a function is kept, for code that looks it up there."""
        address = self.address(name)
        return ctypes.addressof(_slots.setdefault(address, ctypes.c_void_p(address)))

    def set_threads(self, count: int) -> None:
        """Set the size of the library's own thread pool, where it has one."""
        for name in ("openblas_set_num_threads", "bli_thread_set_num_threads"):
            address = self.library.find(self.symbol(name))
            if address is not None:
                function_at(address, "void (*)(int)")(count)


OF_THE_ENVIRONMENT = ("auto", "system")
"""What `blas=` calls the library that is found here."""


def find_blas(target: Target, name: str = "auto") -> Blas:
    """Return a BLAS, loaded once, or raise ToolchainError: this environment's, or the one named.

    `name` is "auto" or "system", a library's name such as "openblas", or the path of one.
    """
    if name in OF_THE_ENVIRONMENT:
        return open_blas(library_of_environment(os.environ.get("RLX_BLAS")), target)
    return open_blas(library_of_name(name), target)


def has_lapack(target: Target, name: str = "auto") -> bool:
    """True if there is a BLAS library and it has LAPACK, too; loads it."""
    try:
        return find_blas(target, name).has_lapack
    except ToolchainError:
        return False


def takes_products(name: str) -> bool:
    """True if `blas=name` leaves large products to the library, as "auto" does not."""
    return name not in ("none", "auto")


def is_blas(symbol: str) -> bool:
    """True for CBLAS names and for LAPACK's, which end in an underscore, as users' names may."""
    return symbol not in SYMBOLS and (symbol.startswith("cblas_") or symbol.endswith("_"))


@functools.cache
def open_blas(path: Path, target: Target) -> Blas:
    """Return the BLAS in a shared library, set to one thread, or raise ToolchainError."""
    overrides = {"OPENBLAS_NUM_THREADS": "1"}
    core_type = _core_type(path, target)
    if core_type:
        overrides["OPENBLAS_CORETYPE"] = core_type
    with _environment(overrides):
        library = SharedLibrary(path)
    prefix = _prefix_of(library)
    _refuse_wide_integers(library, prefix)
    blas = Blas(library, prefix, _text(library, f"{prefix}openblas_get_corename"), core_type)
    blas.set_threads(1)
    return blas


def _core_type(path: Path, target: Target) -> str:
    """Return the core type to set for a library, or nothing; the user's setting has precedence."""
    candidates = core_types(target)
    if not candidates or "OPENBLAS_CORETYPE" in os.environ or not path.is_file():
        return DETECTED
    return fastest_core_type(path, target, candidates)


def _prefix_of(library: SharedLibrary) -> str:
    for prefix in _PREFIXES:
        if library.find(prefix + _PROBE) is not None:
            return prefix
    raise ToolchainError(
        f"{library.path} has no function {_PROBE}",
        remedy="RLX_BLAS must name a library with the CBLAS interface and 32-bit integers",
    )


def _refuse_wide_integers(library: SharedLibrary, prefix: str) -> None:
    configuration = _text(library, f"{prefix}openblas_get_config") or ""
    if "USE64BITINT" in configuration:
        raise ToolchainError(
            f"{library.path} takes 64-bit integers; 32-bit ones are needed",
            remedy="name another library in RLX_BLAS, or unset it",
        )


def _text(library: SharedLibrary, symbol: str) -> str | None:
    address = library.find(symbol)
    return None if address is None else call_for_text(address)


@contextlib.contextmanager
def _environment(overrides: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while a library loads, then restore them."""
    before = {name: os.environ.get(name) for name in overrides}
    os.environ.update(overrides)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""Locating the BLAS library that generated code calls, and holding it to one thread.

`RLX_BLAS` names a library file; otherwise a system BLAS known to pkg-config; otherwise the one
inside the wheel `scipy-openblas32`, whose symbols are prefixed. All take 32-bit integers.
Nothing is loaded before the first executable that needs it.

Two traps are handled while loading. OpenBLAS does not know every CPU and may choose slow kernels
(`blas_cores`). And its own thread pool would fight ours for the same cores, so it gets one thread.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import ToolchainError
from rlx.runtime.blas_cores import DETECTED, core_types, fastest_core_type
from rlx.runtime.native import SharedLibrary, call_for_text, function_at
from rlx.runtime.toolchain import run_tool
from rlx.target import Target

_PREFIXES = ("", "scipy_")
_PROBE = "cblas_sgemm"
_PKG_CONFIG_NAMES = ("openblas", "blis", "cblas")


@dataclass(frozen=True, slots=True)
class Blas:
    """A loaded BLAS. `core` is what it says its kernels are made for, if it says."""

    library: SharedLibrary
    prefix: str
    core: str | None
    told: str = DETECTED
    """The core type that it was told while it was loaded, if any."""

    def symbol(self, name: str) -> str:
        """Return what this library calls the function `name`, such as `cblas_sgemm`."""
        return self.prefix + name

    def has(self, name: str) -> bool:
        return self.library.find(self.symbol(name)) is not None

    def address(self, name: str) -> int:
        return self.library.address(self.symbol(name))

    def set_threads(self, count: int) -> None:
        """Set the size of the library's own thread pool, where it has one."""
        for name in ("openblas_set_num_threads", "bli_thread_set_num_threads"):
            address = self.library.find(self.symbol(name))
            if address is not None:
                function_at(address, "void (*)(int)")(count)


def find_blas(target: Target) -> Blas:
    """Return the BLAS of this environment, loaded once, or raise ToolchainError."""
    return open_blas(_library_path(os.environ.get("RLX_BLAS")), target)


def has_lapack(target: Target) -> bool:
    """True if there is a BLAS library and it solves linear systems; loads it."""
    try:
        return find_blas(target).has("dgesv_")
    except ToolchainError:
        return False


def is_blas(symbol: str) -> bool:
    """True for CBLAS names and for LAPACK's, which end in an underscore."""
    return symbol.startswith("cblas_") or symbol.endswith("_")


@functools.cache
def open_blas(path: Path, target: Target) -> Blas:
    """Return the BLAS in a shared library, tamed, or raise ToolchainError."""
    overrides = {"OPENBLAS_NUM_THREADS": "1"}
    core_type = _core_type(path, target)
    if core_type:
        overrides["OPENBLAS_CORETYPE"] = core_type
    with _environment(overrides):
        library = SharedLibrary(path, symbols_for_all=True)
    prefix = _prefix_of(library)
    _refuse_wide_integers(library, prefix)
    blas = Blas(library, prefix, _text(library, f"{prefix}openblas_get_corename"), core_type)
    blas.set_threads(1)
    return blas


def _core_type(path: Path, target: Target) -> str:
    """Return the core type to tell a library, or nothing; what the user says holds."""
    candidates = core_types(target)
    if not candidates or "OPENBLAS_CORETYPE" in os.environ or not path.is_file():
        return DETECTED
    return fastest_core_type(path, target, candidates)


@functools.cache
def _library_path(named: str | None) -> Path:
    if named:
        if not Path(named).is_file():
            raise ToolchainError(
                f"RLX_BLAS names {named}, which is not a file",
                remedy="name a shared library with the CBLAS interface, or unset RLX_BLAS",
            )
        return Path(named)
    found = _system_library() or _wheel_library()
    if found is None:
        raise ToolchainError(
            "no BLAS library found",
            remedy="install the wheel scipy-openblas32, or name a library in RLX_BLAS",
        )
    return found


def _system_library() -> Path | None:
    """Return the shared library of the first BLAS that pkg-config knows."""
    if shutil.which("pkg-config") is None:
        return None
    for name in _PKG_CONFIG_NAMES:
        try:
            words = shlex.split(run_tool(["pkg-config", "--libs", name]))
            words.append("-L" + run_tool(["pkg-config", "--variable=libdir", name]).strip())
        except ToolchainError:
            continue  # not installed: ask for the next one
        found = _file_of(
            [w[2:] for w in words if w[:2] == "-L"], [w[2:] for w in words if w[:2] == "-l"]
        )
        if found is not None:
            return found
    return None


def _options(words: list[str], prefix: str) -> list[str]:
    return [word[2:] for word in words if word.startswith(prefix)]


def _file_of(directories: list[str], names: list[str]) -> Path | None:
    for directory in directories:
        for name in names:
            for suffix in (".so", ".dylib"):
                path = Path(directory) / f"lib{name}{suffix}"
                if path.is_file():
                    return path
    return None


def _wheel_library() -> Path | None:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("lib/libscipy_openblas.*"))
    return found[0] if found else None


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

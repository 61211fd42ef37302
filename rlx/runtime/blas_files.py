"""The files of BLAS libraries: that of the environment, and those that users name.

`RLX_BLAS` names the environment's; otherwise it is a system BLAS known to pkg-config; otherwise
the one inside the wheel `scipy-openblas32`, whose symbols are prefixed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import InputError, ToolchainError
from rlx.homes import later
from rlx.runtime.toolchain import run_tool

if TYPE_CHECKING:
    import shlex
    import shutil
    import sysconfig
else:
    shlex, shutil, sysconfig = later("shlex", "shutil", "sysconfig")

_PKG_CONFIG_NAMES = ("openblas", "blis", "cblas")
_DIRECTORIES = ("/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib", "/opt/homebrew/lib")
_SUFFIXES = (".so", ".dylib")
_NAMES = "'none', 'auto', 'system', a library's name such as 'openblas', or the path of one"


@functools.cache
def library_of_environment(named: str | None) -> Path:
    """Return the library that `named`, the value of RLX_BLAS, or the environment says."""
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


def require_name(name: object) -> None:
    """Refuse what is given as `blas=` and is no name."""
    if not isinstance(name, str):
        raise InputError(f"blas= is {name!r}, which names no library", remedy=f"use {_NAMES}")


def library_of_name(name: str) -> Path:
    """Return the library of a path, or of a name as linkers know it, such as "openblas"."""
    require_name(name)
    if os.sep in name:
        if not Path(name).is_file():
            raise InputError(f"blas= names {name}, which is not a file", remedy=f"use {_NAMES}")
        return Path(name).resolve()
    found = _known_to_pkg_config(name) or next(_in_directories(name), None)
    if found is None:
        raise ToolchainError(
            f"no library {name!r} is known to pkg-config, and no directory of libraries has it",
            remedy=f"install it, name its file as in blas='/opt/lib/lib{name}.so', or use 'auto'",
        )
    return found


def _system_library() -> Path | None:
    """Return the shared library of the first BLAS that pkg-config finds."""
    return next(filter(None, map(_known_to_pkg_config, _PKG_CONFIG_NAMES)), None)


def _known_to_pkg_config(name: str) -> Path | None:
    if shutil.which("pkg-config") is None:
        return None
    try:
        words = shlex.split(run_tool(["pkg-config", "--libs", name]))
        words.append("-L" + run_tool(["pkg-config", "--variable=libdir", name]).strip())
    except ToolchainError:
        return None  # not installed
    directories, names = ([w[2:] for w in words if w[:2] == option] for option in ("-L", "-l"))
    files = (
        Path(d) / f"lib{n}{suffix}" for d in directories for n in names for suffix in _SUFFIXES
    )
    return next(filter(Path.is_file, files), None)


def _in_directories(name: str) -> Iterator[Path]:
    """Yield files of that name, those for linkers first, which a run without headers may lack."""
    architecture = sysconfig.get_config_var("MULTIARCH")
    named = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for directory in (
        *named,
        *([f"/usr/lib/{architecture}"] if architecture else ()),
        *_DIRECTORIES,
    ):
        for suffix in _SUFFIXES:
            yield from sorted(Path(directory).glob(f"lib{name}{suffix}*"))


def _wheel_library() -> Path | None:
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("lib/libscipy_openblas.*"))
    return found[0] if found else None

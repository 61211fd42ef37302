"""Lookup of the modules that declare ops, register their rules and kernels, and export names.

The lists are in `homes_lists.py`, which `tools/generate_homes.py` writes. A package whose names are
imported when they are first used declares them for type checkers:

    if TYPE_CHECKING:
        from rlx.numpy.creation import arange as arange
    else:
        __getattr__ = lazily(__name__)

So does a file that rarely needs a module of Python's library:

    if TYPE_CHECKING:
        import subprocess
    else:
        (subprocess,) = later("subprocess")
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from rlx.homes_lists import LISTS
from rlx.locks import importing
from rlx.public_names import names_of


@functools.cache
def homes_of(kind: str) -> Mapping[str, str]:
    """Return the modules by the names of what they declare or register.

    What a package exports is of the kind that has the package's name.
    """
    modules = (line.split() for line in LISTS.get(kind, "").replace("\n    ", " ").splitlines())
    return {name: module for module, *names in filter(None, modules) for name in names}


def lazily(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports what `homes_of(package)` lists."""
    exported = homes_of(package)
    if any(home == f"{package}.{name}" for name, home in exported.items()):
        sys.modules[package].__class__ = _NamedLikeModules

    def get(name: str) -> Any:
        if name == "__all__":  # of `from package import *`
            return names_of(package)()
        home = exported.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with importing():
            if home == package:
                return importlib.import_module(f"{package}.{name}")
            value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


class _NamedLikeModules(ModuleType):
    """A package that exports names of its own modules: an import would set the module instead."""

    def __setattr__(self, name: str, value: object) -> None:
        home = homes_of(self.__name__).get(name, self.__name__)
        if not isinstance(value, ModuleType) or home == self.__name__:
            super().__setattr__(name, value)


def later(*names: str) -> tuple[Any, ...]:
    """Return what to use for modules that are imported with the first attribute they are used for.

    `subprocess`, `tempfile` and what they import take as long to load as a small program's trace.
    """
    return tuple(map(_Later, names))


class _Later:
    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)

"""The fast call path into compiled graphs: small extension modules of this package.

`gateway.c` takes NumPy's arrays, `tensor_gateway.c` tensors of other frameworks. Each is compiled
once per environment, by a thread of its own while calls take the slow path, and kept in the cache.
Where there is no C compiler, or Python's headers are missing, all calls take the slow path. A
free-threaded Python needs no GIL for them: executables have locks, and so has the table of replays.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from rlx.errors import ToolchainError
from rlx.homes import later
from rlx.locks import unforkable
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.probe import prove
from rlx.runtime.signature import Array
from rlx.runtime.toolchain import find_toolchain
from rlx.target import detect_target

if TYPE_CHECKING:
    import sysconfig
else:
    (sysconfig,) = later("sysconfig")

_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared")
_DELAY = 0.1
"""Seconds before it is made: to a process that ends sooner it is of no use."""

_SHARED = "gateway_call.h"
"""What both modules include."""

InputPort: TypeAlias = tuple[np.dtype[Any], tuple[int, ...], int, int, int]
"""Dtype, shape, address in the arena, number in the table of moves, output that overwrites it."""

OutputPort: TypeAlias = tuple[
    np.dtype[Any],
    tuple[int, ...],
    int,
    int,
    Callable[[], int] | None,
    Callable[[], Array] | None,
    type[Array],
]
"""Dtype, shape, address, number in the table of moves, `Result.take` and `.show`, and the class."""


class FastCall(Protocol):
    """Runs on arrays that are exactly right, or returns None and has done nothing."""

    ready: bool

    def __call__(self, *inputs: Any) -> tuple[Array, ...] | None: ...


class Gateway(Protocol):
    """The extension module."""

    @property
    def Call(self) -> Callable[..., FastCall]: ...  # noqa: N802  a class of the module


def find_gateway(name: str = "gateway", *, wait: bool = False) -> Gateway | None:
    """Return the module if it is there; the first to ask has it made, and may `wait`."""
    if platform.python_implementation() != "CPython":
        return None  # reference counts are relied on
    making = _making(os.getpid(), name)
    if wait and making.thread.ident is not None:
        making.is_awaited.set()
        making.thread.join()
    return making.made


class _Making:
    """A module that is being compiled. Calls need not wait for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: Gateway | None = None
        self.is_awaited = threading.Event()
        self.thread = threading.Thread(target=self._make, name=f"rlx-{name}", daemon=True)
        with contextlib.suppress(RuntimeError):  # there may be no more: calls go the long way
            self.thread.start()

    def _make(self) -> None:
        self.is_awaited.wait(_DELAY)
        try:
            library = _library(self.name)
            with unforkable():
                self.made = _load(self.name, library)
        except (ToolchainError, OSError, ImportError):
            self.made = None


@functools.cache
def _making(process: int, name: str) -> _Making:
    del process  # a forked child has none of its parent's threads
    return _Making(name)


def _library(name: str) -> Path:
    """Return the compiled module; ToolchainError where it cannot be made."""
    toolchain = find_toolchain()
    proof = prove(toolchain, toolchain.flags(detect_target()))
    include = sysconfig.get_path("include")
    flags = (*_FLAGS, *proof.more, f"-I{include}", f"-I{np.get_include()}")
    machine = (platform.machine(), str(sysconfig.get_config_var("SOABI")), np.__version__)
    source = Path(__file__).with_name(f"{name}.c")
    texts = [each.read_text(encoding="utf-8") for each in (source, source.with_name(_SHARED))]
    key = content_key(*texts, *toolchain.command, toolchain.version, *flags, *machine)
    return Cache(cache_directory()).fetch(
        key, ".so", lambda path: toolchain.compile_library(source, path, flags)
    )


def _load(name: str, path: Path) -> Gateway:
    spec = importlib.util.spec_from_file_location(f"rlx_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not an extension module")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    gateway: Gateway = module
    return gateway

"""Interface between the runtime and back ends, which compile a `Module`.

A backend loads a module and hands out its entry points as addresses. What the entries are and
how they are called is fixed by `rlx.codegen.entry`; the runtime calls them through cffi, which
releases the GIL. The C backend is `rlx.runtime.c_backend`, the LLVM one `rlx.codegen.llvm.jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rlx.codegen.machine_code import MachineCode
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module


class NativeModule(Protocol):
    """Loaded machine code. The code lives as long as this object does."""

    @property
    def code(self) -> MachineCode:
        """How another process gets the same machine code."""
        ...

    @property
    def text(self) -> str:
        """The C source or LLVM IR that it was made from."""
        ...

    def address(self, name: str) -> int:
        """Return the address of the entry point called `name`."""
        ...


class Loader(Protocol):
    """Turns a module into machine code for `target`; external symbols are resolved at load."""

    @property
    def name(self) -> str: ...

    def load(self, module: Module, target: Target) -> NativeModule: ...


class Backend(Loader, Protocol):
    """A loader that finds again what it made in another process."""

    def reload(
        self, code: MachineCode, target: Target, module: Callable[[], Module]
    ) -> NativeModule | None:
        """Load what an earlier `load` left in the cache; None if it is gone or does not fit.

        `module` makes the module that it was made from, when a text is asked for.
        """
        ...

    def version(self, target: Target) -> str:
        """Return what the machine code for `target` depends on besides the module."""
        ...

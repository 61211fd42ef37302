"""Inspection of compiled code: schedule, plan, kernels and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rlx.runtime.backend import NativeModule
from rlx.runtime.c_backend import CModule
from rlx.runtime.image import Image
from rlx.runtime.tiers import last_tier

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module
    from rlx.codegen.schedule import Schedule
    from rlx.passes.memory.plan import MemoryPlan


class AnyProgram(Protocol):
    """What lowering hands over: `plan.graph` is the lowered graph that the offsets belong to."""

    @property
    def schedule(self) -> Schedule: ...

    @property
    def plan(self) -> MemoryPlan: ...

    @property
    def module(self) -> Module: ...


class CompiledCode:
    """A program and the machine code that was made from it."""

    _program: AnyProgram
    _native: NativeModule
    _image: Image
    _threads: int

    @property
    def schedule(self) -> Schedule:
        return self._program.schedule

    @property
    def plan(self) -> MemoryPlan:
        return self._program.plan

    @property
    def module(self) -> Module:
        """The kernels and entries in the loop language."""
        return self._program.module

    @property
    def threads(self) -> int:
        return self._threads

    @property
    def address(self) -> int:
        """Address of `int run(uint8_t *arena, int64_t extents...)`."""
        return self._native.address(self._entry("run"))

    @property
    def native(self) -> NativeModule:
        """The loaded machine code, with the text that it was made from; waits for the last tier."""
        return last_tier(self._native)

    @property
    def c_source(self) -> str:
        """The C translation unit, whichever backend runs."""
        from rlx.codegen.c.emit import emit_module

        native = self.native
        return native.text if isinstance(native, CModule) else emit_module(self.module)

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR, whichever backend runs."""
        from rlx.runtime.llvm_backend import llvm_text

        native = self.native
        return llvm_text(self.module) if isinstance(native, CModule) else native.text

    def _entry(self, kind: str) -> str:
        return f"{self._image.name}_{kind}"

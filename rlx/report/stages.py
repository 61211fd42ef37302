"""A program at every stage between graph and machine code, as text.

stages = Stages.of(graph, target, threads=1)
print(stages.text("schedule"))
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from rlx.codegen.c.emit import ModuleEmitter, emit_module
from rlx.codegen.c.line_directives import LineSources, with_line_directives
from rlx.codegen.loops.nodes import Kernel, Module
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.lower import Program, lower_graph
from rlx.codegen.schedule_printer import format_schedule
from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.inspect import summary
from rlx.ir.printer import format_graph
from rlx.passes.decisions import Decisions
from rlx.passes.memory.report import format_plan
from rlx.passes.pipeline import PipelineReport, pipeline
from rlx.passes.precision.mixed_precision import at_precision
from rlx.passes.precision.policy import Precision, target_at
from rlx.report.assembly import assembly_of, functions_of
from rlx.runtime.backend import Backend
from rlx.runtime.blas import has_lapack
from rlx.runtime.llvm_backend import llvm_assembly, llvm_text
from rlx.runtime.lower import c_passes, claimed_ops
from rlx.runtime.toolchain import find_toolchain, run_tool
from rlx.target import Target


@dataclass(frozen=True, slots=True)
class Stages:
    """A lowered program and how it came about."""

    graph: Graph
    passes: PipelineReport
    program: Program
    target: Target
    decisions: Decisions
    target_name: str = ""
    """What the user calls the target, where it was chosen; assembly is then for that."""

    @staticmethod
    def of(
        graph: Graph,
        target: Target,
        precision: Precision = None,
        *,
        libraries: bool = True,
        target_name: str = "",
    ) -> Stages:
        """Run the passes and lower, for one thread.

        Without `libraries` the code calls none, so that its C can be edited and compiled as it is.
        """
        decisions = Decisions()
        low = at_precision(graph, precision, decisions.lowered.append)
        target = target_at(target, precision)
        lapack = partial(has_lapack, target) if libraries else None
        passes = pipeline(claimed_ops(), target, lapack=lapack, decisions=decisions)
        done, report = passes.run_with_report(low)
        lowered = lower_graph(done.graph, target)
        return Stages(graph, report, lowered, target, decisions, target_name)

    def text(self, stage: str, *, backend: str = "auto", kernel: str | None = None) -> str:
        """Return one stage; `kernel` narrows those made of kernels to names that contain it."""
        if kernel is not None:
            return self._kernel_texts(stage, kernel)
        if stage == "asm":
            return self._assembly(backend)
        return _TEXTS[stage](self)

    def module_for_c(self) -> Module:
        """Return what the C back end compiles, or an artifact for the chosen target."""
        if self.target_name:
            return self.program.module
        return self._program_for_c().module

    def program_for(self, backend: Backend) -> Program:
        """Return the program as a backend compiles it."""
        return self._program_for_c() if backend.name == "c" else self.program

    def _program_for_c(self) -> Program:
        return lower_graph(self.program.graph, self.target, c_passes(self.target))

    def c_with_lines(self) -> str:
        """Return the C with `#line` directives to the user's program."""
        sources = LineSources.of(self.program.schedule, self.program.kernels)
        return with_line_directives(self.text("c"), self.program.module.name, sources)

    def kernels_named(self, part: str) -> list[Kernel]:
        """Return the kernels whose name contains `part`; none is an error."""
        found = [kernel for kernel in self.program.module.kernels if part in kernel.name]
        if not found:
            known = ", ".join(kernel.name for kernel in self.program.module.kernels)
            raise InputError(f"no kernel's name contains {part!r}", remedy=f"there are: {known}")
        return found

    def _kernel_texts(self, stage: str, part: str) -> str:
        kernels = self.kernels_named(part)
        if stage == "c":
            emitter = ModuleEmitter()
            return "\n\n".join(emitter.kernel(kernel) for kernel in kernels)
        if stage == "kernels":
            return "\n\n".join(map(format_kernel, kernels))
        raise InputError(f"stage {stage!r} is not made of kernels", remedy="use 'kernels' or 'c'")

    def assembly_by_kernel(self) -> Mapping[str, str]:
        """Return the assembly of each kernel for the chosen target; none where none is chosen."""
        return functions_of(self._assembly("c")) if self.target_name else {}

    def _assembly(self, backend: str) -> str:
        if self.target_name and backend != "llvm":
            return assembly_of(self.program, self.graph, self.target, self.target_name)
        module = self.program.module
        if backend == "llvm":
            return llvm_assembly(module)
        return _c_assembly(self.module_for_c(), self.target)


def _c_assembly(module: Module, target: Target) -> str:
    """Return what the C compiler makes of `module`."""
    toolchain = find_toolchain()
    flags = [flag for flag in toolchain.flags(target) if flag != "-shared"]
    with tempfile.TemporaryDirectory() as directory:
        source, assembly = Path(directory) / f"{module.name}.c", Path(directory) / "out.s"
        source.write_text(emit_module(module), encoding="utf-8")
        run_tool([*toolchain.command, *flags, "-S", "-o", str(assembly), str(source)])
        return assembly.read_text(encoding="utf-8")


_TEXTS: Mapping[str, Callable[[Stages], str]] = {
    "graph": lambda stages: summary(stages.graph),
    "passes": lambda stages: str(stages.passes),
    "lowered": lambda stages: format_graph(stages.program.graph, full=False),
    "schedule": lambda stages: format_schedule(stages.program.schedule, stages.program.kernels),
    "plan": lambda stages: format_plan(stages.program.plan),
    "kernels": lambda stages: "\n\n".join(map(format_kernel, stages.program.module.kernels)),
    "c": lambda stages: emit_module(stages.module_for_c()),
    "llvm": lambda stages: llvm_text(stages.program.module),
}
"""Stage -> its text; assembly depends on the backend and is made apart."""

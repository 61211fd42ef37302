"""`RLX_DUMP=dir` writes every stage: the graph after each pass, and all that follows.

The pipeline writes the graphs, numbered from 00; here are the stages after lowering.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from rlx.codegen.c.emit import emit_module
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.lower import Program
from rlx.codegen.schedule_printer import format_schedule
from rlx.passes.memory.report import format_plan
from rlx.passes.stage_files import write_stage
from rlx.runtime.llvm_backend import llvm_text


def dump_program(program: Program, directory: Path) -> None:
    """Write plan, schedule, kernels, C and LLVM IR into `directory`."""
    for file, text in _stages(program):
        write_stage(directory, file, text.rstrip("\n") + "\n")


def _stages(program: Program) -> Iterator[tuple[str, str]]:
    yield "90_plan.txt", format_plan(program.plan)
    yield "91_schedule.txt", format_schedule(program.schedule, program.kernels)
    yield "92_kernels.txt", "\n\n".join(map(format_kernel, program.module.kernels))
    yield "93_module.c", emit_module(program.module)
    if importlib.util.find_spec("llvmlite"):  # for the host CPU, on which the text depends
        yield "94_module.ll", llvm_text(program.module)

"""The stack of an artifact: what compilers report is within what the header promises."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.embedded.programs import PROGRAMS as PUBLISHED
from bench.embedded.programs import export
from rlx.codegen.aot.stack import stack_bytes
from rlx.codegen.c.emit import emit_module
from rlx.codegen.kernels.build import WIDEST
from rlx.codegen.loops.nodes import Invoke, Kernel
from rlx.codegen.loops.visit import walk
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.cross import find_compiler
from tests.aot.building import needs_compiler, require, run
from tests.aot.programs import encoder_layer, lookup, mlp, scaled_rows, training_step
from tests.codegen.kernels.native import Case, case_of, module_of
from tests.codegen.uses import share
from tests.records import OpRecord, records

pytestmark = needs_compiler
FLAGS = ("-std=c11", "-ffp-contract=off", "-fopenmp-simd", "-w", "-fstack-usage")
LEFT_OUT = ("-fno-gcse-after-reload", "-fno-schedule-insns2", "-fno-peephole2")
"""Passes of GCC after registers and places on the stack are given: they change no frame."""
PROGRAMS = (mlp, training_step, scaled_rows, lookup, encoder_layer)


def measured(command: tuple[str, ...], source: Path, directory: Path) -> Mapping[str, int]:
    """Return the bytes of each function's frame, with the parts that a compiler splits off."""
    unit = directory / "unit.o"
    run(*command, *FLAGS, "-c", source, "-o", unit)
    frames: dict[str, int] = collections.Counter()
    for name, size in re.findall(r":(\w+)[^:\s]*\t(\d+)\t", unit.with_suffix(".su").read_text()):
        frames[name] += int(size)
    assert frames
    return frames


def deepest(kernel: Kernel, frames: Mapping[str, int]) -> int:
    """Return the bytes of the deepest chain of calls; what is inlined has no frame."""
    callees = [s.kernel for s in walk(kernel.body) if isinstance(s, Invoke)]
    return frames.get(kernel.name, 0) + max((deepest(c, frames) for c in callees), default=0)


def check_records(command: tuple[str, ...], stride: int, start: int, directory: Path) -> None:
    check_cases(command, [use.case for use in share(stride, start)], directory)


def check_cases(command: tuple[str, ...], cases: list[Case], directory: Path) -> None:
    source = directory / "unit.c"
    source.write_text(emit_module(module_of(cases)))
    left_out = LEFT_OUT if command[0] == "gcc" else ()
    frames = measured((require(command[0]), *command[1:], *left_out), source, directory)
    for case in cases:
        bound = stack_bytes([case.entry], WIDEST)
        assert deepest(case.entry, frames) <= bound, f"{case.entry.name}: {bound}"


@pytest.mark.parametrize("start", range(0, 1208, 151))
@pytest.mark.parametrize("command", [("gcc", "-O3"), ("clang", "-O2")])
def test_stack_of_recorded_kernels_is_within_its_bound(
    command: tuple[str, ...], start: int, tmp_path: Path
) -> None:
    check_records(command, 1208, start, tmp_path)


@pytest.mark.slow
def test_stack_of_unrolled_loops_over_wide_vectors_is_within_its_bound(tmp_path: Path) -> None:
    """GCC without AVX-512 keeps all vectors of 64 bytes in memory, of several iterations."""
    nine = [record for record in records() if name_of(record) == "solve_nine_vector"]
    assert nine
    check_cases(("gcc", "-O3"), [case_of(r.graph(DType.F32), name_of(r)) for r in nine], tmp_path)


def name_of(record: OpRecord) -> str:
    return re.sub(r"\W", "_", record.id)


@pytest.mark.costly(4)
@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 72, 18))
@pytest.mark.parametrize(("first", "level"), [(0, "-Os"), (1, "-O2"), (2, "-O3")])
def test_stack_of_many_recorded_kernels_is_within_its_bound(
    first: int, level: str, start: int, tmp_path: Path
) -> None:
    """All of them take a quarter of an hour: each level has others, an eighteenth."""
    check_records(("gcc", level), 72, first + start, tmp_path)


def promised(artifact: Artifact) -> int:
    found = re.search(r"_STACK_BYTES (\d+)", artifact.header.read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.guarantee(
    "Exported C",
    "The stack that compilers report is within the bound that the header states.",
)
@pytest.mark.parametrize("graph", PROGRAMS)
def test_stack_of_whole_programs_is_within_what_the_header_says(
    graph: Callable[[], Graph], tmp_path: Path
) -> None:
    artifact = aot(graph(), tmp_path, emit_only=True)
    for command in (("gcc", "-O2"), ("clang", "-O2"), ("gcc", "-Os")):
        frames = measured((require(command[0]), command[1]), artifact.source, tmp_path)
        assert sum(sorted(frames.values())[-6:]) <= promised(artifact)


@pytest.mark.parametrize("graph", PROGRAMS)
def test_stack_on_a_microcontroller_is_small(graph: Callable[[], Graph], tmp_path: Path) -> None:
    require("arm-none-eabi-gcc")
    artifact = aot(graph(), tmp_path, target="cortex-m4", math="none", emit_only=True)
    compiler = find_compiler("cortex-m4")
    frames = measured((*compiler.command, *compiler.flags, "-Os"), artifact.source, tmp_path)
    assert sum(sorted(frames.values())[-6:]) <= promised(artifact)
    assert promised(artifact) == artifact.manifest["stack_bytes"]


def deepest_call(command: tuple[str, ...], source: Path, root: str) -> int:
    """Return the bytes of the deepest chain of calls from `root`, by GCC's graph of calls."""
    unit = source.with_suffix(".o")
    run(*command, *FLAGS[:-1], "-fcallgraph-info=su", "-c", source, "-o", unit)
    graph = unit.with_suffix(".ci").read_text()
    nodes = re.findall(r'title: "([^"]+)" label: "[^"]*?(\d+) bytes', graph)
    frames = {name: int(size) for name, size in nodes}
    calls = collections.defaultdict(list)
    for caller, callee in re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', graph):
        calls[caller].append(callee)

    def below(name: str) -> int:
        return frames.get(name, 0) + max(map(below, calls[name]), default=0)

    return below(root)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize(("target", "most", "few"), [("portable", 18, 1280), ("cortex-m4", 7, 0)])
def test_bound_is_not_far_from_the_deepest_call(
    target: str, most: int, few: int, name: str, tmp_path: Path
) -> None:
    """Of the programs that the documentation publishes; and of GCC's at its hungriest level.

    Where GCC keeps all in registers, a multiple of next to nothing says little.
    """
    if target == "portable":
        tool: tuple[str, ...] = (require("gcc"),)
    else:
        require("arm-none-eabi-gcc")
        compiler = find_compiler(target)
        tool = (*compiler.command, *compiler.flags)
    artifact = export(name, target, tmp_path)
    levels = ("-Os", "-O2", "-O3")
    taken = [deepest_call((*tool, o), artifact.source, f"{name}_call") for o in levels]
    assert max(taken) <= promised(artifact) <= max(most * max(taken), few)

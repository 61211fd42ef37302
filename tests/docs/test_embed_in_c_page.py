"""The tables and lists of the page about embedding a model in C are true."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlx.runtime.aot import Artifact, aot
from rlx.runtime.cross import find_compiler, machine_of
from tests.aot.building import Loaded, file_block, needs_compiler, require, run
from tests.aot.programs import mlp, params_of
from tests.aot.test_cppcheck import EXPLAINED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "embed_in_c.md"
PROGRAMS = "| program | C by | x86-64 | riscv64 | wasm32-simd128 | cortex-m4 | code | RAM | stack |"


def cells(header: str) -> list[list[str]]:
    """Return the rows of the table with this header."""
    _, _, rest = PAGE.read_text().partition(f"\n{header}\n")
    rows = rest.split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_program_of_the_page_is_in_a_language_that_the_tutorial_runs() -> None:
    text = PAGE.read_text()
    languages = re.findall(r"^```(\w+)\n", text, re.MULTILINE)
    assert set(languages) == {"python", "c", "sh"}
    assert text.count("```") == 2 * len(languages)


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact that the page's Python exports."""
    directory = tmp_path_factory.mktemp("points")
    code = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(code) == 1
    names: dict[str, Any] = {}
    exec(compile(code[0].replace('"build"', repr(str(directory))), PAGE.name, "exec"), names)
    artifact: Artifact = names["artifact"]
    return artifact


@needs_compiler
def test_the_files_are_those_of_the_table(points: Artifact, tmp_path: Path) -> None:
    rows = cells("| file | what it is |")
    named = {name for first, _ in rows for name in re.findall(r"`(.+?)`", first)}
    assert {path.name for path in points.directory.iterdir()} == named
    other = aot(mlp(), tmp_path, emit_only=True)
    assert points.info_header.read_bytes() == other.info_header.read_bytes()
    assert '#include "rlx_info.h"' in points.header.read_text()
    assert [param["offset"] % 64 for param in points.manifest["params"]] == [0, 0, 0]
    facts, text = points.manifest["params"][0], points.source.read_text()
    assert {"shape", "dtype", "offset"} <= set(facts)
    assert all(call["kernel"] in text for call in points.manifest["run"])


@needs_compiler
def test_the_header_has_bytes_and_elements_of_every_tensor(points: Artifact) -> None:
    text = points.header.read_text()
    for role in ("inputs", "outputs", "params"):
        for tensor in points.manifest[role]:
            name = tensor["name"].upper()
            assert f"#define POINTS_{name}_BYTES {tensor['bytes']}\n" in text
            assert f"#define POINTS_{name}_ELEMENTS {tensor['bytes'] // 4}\n" in text
    for macro in ("ARENA_BYTES", "WEIGHTS_BYTES", "STACK_BYTES", "RLX_VERSION_NUMBER"):
        assert re.search(rf"^#define POINTS_{macro} \d+", text, re.MULTILINE)


@needs_compiler
def test_null_leaves_an_array_in_the_arena(points: Artifact) -> None:
    native = Loaded(
        points,
        "int points_load_weights(void *, const void *, size_t);"
        "int points_call(void *, const float *, float *);",
    )
    assert points.weights is not None
    block = file_block(points.weights)
    weights = native.ffi.cast("void *", block.ctypes.data)
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("load_weights", native.arena, weights, block.size) == 0
    assert native.call("setup", native.arena) == 0
    native.view("inputs", "x")[...] = 0.5
    assert native.call("call", native.arena, native.ffi.NULL, native.ffi.NULL) == 0
    classes = native.view("outputs", "classes").reshape(4, 3)
    assert classes.sum(axis=1) == pytest.approx([1] * 4)
    assert classes[0].tobytes() == classes[3].tobytes()


def test_every_target_of_the_page_is_known() -> None:
    listed = PAGE.read_text().partition("## 5. Targets")[2].partition("\n## ")[0]
    pattern = r'`(?:target=)?"((?:x86|aarch|cortex|thumb|riscv|wasm)[\w-]+)"`'
    names = set(re.findall(pattern, listed))
    assert len(names) >= 14
    assert all(machine_of(name).architecture for name in names)


def test_riscv32_has_a_gcc_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert find_compiler("riscv32").command == ("riscv64-unknown-elf-gcc",)


def test_speed_may_arrange_matrices_anew_in_the_arena(tmp_path: Path) -> None:
    params = params_of(mlp())
    sizes = [
        aot(mlp(), tmp_path, params=params, optimize=goal, emit_only=True).arena_bytes
        for goal in ("size", "speed")
    ]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_an_archive_for_a_core_needs_memory_functions_and_arithmetic_alone(
    tmp_path: Path, core: str
) -> None:
    require("arm-none-eabi-gcc")
    params = params_of(mlp())
    artifact = aot(mlp(), tmp_path, params=params, weights="embed", target=core, math="none")
    assert artifact.archive is not None
    words = run("arm-none-eabi-nm", "-u", artifact.archive).split()
    needed = {word for word in words if word != "U" and not word.endswith(":")}
    arithmetic = {name for name in needed if name.startswith("__aeabi_")}
    assert needed - arithmetic <= {"memcpy", "memset"}
    assert bool(arithmetic) == (core == "cortex-m0")


def test_every_warning_that_is_switched_off_has_its_reason(tmp_path: Path) -> None:
    lines = aot(mlp(), tmp_path, emit_only=True).source.read_text().splitlines()
    ignored = [i for i, line in enumerate(lines) if " diagnostic ignored " in line]
    about_pragmas = ("-Wunknown-pragmas", "-Wpass-failed", "-Wunknown-warning-option")
    special = [i for i in ignored if not any(word in lines[i] for word in about_pragmas)]
    assert special
    assert all(lines[i - 1].startswith("// ") for i in special)


def test_cppcheck_has_as_many_reasons_as_the_page() -> None:
    assert len(EXPLAINED) == 5
    assert "`cppcheck` reports five kinds of findings" in PAGE.read_text().replace("\n", " ")


def test_spelled_out_products_take_more_code_in_the_table() -> None:
    rows = {(name, by): rest for name, by, *rest in cells(PROGRAMS)}
    for name in ("mlp", "training_step"):
        ours, theirs = (rows[name, by] for by in ("rlx", "tinygrad"))
        assert int(theirs[3]) < int(ours[3])
        assert 3 * int(ours[4]) < int(theirs[4]) < 4 * int(ours[4])


def figures(rows: list[list[str]]) -> Mapping[str, tuple[int, ...]]:
    """Return the whole numbers of each row by its first cell."""
    return {row[0]: tuple(int(cell) for cell in row[1:] if cell.isdigit()) for row in rows}


@pytest.mark.slow
def test_a_network_on_a_core_takes_what_the_table_says(tmp_path: Path) -> None:
    from examples.microcontroller.run import run as measure

    for tool in ("arm-none-eabi-gcc", "qemu-system-arm"):
        require(tool)
    shown = figures(cells("| | rlx | by hand |"))
    m4, m3 = (measure(core, tmp_path / core) for core in ("cortex-m4", "cortex-m3"))
    rows = list(shown.values())
    found = [m4["instructions"], m3["instructions"], m4["code"], m4["arena"], m4["stack"]]
    for row, (value,) in zip(rows, found, strict=True):
        assert row[0] == pytest.approx(value, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["aarch64", "riscv64"])
def test_emulated_machines_execute_what_the_table_says(tmp_path: Path, target: str) -> None:
    from bench.embedded.__main__ import build_emulated, export
    from bench.embedded.emulation import instructions

    pytest.importorskip("ziglang")
    require(f"qemu-{target}")
    export(tmp_path, target)
    program = build_emulated(tmp_path, target)
    counts = [instructions(target, program, which) for which in "10"]
    rows = figures(cells("| target | compiler | | rlx | by hand |"))
    assert counts == pytest.approx(list(rows[target]), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64", "riscv64"])
@pytest.mark.parametrize("name", ["mlp", "training_step", "scan_gradient", "solve_3x3"])
def test_small_programs_execute_what_the_table_says(tmp_path: Path, name: str, target: str) -> None:
    from bench.embedded.programs import EMULATED, export, instructions

    pytest.importorskip("ziglang")
    require(f"qemu-{EMULATED[target]}")
    column = [cell.strip() for cell in PROGRAMS.strip("|").split("|")].index(target)
    (row,) = (row for row in cells(PROGRAMS) if row[:2] == [name, "rlx"])
    counted = instructions(export(name, target, tmp_path), target)
    assert int(row[column]) == pytest.approx(counted, rel=0.05)

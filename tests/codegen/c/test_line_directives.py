"""`#line` directives lead from generated C to the user's program."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.c.emit import emit_module
from rlx.codegen.c.line_directives import LineSources, with_line_directives
from rlx.codegen.lower import Program
from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.runtime.lower import lower_for
from rlx.target import named_target


def two_lines() -> Graph:
    g = Graph("lines")
    x = g.input("x", (4, 4))
    with g.attributed(Source("model.py", 11, "build")):
        y = g.cumsum(x, axis=0)
    with g.attributed(Source("model.py", 12, "build")):
        g.set_outputs([g.softmax(y, axis=1)])
    return g


def directives(program: Program) -> str:
    sources = LineSources.of(program.schedule, program.kernels)
    return with_line_directives(emit_module(program.module), "lines", sources)


def places(text: str, file: str = "lines.c") -> list[tuple[str, int, str]]:
    """Return (file, line, text) of every line as the compiler counts them."""
    found, number = [], 1
    for line in text.splitlines():
        directive = re.fullmatch(r'#line (\d+) "(.*)"', line)
        if directive:
            number, file = int(directive[1]), directive[2]
        else:
            found.append((file, number, line))
            number += 1
    return found


def test_kernels_and_calls_belong_to_the_users_lines() -> None:
    text = directives(lower_for(two_lines(), named_target("x86-64-v3")))
    mapped = dict.fromkeys((11, 12), 0)
    for file, number, line in places(text):
        if file == "model.py" and not re.match(r" +}$| *//| *#|$", line):
            mapped[number] += 1
    assert all(count > 3 for count in mapped.values())


def test_all_other_lines_keep_their_own_number() -> None:
    text = directives(lower_for(two_lines(), named_target("x86-64-v3")))
    own = text.splitlines()
    others = [(number, line) for file, number, line in places(text) if file == "lines.c"]
    assert [own[number - 1] for number, _ in others] == [line for _, line in others]
    assert len(others) > 10


def test_the_code_without_directives_is_the_generated_code() -> None:
    program = lower_for(two_lines(), named_target("x86-64-v3"))
    text = directives(program)
    kept = [line for line in text.splitlines() if not line.startswith("#line")]
    assert "".join(kept).split() == emit_module(program.module).replace("\n", "").split()


def test_a_statement_has_one_directive_and_one_line() -> None:
    lines = directives(lower_for(two_lines(), named_target("x86-64-v3"))).splitlines()
    mapped = [i for i, line in enumerate(lines) if re.fullmatch(r'#line \d+ "model.py"', line)]
    followers = [lines[i + 1] for i in mapped]
    assert len(followers) > 20
    assert all(line.endswith((";", "{", "}")) for line in followers)
    assert not [line for line in followers if line.startswith("#line")]


def test_kernels_that_work_in_place_belong_to_lines_too() -> None:
    text = directives(lower_for(two_lines(), named_target("portable")))
    head = next(i for i, line in enumerate(text.splitlines()) if "noinline" in line)
    assert text.splitlines()[head - 1] == '#line 12 "model.py"'


MODEL = """def sums(rnp, x):
    y = rnp.cumsum(x, axis=0)
    return rnp.sort(y, axis=1)
"""


@pytest.mark.parametrize("in_python", [True, False])
def test_a_debugger_is_in_the_users_program_or_in_the_c(tmp_path: Path, in_python: bool) -> None:
    for tool in ("gdb", "gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    function = runpy.run_path(str(model))["sums"]
    rlx.aot(
        rlx.jit(partial(function, rnp)), tmp_path, name="sums", emit_only=True,
        example_inputs=(np.zeros((4, 4), np.float32),), line_directives=in_python,
    )  # fmt: skip
    subprocess.run(
        ["gcc", "-g", "-O0", "main.c", "sums.c", "-lm"], cwd=tmp_path, check=True, timeout=600
    )
    shown = subprocess.run(
        ["gdb", "-batch", "-nx", "-ex", "info line sort_4x4", "./a.out"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (f'Line 3 of "{model}"' in shown.stdout) is in_python, shown.stdout
    assert ('of "sums.c"' in shown.stdout) is not in_python, shown.stdout


def test_code_with_directives_runs_and_names_the_users_file(tmp_path: Path) -> None:
    graph = two_lines()
    f = compile(graph, backend="c", threads=1)
    assert isinstance(f, Executable)
    source = tmp_path / "debug.c"
    source.write_text(directives(lower_for(graph, named_target("native"))))
    debugged = f.rebuild(source, flags=["-g"])
    x = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    np.testing.assert_array_equal(debugged(x=x)[0], f(x=x)[0])
    if shutil.which("objdump") is None:
        pytest.skip("no objdump to read the debug lines with")
    library = debugged.native.library.path  # type: ignore[attr-defined]  # a CModule
    shown = subprocess.run(
        ["objdump", "--dwarf=decodedline", str(library)],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert re.search(r"model.py\s+12\b", shown.stdout)

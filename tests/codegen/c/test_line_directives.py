"""`#line` directives lead from generated C to the user's program."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rlx.codegen.c.emit import emit_module
from rlx.codegen.c.line_directives import LineSources, with_line_directives
from rlx.codegen.lower import Program
from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile, lower_for
from rlx.runtime.executable import Executable
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
    for file, number, _ in places(text):
        if file == "model.py":
            mapped[number] += 1
    assert all(count > 3 for count in mapped.values())


def test_all_other_lines_keep_their_own_number() -> None:
    text = directives(lower_for(two_lines(), named_target("x86-64-v3")))
    own = text.splitlines()
    for file, number, line in places(text):
        if file == "lines.c":
            assert own[number - 1] == line


def test_the_code_without_directives_is_the_generated_code() -> None:
    program = lower_for(two_lines(), named_target("x86-64-v3"))
    kept = [line for line in directives(program).splitlines() if not line.startswith("#line")]
    assert kept == emit_module(program.module).splitlines()


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

"""The machine code of a program for a named target, as its C compiler prints it.

    target = ChosenTarget("cortex-m4")
    text = assembly_of(program, graph, target)      # of the C that `rlx.aot` exports
    functions_of(text)["matmul_4x16"]

Kernels are kept apart for it: an exported program has them put into one function.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rlx.codegen.aot.emit import emit_artifact
from rlx.codegen.aot.options import PORTABLE_FLAGS, SMALL_FLAGS, Options
from rlx.codegen.c.names import c_identifier
from rlx.codegen.lower import Program
from rlx.errors import ToolchainError
from rlx.ir.graph import Graph
from rlx.runtime.cross import find_compiler
from rlx.runtime.toolchain import run_tool
from rlx.target import Target

_APART = ("-fno-inline-small-functions", "-fno-inline-functions-called-once")
_APART_IN_CLANG = ("-finline-hint-functions",)
_LABEL = re.compile(r"^\"?([A-Za-z_]\w*)(?:\.\w+)*\"?:")
_NOISE = re.compile(r"^\s*\.(?!L\w*:)|^\s*[#@;]|^\s*$|^\s*//")


def assembly_of(program: Program, graph: Graph, target: Target, name: str) -> str:
    """Return the assembly of `graph`, lowered to `program`, for the target called `name`."""
    options = Options(
        name=c_identifier(graph.name),
        target=name,
        without_libm=True,
        is_plain=not target.has_vectors,
        alignment=target.alignment,
        machine=target,
    )
    files = emit_artifact(program, graph, options).files
    compiler = find_compiler(name)
    usual = SMALL_FLAGS if target.is_small else PORTABLE_FLAGS
    with tempfile.TemporaryDirectory() as directory:
        for file in (f"{options.name}.c", f"{options.name}.h", "rlx_info.h"):
            (Path(directory) / file).write_text(files[file], encoding="utf-8")
        source, output = Path(directory) / f"{options.name}.c", Path(directory) / "out.s"
        command = [*compiler.command, "-std=c11", *usual, *compiler.flags, "-g0"]
        _compile_apart([*command, "-S", str(source), "-o", str(output)])
        text = output.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise ToolchainError(
            f"`{shlex.join(compiler.command)}` succeeded but printed no assembly for {name}",
            remedy="run it again; a compiler's cache that several processes fill may do this",
        )
    return text


def functions_of(text: str) -> Mapping[str, str]:
    """Return the instructions of each function in an assembly, without directives."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None and not label[1].startswith("L"):
            lines = found.setdefault(label[1], [])
        elif lines is not None and not _NOISE.match(line):
            lines.append(line.rstrip())
    return {name: "\n".join(lines) for name, lines in found.items()}


def _compile_apart(command: list[str]) -> None:
    """Compile without putting kernels into what calls them: clang has a word that GCC refuses."""
    try:
        run_tool([*command, *_APART_IN_CLANG])
    except ToolchainError:
        run_tool([*command, *_APART])

"""Graphs of files, exported to C, compiled together under sanitizers, and run one by one."""

from __future__ import annotations

import functools
import math
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rlx
from rlx.ir.graph import Graph
from rlx.ir.shape import evaluate as extent_at
from rlx.runtime.aot import Artifact
from tests.fuzz.files.case import Array
from tests.fuzz.program import DTYPES

_DRIVER = Path(__file__).with_name("many.c")
_FLAGS = (
    "-std=c11", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    "-Wno-psabi",
)  # fmt: skip
_COMPILE_SECONDS, _RUN_SECONDS = 300, 20
_REFUSED = 3
"""The driver's exit code for a status that is not 0."""


class NativeError(Exception):
    """Exported code that does not compile, or that a sanitizer stops."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A graph in C, with what it is given."""

    graph: Graph
    params: Mapping[str, Array]
    artifact: Artifact


def compiler() -> str | None:
    """Return a C compiler with sanitizers; None if there is none."""
    return next((c for c in ("clang", "gcc") if shutil.which(c) and _has_sanitizers(c)), None)


@functools.cache
def _has_sanitizers(command: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.c"
        source.write_text("int main(void) { return 0; }\n")
        words = [command, *_FLAGS, str(source), "-o", f"{folder}/empty"]
        return subprocess.run(words, capture_output=True).returncode == 0


def export(graph: Graph, params: Mapping[str, Array], folder: Path, number: int) -> Exported:
    """Write a graph as C, under a name of its own; params are constants in the code."""
    artifact = rlx.aot(
        graph, folder / f"p{number}", name=f"p{number}", params=dict(params),
        weights="embed" if params else None, emit_only=True,
    )  # fmt: skip
    return Exported(graph, params, artifact)


def build(programs: Sequence[Exported], folder: Path) -> Path:
    """Compile programs and the driver into one binary."""
    names = [program.artifact.source.stem for program in programs]
    declared = "".join(f"const struct rlx_info *{name}_get_info(void);\n" for name in names)
    entries = ", ".join(f"{name}_get_info" for name in names)
    table = f"{declared}const struct rlx_info *(*const programs[])(void) = {{{entries}}};\n"
    (folder / "programs.h").write_text(table)
    binary = folder / "all.out"
    include = [f"-I{folder}", *(f"-I{program.artifact.directory}" for program in programs)]
    sources = [str(_DRIVER), *(str(program.artifact.source) for program in programs)]
    command = [str(compiler()), *_FLAGS, *include, *sources, "-o", str(binary), "-lm"]
    done = subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS)
    if done.returncode:
        raise NativeError(done.stderr.decode(errors="replace")[:3000])
    return binary


def run(
    binary: Path, number: int, program: Exported, inputs: Mapping[str, Array]
) -> list[Array] | None:
    """Return the outputs; None where a status refuses the inputs, or the run takes too long."""
    given = program.artifact.manifest["inputs"]
    words = [struct.pack("<Q", len(given))]
    for facts in given:
        array = inputs[facts["name"]]
        words += [struct.pack("<QQ", facts["offset"], array.nbytes), array.tobytes()]
    binding = {symbol.name: symbol.max or 0 for v in program.graph.inputs
               for e in v.shape if isinstance(e, rlx.Dim) for symbol in e.symbols}  # fmt: skip
    extents = [str(binding[symbol["name"]]) for symbol in program.artifact.manifest["symbols"]]
    try:
        done = subprocess.run(
            [str(binary), str(number), *extents], input=b"".join(words), capture_output=True,
            timeout=_RUN_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == _REFUSED:
        return None
    if done.returncode:
        message = done.stderr.decode(errors="replace")
        raise NativeError(f"exit code {done.returncode}: {message[:3000]}")
    outputs = program.artifact.manifest["outputs"]
    return [
        np.frombuffer(done.stdout, DTYPES[facts["dtype"]], math.prod(shape), facts["offset"])
        .reshape(shape)
        for facts, shape in (
            (facts, tuple(extent_at(e, binding) for e in value.shape))
            for facts, value in zip(outputs, program.graph.outputs, strict=True)
        )
    ]  # fmt: skip

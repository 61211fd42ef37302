"""Exports of a program: its C compiled by several compilers for several machines, and compared."""

from __future__ import annotations

import importlib.util
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, bind_symbol, evaluate
from rlx.runtime.aot import Artifact
from tests.fuzz.program import DTYPES, Array

_DRIVER = Path(__file__).with_name("driver.c")
_SANITIZED = ("clang", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_ZIG = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined", "-static", "-target")
_SECONDS = 300


class ExportError(Exception):
    """An exported program that does not compile, or stops."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a program is exported, what compiles it, and what runs the binary."""

    commands: tuple[tuple[str, ...], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    emulator: str | None = None

    def available(self) -> Iterator[tuple[str, ...]]:
        """Yield the commands whose tools are on this machine."""
        if self.emulator is None or shutil.which(self.emulator) is not None:
            for command in self.commands:
                zig = command[0] == sys.executable
                if importlib.util.find_spec("ziglang") if zig else shutil.which(command[0]):
                    yield command


def _emulated(architecture: str, triple: str) -> Way:
    command = (*_ZIG, triple, "-O2")
    return Way((command,), {"target": triple}, f"qemu-{architecture}")


WAYS: Mapping[str, Way] = {
    "portable": Way((("gcc", "-O1"), ("gcc", "-O3"), _SANITIZED)),
    "native": Way(
        tuple((*c, "-march=native", "-Wno-psabi") for c in (("gcc", "-O3"), _SANITIZED)),
        {"target": "native"},
    ),
    "aarch64": _emulated("aarch64", "aarch64-linux-musl"),
    "x86-64-v3": Way((("gcc", "-O2", "-march=x86-64-v3"),), {"target": "x86-64-v3"}),
    "plain C": Way((("tcc",), ("gcc", "-std=c99", "-O2"), _SANITIZED), {"vectors": "none"}),
    "riscv64": _emulated("riscv64", "riscv64-linux-musl"),
    "small": Way((("gcc", "-Os"), _SANITIZED), {"optimize": "size"}),
    "core": Way((("gcc", "-Os"), _SANITIZED), {"target": "cortex-m4", "math": "none"}),
    "arm": _emulated("arm", "arm-linux-musleabihf"),
    "32 bits": Way(((*_ZIG, "x86-linux-musl", "-O2", "-msse2", "-mfpmath=sse"),)),
    "OpenMP": Way((("gcc", "-O2", "-fopenmp"),), {"threads": "openmp"}),
    "no libm": Way((("gcc", "-O3"), ("clang", "-O2")), {"math": "none"}),
}
"""What an exported program may run into, by name; "32 bits" are pointers and sizes."""


def is_foreign(name: str) -> bool:
    """True for a way whose C library Zig has to build first, which takes a minute."""
    return any(sys.executable in command for command in WAYS[name].commands)


def exported_results(
    graph: Graph, ways: Sequence[str], arrays: Sequence[Array]
) -> Iterator[tuple[str, list[Array]]]:
    """Yield how the program was built, and its outputs, for each way and compiler."""
    for name in ways:
        way = WAYS[name]
        with tempfile.TemporaryDirectory() as directory:
            artifact = rlx.aot(graph, directory, name="fuzz", **way.options, emit_only=True)
            for command in way.available():
                how = f"{' '.join(command)} ({name})"
                runner = [] if way.emulator is None else [way.emulator]
                run = [*runner, str(_built(artifact, command))]
                yield how, _outputs(graph, artifact, run, arrays)


def _built(artifact: Artifact, command: Sequence[str]) -> Path:
    binary = artifact.directory / "fuzz.out"
    sources = [str(_DRIVER), str(artifact.source), f"-I{artifact.directory}"]
    standard = () if any(word.startswith("-std=") for word in command) else ("-std=c11",)
    _run([*command, *standard, *sources, "-o", str(binary), "-lm"], b"")
    return binary


def _binding(graph: Graph, arrays: Sequence[Array]) -> dict[str, int]:
    """Return the extent of each symbol that the inputs carry."""
    found: dict[str, int] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        for extent, size in zip(value.shape, array.shape, strict=True):
            if isinstance(extent, Dim):
                bind_symbol(extent, size, found)
    return found


def _outputs(
    graph: Graph, artifact: Artifact, command: Sequence[str], arrays: Sequence[Array]
) -> list[Array]:
    binding = _binding(graph, arrays)
    shapes = [tuple(evaluate(e, binding) for e in output.shape) for output in graph.outputs]
    inputs = artifact.manifest["inputs"]
    extents = [str(binding[symbol["name"]]) for symbol in artifact.manifest["symbols"]]
    given = [struct.pack("<Q", len(inputs))]
    for facts, array in zip(inputs, arrays, strict=True):
        given += [struct.pack("<QQ", facts["offset"], array.nbytes), array.tobytes()]
    arena = _run([*command, str(artifact.arena_bytes), *extents], b"".join(given))
    outputs = zip(artifact.manifest["outputs"], shapes, strict=True)
    return [_array(facts, shape, arena) for facts, shape in outputs]


def _array(facts: dict[str, Any], shape: tuple[int, ...], arena: bytes) -> Array:
    """Return an output from the front of its place, which may be larger."""
    dtype, offset = DTYPES[facts["dtype"]], facts["offset"]
    return np.frombuffer(arena, dtype, math.prod(shape), offset).reshape(shape)


def _run(command: Sequence[str], given: bytes) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"{' '.join(command)}: more than {_SECONDS} s") from error
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace")
        raise ExportError(f"{' '.join(command)}: status {done.returncode}\n{message}"[:3000])
    return done.stdout

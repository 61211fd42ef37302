"""Exports of a program: its C compiled by several compilers and flags, run, and compared."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact
from tests.fuzz.program import DTYPES, Array

_DRIVER = Path(__file__).with_name("driver.c")
_SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_COMPILERS = (("gcc", "-O1"), ("gcc", "-O3"), ("clang", *_SANITIZED))
TARGETS = {"portable": (), "native": ("-march=native", "-Wno-psabi")}
"""Flags for the sources of each target."""
_SECONDS = 300


class ExportError(Exception):
    """An exported program that does not compile, or stops."""


def exported_results(
    graph: Graph, targets: Sequence[str], arrays: Sequence[Array]
) -> Iterator[tuple[str, list[Array]]]:
    """Yield how the program was built, and its outputs, for each target and compiler."""
    for target in targets:
        with tempfile.TemporaryDirectory() as directory:
            artifact = rlx.aot(graph, directory, name="fuzz", target=target, emit_only=True)
            for command in _COMPILERS:
                if shutil.which(command[0]) is not None:
                    how = f"{' '.join(command)} ({target})"
                    yield (
                        how,
                        _outputs(artifact, _built(artifact, (*command, *TARGETS[target])), arrays),
                    )


def _built(artifact: Artifact, command: Sequence[str]) -> Path:
    binary = artifact.directory / "fuzz.out"
    sources = [str(_DRIVER), str(artifact.source), f"-I{artifact.directory}"]
    _run([*command, "-std=c11", *sources, "-o", str(binary), "-lm"], b"")
    return binary


def _outputs(artifact: Artifact, binary: Path, arrays: Sequence[Array]) -> list[Array]:
    inputs = artifact.manifest["inputs"]
    given = [struct.pack("<Q", len(inputs))]
    for facts, array in zip(inputs, arrays, strict=True):
        given += [struct.pack("<QQ", facts["offset"], facts["bytes"]), array.tobytes()]
    arena = _run([str(binary), str(artifact.arena_bytes)], b"".join(given))
    return [_array(facts, arena) for facts in artifact.manifest["outputs"]]


def _array(facts: dict[str, Any], arena: bytes) -> Array:
    raw = arena[facts["offset"] : facts["offset"] + facts["bytes"]]
    return np.frombuffer(raw, DTYPES[facts["dtype"]]).reshape(facts["shape"])


def _run(command: Sequence[str], given: bytes) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"{' '.join(command)}: more than {_SECONDS} s") from error
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace")
        raise ExportError(f"{' '.join(command)}: status {done.returncode}\n{message}"[:3000])
    return done.stdout

"""Compiling and running C programs, and calling artifacts from Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact
from rlx.runtime.toolchain import has_toolchain

STRICT = (
    "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-align", "-Wunused",
    "-Werror",
)  # fmt: skip

needs_compiler = pytest.mark.skipif(not has_toolchain(), reason="no C compiler on this machine")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command and return what it printed; fail with its own words."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def untimed(sample: str, last: str = "") -> str:
    """Return a sample program that has `last` at its end, in place of runs for their time."""
    head, tail = sample.rsplit("  return print_time();", 1)
    return f"{head}{last}  (void)print_time;\n  return 0;{tail}"


def dumping(artifact: Artifact) -> Path:
    """Return the sample program, made to write its first output to a file."""
    name = artifact.name
    dump = (
        '  FILE *out = fopen("y.bin", "wb");\n'
        f"  fwrite({name}_arena_y(arena), 1, {name.upper()}_Y_BYTES, out);\n"
        "  fclose(out);\n"
    )
    path = artifact.directory / "dump.c"
    path.write_text(untimed(artifact.sample.read_text(), dump))
    return path


def sample_inputs(graph: Graph) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return what the sample program feeds: floats count up in sevenths, integers are 0."""
    return {
        str(v.node.name): (
            (np.arange(np.prod(v.type.static_shape)) % 7).astype(np.float32) / np.float32(7)
            if v.dtype.is_float
            else np.zeros(v.type.static_shape, v.dtype.numpy)
        ).reshape(v.type.static_shape)
        for v in graph.inputs
    }


def require(tool: str) -> str:
    """Return the tool's name, or skip the test."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    return tool


class Loaded:
    """An artifact's shared library with an arena, called through its C interface."""

    def __init__(
        self, artifact: Artifact, declarations: str = "", *, library: Path | None = None
    ) -> None:
        self.name = artifact.name
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(
            f"""
            int {self.name}_init(void *, size_t);
            int {self.name}_setup(void *);
            const char *{self.name}_status_string(int);
            const char *{self.name}_fault_string(const void *);
            {declarations}
            """
        )
        self.library: Any = self.ffi.dlopen(str(library or artifact.library))
        self.manifest = artifact.manifest
        self.weights: NDArray[np.uint8] = aligned(0)
        self.block = aligned(artifact.arena_bytes)
        self.arena: Any = self.ffi.cast("void *", self.block.ctypes.data)

    def call(self, function: str, *args: Any) -> int:
        return int(getattr(self.library, f"{self.name}_{function}")(*args))

    def view(self, role: str, name: str) -> NDArray[Any]:
        """Return a tensor in the arena, at its largest extents."""
        facts = next(t for t in self.manifest[role] if t["name"] == name)
        raw = self.block[facts["offset"] : facts["offset"] + facts["bytes"]]
        return raw.view({"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8"}[facts["dtype"]])

    def pointer(self, array: NDArray[Any], type: str = "float *") -> Any:
        return self.ffi.cast(type, array.ctypes.data)


def aligned(size: int) -> NDArray[np.uint8]:
    """Return bytes at a 64-byte boundary, holding garbage."""
    block = np.full(size + 64, 0xA5, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]


def file_block(path: Path) -> NDArray[np.uint8]:
    """Return a file's content at a 64-byte boundary."""
    data = np.frombuffer(path.read_bytes(), np.uint8)
    block = aligned(data.size)
    block[:] = data
    return block

"""The bound: straight C, compiled with our flags, its threads OpenMP's."""

from __future__ import annotations

import atexit
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.session import Session
from bench.routine import Bound, Routine
from bench.workload import Array
from rlx.runtime.native import SharedLibrary, function_at, pointer_to
from rlx.runtime.toolchain import find_toolchain
from rlx.target import detect_target

_BOUNDS = Path(__file__).parent.parent / "bounds"


def prepare_program(program: Routine, threads: int) -> Session:  # noqa: ARG001  OpenMP reads the environment
    bound = program.bound
    started = time.perf_counter()
    library = _library(bound.file, bound.macros)
    seconds = time.perf_counter() - started
    results = [np.zeros(shape) for shape in bound.results]
    call = _call(library, bound, [*program.arguments(), *results])
    return Session(call, lambda _: results, cold_seconds=seconds)


def _call(library: SharedLibrary, bound: Bound, arrays: list[Array]) -> Callable[[], Any]:
    """Return a call whose pointers are made already."""
    kept = [np.ascontiguousarray(array) for array in arrays]
    declaration = f"void (*)({', '.join(['uint8_t *'] * len(kept))})"
    function = function_at(library.address(bound.function), declaration)
    pointers = [pointer_to(array.ctypes.data) for array in kept]
    return functools.partial(_on_arrays, function, pointers, kept)


def _on_arrays(function: Callable[..., Any], pointers: list[Any], kept: list[Array]) -> None:
    del kept  # held by the call: its pointers are into them
    function(*pointers)


@functools.cache
def _library(file: str, macros: tuple[str, ...]) -> SharedLibrary:
    toolchain = find_toolchain()
    flags = [*toolchain.flags(detect_target()), "-fopenmp", *(f"-D{macro}" for macro in macros)]
    path = Path(_folder().name) / f"{'_'.join((file, *macros))}.so"
    toolchain.compile_library(_BOUNDS / f"{file}.c", path, tuple(flags))
    return SharedLibrary(path)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder

"""Large modules in parts, by both back ends: the same bits, each part cached by its content."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.c import emit as c_emit
from rlx.codegen.llvm import binding
from rlx.codegen.llvm import emit as llvm_emit
from rlx.codegen.parts import divide
from rlx.errors import ToolchainError
from rlx.runtime.toolchain import Toolchain, find_toolchain
from tests.codegen.llvm.native import same_bits

_X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


def _layers(x: Any, inserted: bool = False) -> Any:
    """Kernels of different shapes, one of which can fail, and a math function that two share."""
    y = rnp.tanh(x @ x.T)
    y = rnp.linalg.cholesky(y @ y.T + 8 * rnp.eye(8))
    for width in (3, 5, 6, 7):
        y = rnp.tanh(y[:, :width] @ y[:width, :])
    if inserted:
        y = rnp.cumsum(y, axis=1)
    return rnp.exp(y).sum(axis=0)


def _made(backend: str, inserted: bool = False) -> rlx.Executable:
    graph = rlx.make_graph(lambda x: _layers(x, inserted))(_X)
    made = rlx.compile(graph, backend=backend, threads=1)
    assert isinstance(made, rlx.Executable)
    return made


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Divide modules into small parts; the list gets how many parts each program compiles."""
    counts: list[int] = []
    llvm, c = binding.compile_objects, Toolchain.compile_objects

    def llvm_objects(parts: Any, *rest: Any) -> Any:
        counts.append(len(parts))
        return llvm(parts, *rest)

    def c_objects(self: Toolchain, sources: Any, *rest: Any) -> Any:
        counts.append(len(sources))
        return c(self, sources, *rest)

    monkeypatch.setattr(binding, "compile_objects", llvm_objects)
    monkeypatch.setattr(Toolchain, "compile_objects", c_objects)
    monkeypatch.setattr(llvm_emit, "_PART", 20)
    monkeypatch.setattr(c_emit, "_PART", 20)
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    return counts


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_change_compiles_the_parts_that_it_changes(backend: str, compiled: list[int]) -> None:
    _made(backend)
    _made(backend, inserted=True)
    first, second = compiled
    assert first >= 4
    assert 1 <= second <= first - 2


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_lost_part_is_compiled_again(backend: str, compiled: list[int], tmp_path: Path) -> None:
    expected = np.asarray(_made(backend)(_X))
    for library in tmp_path.glob("??/*.so"):
        library.unlink()
    next(iter(sorted(tmp_path.glob("??/*.o")))).write_bytes(b"damaged")
    assert same_bits(np.asarray(_made(backend)(_X)), expected)
    assert compiled[1:] == [1]


@pytest.mark.slow
def test_units_of_c_give_the_bits_of_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: list[int]
) -> None:
    units = np.asarray(_made("c")(_X))
    monkeypatch.setattr(c_emit, "_PART", 10**9)
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "whole"))
    whole = _made("c")
    assert same_bits(units, np.asarray(whole(_X)))
    assert len(compiled) == 1  # one unit is compiled and linked by one command


def test_the_text_of_a_program_is_one_unit(compiled: list[int]) -> None:
    executable = _made("c")
    assert compiled[0] > 1
    assert executable.c_source == c_emit.emit_module(executable.module)


@pytest.mark.parametrize("least", [0, 20, 100])
def test_a_module_is_divided_into_what_it_holds(least: int) -> None:
    module = _made("llvm").module
    last = module.kernels[0].name
    parts = divide(module, least, stays=lambda kernel: kernel.name == last)
    names = [kernel.name for part in parts for kernel in (*part.kernels, *part.entries)]
    assert sorted(names) == sorted(k.name for k in (*module.kernels, *module.entries))
    assert last in {kernel.name for kernel in parts[-1].kernels}
    assert len(parts) > 1 or least == 100
    (whole,) = divide(module, 10**9)
    assert whole == module


def test_a_unit_that_does_not_compile_ends_the_others(tmp_path: Path) -> None:
    sources = [tmp_path / f"{number}.c" for number in range(3)]
    sources[0].write_text("int f(void) { return 1; }\n")
    sources[1].write_text("int g(void) { return x; }\n")
    sources[2].write_text("int h(void) { return 2; }\n")
    with pytest.raises(ToolchainError, match=r"1\.c.*failed with exit code 1:(.|\n)*undeclared"):
        find_toolchain().compile_objects(sources, ("-std=c11",), 2)


def test_an_interrupt_ends_the_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = threading.Event()
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 60\n")
    compiler.chmod(0o700)

    def sleep(_seconds: float) -> None:
        if (tmp_path / "pids").exists():
            started.set()
            raise KeyboardInterrupt

    monkeypatch.setattr("rlx.runtime.toolchain.time.sleep", sleep)
    sources = [tmp_path / f"{number}.c" for number in range(3)]
    with pytest.raises(KeyboardInterrupt):
        Toolchain((str(compiler),), "none").compile_objects(sources, (), 2)
    assert started.is_set()
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()

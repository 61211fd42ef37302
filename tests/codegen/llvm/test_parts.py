"""Large modules in parts: compiled separately, on several threads, and linked to each other."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.llvm import binding, emit, module
from rlx.codegen.llvm.emit import emit_module, emit_parts
from rlx.codegen.llvm.optimize import Options
from rlx.errors import InternalError
from rlx.target import detect_target
from tests.codegen.llvm.native import Array, same_bits

_VALID = "define hidden void @f() { ret void }"


def _step(x: Any, i: Any) -> Any:
    y = rnp.tanh(x @ x.T) + rnp.tanh(x[:, :1])
    return rnp.linalg.cholesky(y @ y.T + 8 * rnp.eye(8)) + rnp.exp(x @ x.T).sum() * i


def _compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> rlx.Executable:
    """Return a program of several kernels, one of which can fail, that share a math function."""
    monkeypatch.setenv("RLX_CACHE_DIR", str(cache))
    graph = rlx.make_graph(_step)(np.ones((8, 4), np.float32), np.int32(2))
    return rlx.compile(graph, backend="llvm", threads=1)


def _results(executable: rlx.Executable) -> list[Array]:
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    return [np.asarray(each) for each in executable(x, np.int32(3))]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("maps_code", [True, False])
def test_parts_give_the_bits_of_one_module(
    threads: int, maps_code: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = _results(_compiled(tmp_path / "whole", monkeypatch))
    monkeypatch.setattr(emit, "_PART", 0)
    monkeypatch.setattr(module, "MAPS_CODE", maps_code)
    counts: list[int] = []

    def compile_objects(parts: Any, machine: Any, _cores: int) -> list[bytes]:
        counts.append(len(parts))
        return made(parts, machine, threads)

    made = binding.compile_objects
    monkeypatch.setattr(binding, "compile_objects", compile_objects)
    assert all(map(same_bits, _results(_compiled(tmp_path / "parts", monkeypatch)), expected))
    assert counts[0] > 5
    assert all(map(same_bits, _results(_compiled(tmp_path / "parts", monkeypatch)), expected))
    assert len(counts) == 1  # the second was loaded from the cache


@pytest.mark.parametrize(("allowed", "threads"), [("1", 1), ("2", 2), ("1000", None)])
def test_no_more_threads_compile_than_the_environment_allows(
    allowed: str, threads: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used: list[int] = []

    def compile_objects(parts: Any, machine: Any, count: int) -> list[bytes]:
        used.append(count)
        return made(parts, machine, count)

    made = binding.compile_objects
    monkeypatch.setattr(binding, "compile_objects", compile_objects)
    monkeypatch.setenv("RLX_NUM_THREADS", allowed)
    _compiled(tmp_path, monkeypatch)
    cores = detect_target().cores
    assert used == [min(cores, threads or cores)]


def test_each_part_defines_what_no_other_part_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = _compiled(tmp_path, monkeypatch).module
    machine = binding.host_machine(32)
    (single,) = emit_parts(whole, machine)
    assert single.text == re.sub(
        "^define internal (void|i32)",
        r"define hidden \1",
        emit_module(whole, machine).text,
        flags=re.M,
    )
    monkeypatch.setattr(emit, "_PART", 0)
    parts = emit_parts(whole, machine)
    assert len(parts) == len(whole.kernels) + len(whole.entries)
    found = re.findall(r"^define .*?@(\w+)\(", "\n".join(part.text for part in parts), re.M)
    for kernel in (*whole.kernels, *whole.entries):
        assert found.count(kernel.name) == 1
    assert {name for part in parts for name in part.externals} == set(single.externals)


@pytest.mark.parametrize("threads", [1, 3])
def test_objects_are_in_the_order_of_their_modules(threads: int) -> None:
    machine = binding.host_machine(16)
    texts = [_VALID.replace("@f", f"@f{number}") + "\n" * number for number in range(6)]
    parts = [(text, Options()) for text in texts]
    expected = [binding.compile_object(text, machine, options) for text, options in parts]
    assert binding.compile_objects(parts, machine, threads) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_a_part_that_is_no_ir_is_an_error(threads: int) -> None:
    parts = [(_VALID, Options()), ("define", Options()), (_VALID + "\n", Options())]
    with pytest.raises(InternalError, match="llvm: the emitted IR is invalid"):
        binding.compile_objects(parts, binding.host_machine(16), threads)


def test_modules_are_freed_before_their_contexts_in_whatever_order_they_are_collected() -> None:
    """The frames of an exception may hold both in a cycle; a wrong order ends the process."""
    program = f"""
import gc
from rlx.codegen.llvm import binding
for n in range(60):
    module = binding._parsed({_VALID!r})
    cycle = [module._context, module] if n % 2 else [module, module._context]
    cycle.append(cycle)
    del module, cycle
gc.collect()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_parts_are_compiled_where_no_more_threads_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    parts = [(_VALID, Options()), (_VALID + "\n", Options())]
    assert len(binding.compile_objects(parts, binding.host_machine(16), 2)) == 2

"""The backend as the runtime sees it: text, loading, symbols and cached objects."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.optimize import Options, Pipeline
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Kernel, LoopKind, Module, Prim, ValueType
from rlx.errors import ToolchainError, UnsupportedError
from rlx.target import detect_target, named_target
from tests.codegen.llvm.native import call, load, module_of, number

_MACHINE = Machine("x86_64-unknown-linux-gnu", "x86-64", "", 16)


def _doubling() -> Kernel:
    k = KernelBuilder("double")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 10, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i) * 2.0)
    return k.build(doc=["double: y = 2 x"])


def _calling(symbol: str) -> Module:
    k = KernelBuilder("caller")
    y = k.argument("y", Prim.I64, writable=True)
    k.store(y, 0, number(k.external(symbol, [k.load(y, 0)], ValueType(Prim.I64))))
    return module_of(k.build())


def test_equal_modules_give_equal_text() -> None:
    first = emit_module(module_of(_doubling()), _MACHINE)
    assert emit_module(module_of(_doubling()), _MACHINE) == first


def test_text_names_the_kernel_and_its_documentation() -> None:
    text = emit_module(module_of(_doubling()), _MACHINE).text
    assert "; double: y = 2 x\ndefine internal void @double(" in text
    assert "ptr noalias readonly align 4 %x, ptr noalias align 4 %y" in text


def test_kernels_without_an_entry_are_not_exported() -> None:
    native = load(_doubling())
    with pytest.raises(ToolchainError, match="no entry 'double'; its entries are: run"):
        native.address("double")


@pytest.mark.parametrize("pipeline", list(Pipeline))
def test_every_pipeline_gives_the_same_bits(pipeline: Pipeline) -> None:
    backend = LlvmBackend(Options(pipeline))
    native = backend.load(module_of(_doubling()), detect_target())
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    assert call(native, np.zeros(8, np.int64), [x, y]) == 0
    assert y.tolist() == (2 * x).tolist()


def test_assembly_shows_the_entry() -> None:
    assert "run:" in load(_doubling()).assembly


def test_external_symbols_come_from_the_resolver() -> None:
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    triple = signature(lambda value: 3 * value)
    address = ctypes.cast(triple, ctypes.c_void_p).value
    backend = LlvmBackend(resolve={"rlx_test_triple": address}.get)
    native = backend.load(_calling("rlx_test_triple"), detect_target())
    cell = np.array([14])
    call(native, np.zeros(8, np.int64), [cell])
    assert cell[0] == 42


def test_missing_symbol_is_a_toolchain_error_that_names_it() -> None:
    with pytest.raises(ToolchainError, match="rlx_no_such_function"):
        LlvmBackend().load(_calling("rlx_no_such_function"), detect_target())


class _RecordingCache:
    """Keeps contents and counts what was made."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    @property
    def made(self) -> int:
        return len(self.kept)

    def read(self, key: str, suffix: str) -> bytes | None:
        return self.kept.get(key + suffix)

    def keep(self, key: str, suffix: str, content: bytes) -> None:
        assert key + suffix not in self.kept
        self.kept[key + suffix] = content


def test_cached_object_is_loaded_instead_of_compiled_again() -> None:
    cache = _RecordingCache()
    x = np.arange(10, dtype=np.float32)
    for _ in range(2):
        native = LlvmBackend(cache=cache).load(module_of(_doubling()), detect_target())
        y = np.zeros(10, np.float32)
        call(native, np.zeros(8, np.int64), [x, y])
        assert y.tolist() == (2 * x).tolist()
    assert cache.made == 1


def test_other_options_make_another_object() -> None:
    cache = _RecordingCache()
    for pipeline in (Pipeline.LIGHT, Pipeline.O2):
        backend = LlvmBackend(Options(pipeline), cache=cache)
        backend.load(module_of(_doubling()), detect_target())
    assert cache.made == 2


@pytest.mark.skipif(platform.machine() == "aarch64", reason="wheels for ARM have no code for x86")
def test_code_for_a_cpu_without_vectors_or_fma_can_be_generated() -> None:
    text = emit_module(module_of(_doubling()), _MACHINE).text
    assembly = binding.compile_assembly(text, _MACHINE, Options(Pipeline.LIGHT))
    assert "zmm" not in assembly
    assert "ymm" not in assembly


def test_a_machine_that_this_llvm_has_no_code_for_is_refused() -> None:
    text = emit_module(module_of(_doubling()), _MACHINE).text
    machine = Machine("m99k-unknown-linux-gnu", "", "", 16)
    with pytest.raises(UnsupportedError, match="no code generator for m99k"):
        binding.compile_assembly(text, machine, Options(Pipeline.LIGHT))


def test_backend_works_without_a_c_compiler_and_importing_rlx_does_not_load_llvm(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, rlx, rlx.codegen.llvm.emit\n"
        "assert 'llvmlite' not in sys.modules\n"
        "from tests.codegen.llvm.test_jit import _doubling\n"
        "from tests.codegen.llvm.native import load\n"
        "print(load(_doubling()).address('run') > 0)\n"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout == "True\n", result.stderr


def test_large_modules_are_compiled_at_a_lower_level() -> None:
    small, large = 1000, 2_000_000
    assert Options().resolved(small, needs_vectorizer=False) == Options(Pipeline.LIGHT, 2)
    assert Options().resolved(large, needs_vectorizer=True) == Options(Pipeline.O2, 1)
    assert Options(code_level=0).resolved(large, needs_vectorizer=False).code_level == 0


def test_instructions_that_linux_lists_are_used_on_aarch64(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM does not return them among the features of the host."""
    monkeypatch.setattr(binding, "detect_target", lambda: named_target("aarch64-bf16"))
    triple = "aarch64-unknown-linux-gnu"
    monkeypatch.setattr("llvmlite.binding.get_default_triple", lambda: triple)
    features = binding.host_machine.__wrapped__(16).features.split(",")
    assert {"+dotprod", "+bf16"} <= set(features)
    assert "+i8mm" not in features

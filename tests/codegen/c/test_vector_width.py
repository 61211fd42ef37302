"""GCC's wrong permutation of eight doubles: which loops trigger it, and that none of ours does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx.codegen.aot.options import PORTABLE_FLAGS
from rlx.codegen.c.emit import emit_module
from rlx.codegen.c.vector_width import explicit_vectors, keeps_wide_vectors, touches_doubles
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, call, index, minimum
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.math.define import build_function
from rlx.codegen.loops.nodes import Kernel, LoopKind, Module, Prim
from rlx.codegen.loops.verify import verify_kernel
from rlx.target import detect_target
from tests.aot.building import Loaded
from tests.codegen.c.native import COMPILERS, compile_strictly

ROWS = 40
CROSSING = (
    (0, 1, 4, 5, 4, 5, 6, 7), (0, 0, 6, 2, 5, 4, 7, 6), (1, 0, 3, 7, 4, 4, 6, 6),
    (0, 1, 5, 3, 4, 5, 7, 7), (1, 1, 2, 4, 5, 5, 7, 6), (0, 1, 2, 3, 4, 5, 6, 7),
)  # fmt: skip
"""Lanes that a vector takes: all stay in their 128 bits but for the third or fourth."""
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
needs_avx512 = pytest.mark.skipif(
    not detect_target().has("avx512f"), reason="vectors of eight doubles take AVX-512"
)


def permuting(name: str, lanes: Sequence[int], rows: int) -> Kernel:
    """Return a kernel that writes rows of eight, each a permutation of what it reads."""
    k = KernelBuilder(name)
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    with k.loop("p", rows) as p:
        for place, lane in enumerate(lanes):
            k.store(y, p * 8 + place, k.load(x, p * 8 + lane))
    return k.build()


def copying(prim: Prim, length: int, stride: int = 1) -> Kernel:
    k = KernelBuilder("copy")
    x, y = k.argument("x", prim), k.argument("y", prim, writable=True)
    with k.loop("i", length, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i * stride))
    return k.build()


def entry_of(kernel: Kernel, name: str) -> Kernel:
    k = KernelBuilder(name)
    x = k.argument("x", Prim.F64, may_alias=True)
    y = k.argument("y", Prim.F64, writable=True, may_alias=True)
    k.invoke(kernel, [k.address(x), k.address(y, writable=True)])
    return k.build()


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_doubles_arrive_where_the_kernel_sends_them(
    compiler: str, rows: int, tmp_path: Path
) -> None:
    kernels = [permuting(f"move_{n}", lanes, rows) for n, lanes in enumerate(CROSSING)]
    entries = [entry_of(kernel, f"run_{n}") for n, kernel in enumerate(kernels)]
    text = emit_module(Module("moves", (), tuple(kernels), tuple(entries)))
    flags = ["-O3"]
    if detect_target().has("avx512f"):
        flags.append("-mprefer-vector-width=512")
    library = ctypes.CDLL(str(compile_strictly(compiler, text, tmp_path, flags)))
    x = np.arange(8.0 * rows)
    for number, lanes in enumerate(CROSSING):
        y = np.zeros_like(x)
        library[f"run_{number}"](ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        np.testing.assert_array_equal(y, x.reshape(rows, 8)[:, list(lanes)].reshape(-1))


def rolled(x: Any, y: Any) -> Any:
    return rnp.roll(x * y, 2, 1)


def operands() -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 5)), rng.standard_normal((2, 5))


@needs_compiler
def test_a_rolled_product_of_doubles_is_exact_in_c() -> None:
    x, y = operands()
    result = rlx.jit(rolled, backend="c")(x, y)
    np.testing.assert_array_equal(np.asarray(result), np.roll(x * y, 2, 1))


@needs_avx512
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("machine", ["native", "x86-64-v4"])
@pytest.mark.parametrize("width", ["256", "512"])
def test_exported_c_is_exact_with_the_callers_compiler_and_flags(
    compiler: str, machine: str, width: str, tmp_path: Path
) -> None:
    x, y = operands()
    artifact = rlx.aot(
        rlx.jit(rolled), tmp_path, name="roll", example_inputs=(x, y), target=machine,
        emit_only=True,
    )  # fmt: skip
    library = tmp_path / "roll.so"
    flags = [*PORTABLE_FLAGS, f"-march={machine}", f"-mprefer-vector-width={width}"]
    command = [compiler, *flags, "-fPIC", "-shared", str(artifact.source), "-o", str(library)]
    subprocess.run([*command, "-lm"], check=True, timeout=600)
    declaration = "int roll_call(void *, const double *, const double *, double *);"
    native = Loaded(artifact, declaration, library=library)
    result = np.zeros((2, 5))
    assert native.call("init", native.arena, native.block.size) == 0
    assert native.call("setup", native.arena) == 0
    pointers = [native.pointer(array, "double *") for array in (x, y, result)]
    assert native.call("call", native.arena, *pointers) == 0
    np.testing.assert_array_equal(result, np.roll(x * y, 2, 1))


def test_long_loops_over_successive_doubles_keep_the_width() -> None:
    assert keeps_wide_vectors(copying(Prim.F64, 1000))
    assert keeps_wide_vectors(copying(Prim.F64, 32))  # a block of a batch of simulations
    assert not keeps_wide_vectors(copying(Prim.F64, 31))
    assert not keeps_wide_vectors(copying(Prim.F64, 1000, stride=2))
    assert not keeps_wide_vectors(permuting("move", CROSSING[0], 1000))


def test_an_offset_that_a_loop_changes_is_not_taken_for_a_constant() -> None:
    k = KernelBuilder("gather")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    offset = k.mutable("offset", index(0))
    with k.loop("i", 1000) as i:
        k.store(y, i, k.load(x, offset))
        offset.set(offset + 3)
    assert not keeps_wide_vectors(k.build())


def rows(stop: Callable[[E, E], E | int], start: Callable[[E], E | int] = lambda _: 0) -> Kernel:
    """Return a kernel that copies parts of 14 rows, up to where `stop(row, extent)` says."""
    k = KernelBuilder("rows")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    extent = k.scalar("n", Prim.I64)
    with k.loop("row", 14) as row, k.loop("i", stop(row, extent), start=start(row)) as i:
        k.store(y, row * 600 + i, k.load(x, row * 600 + i))
    return k.build()


def test_limits_that_an_outer_loop_moves_determine_how_long_a_loop_may_be() -> None:
    """Compilers that write 14 rows out know how many iterations each of the inner loops has."""
    assert not keeps_wide_vectors(rows(lambda row, _: row + 1))
    assert not keeps_wide_vectors(rows(lambda row, _: row * 40 + 5, lambda row: row * 40))
    assert not keeps_wide_vectors(rows(lambda row, n: minimum(n, row + 9)))
    assert keeps_wide_vectors(rows(lambda row, _: row * 40 + 40, lambda row: row * 40))
    assert keeps_wide_vectors(rows(lambda row, _: row * 40))
    assert keeps_wide_vectors(rows(lambda _, n: n))


def test_only_files_with_doubles_mention_them() -> None:
    floats, doubles = copying(Prim.F32, 1000), copying(Prim.F64, 1000)
    assert not touches_doubles([floats])
    assert touches_doubles([floats, doubles])
    assert "WIDE_VECTORS" not in emit_module(Module("m", (), (floats,), ()))
    assert "\nWIDE_VECTORS\nstatic void copy(" in emit_module(Module("m", (), (doubles,), ()))


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no GCC")
@needs_avx512
def test_a_long_copy_of_doubles_is_compiled_to_the_widest_vectors(tmp_path: Path) -> None:
    kernel = copying(Prim.F64, 1000)
    source = tmp_path / "copy.c"
    source.write_text(emit_module(Module("m", (), (kernel,), (entry_of(kernel, "run"),))))
    command = ["gcc", "-O3", "-march=native", "-fno-tree-loop-distribute-patterns", "-S", "-o", "-"]
    done = subprocess.run(
        [*command, str(source)], check=True, capture_output=True, text=True, timeout=600
    )
    assert "zmm" in done.stdout


def polynomial(terms: int, *, turned: bool) -> Kernel:
    """Return a kernel that reads in order or not, and then adds and multiplies."""
    k = KernelBuilder("polynomial")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    here = k.local("here", Prim.F64, 64)
    with k.loop("i", 64, kind=LoopKind.SIMD) as i:
        k.store(here, i, k.load(x, i * 3 if turned else i))
    with k.loop("i", 64, kind=LoopKind.SIMD) as i:
        value, total = k.let("value", k.load(here, i)), k.load(here, i)
        for _ in range(terms):
            total = total * value + 0.5
        k.store(y, i, total)
    return k.build()


def check_spelled(kernel: Kernel, words: str, count: int) -> None:
    """Fail unless explicit vectors print `words`, and compute what the kernel does."""
    spelled = explicit_vectors(64)(kernel)
    verify_kernel(spelled)
    assert words in emit_module(Module("m", (), (spelled,), ()))
    x, found, expected = np.linspace(-1, 1, count), np.zeros(64), np.zeros(64)
    run_kernel(spelled, {"x": x, "y": found})
    run_kernel(kernel, {"x": x, "y": expected})
    np.testing.assert_array_equal(found, expected)


def test_heavy_arithmetic_with_moves_is_vectorized_explicitly() -> None:
    kernel = polynomial(10, turned=True)
    assert not keeps_wide_vectors(kernel)
    assert "f64x8" not in emit_module(Module("m", (), (kernel,), ()))
    check_spelled(kernel, "f64x8", 192)


def test_function_calls_with_moves_are_vectorized_explicitly() -> None:
    k = KernelBuilder("calls")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    here = k.local("here", Prim.F64, 64)
    with k.loop("i", 64, kind=LoopKind.SIMD) as i:
        k.store(here, i, k.load(x, i * 3))
    with k.loop("i", 64, kind=LoopKind.SIMD) as i:
        k.store(y, i, call(build_function("tanh", Prim.F64), k.load(here, i)))
    check_spelled(k.build(), "tanh_f64x8(load_f64x8(here + i))", 192)


def test_light_loops_and_kernels_without_moves_are_left_to_the_compiler() -> None:
    for kernel in (polynomial(3, turned=True), polynomial(10, turned=False)):
        assert explicit_vectors(64)(kernel) is kernel


def test_strided_loads_of_heavy_arithmetic_are_in_separate_loops() -> None:
    k = KernelBuilder("strided")
    x, y = k.argument("x", Prim.F64), k.argument("y", Prim.F64, writable=True)
    with k.loop("i", 32, kind=LoopKind.SIMD) as i:
        value, total = k.let("value", k.load(x, i * 3)), k.load(x, i * 3 + 1)
        for _ in range(10):
            total = -(total * value) + 0.5
        k.store(y, i * 2, total)
    check_spelled(k.build(), "f64x8", 96)

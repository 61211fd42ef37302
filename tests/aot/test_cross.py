"""Artifacts for other machines, run under user-mode emulation, against the reference."""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.embedded.emulation import build
from rlx.codegen.llvm.objects import compile_kernels
from rlx.errors import ToolchainError
from rlx.gguf import encode
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime import cross
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.cross import find_compiler, machine_of, zig_compiler
from rlx.runtime.lower import lower_for
from rlx.target import named_target
from tests.aot.building import dumping, needs_compiler, run, sample_inputs
from tests.aot.programs import encoder_layer, mlp, params_of, splat_step, training_step
from tests.aot.windows import needs_zig, run_for_windows


@pytest.mark.guarantee(
    "Exported C",
    "Artifacts for aarch64 and riscv64 compute the reference's results under emulation.",
)
@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "cpu"),
    [
        ("aarch64-linux-musl", ()),
        ("riscv64-linux-musl", ()),
        ("riscv64-v", ("-cpu", "rv64,v=true,vlen=128")),
    ],
)
@pytest.mark.parametrize("make", [encoder_layer, training_step, splat_step])
def test_emulated_artifact_agrees_with_the_reference(
    tmp_path: Path, target: str, cpu: tuple[str, ...], make: type[Graph]
) -> None:
    architecture = target.partition("-")[0]
    emulator = f"qemu-{architecture}"
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed (Debian: qemu-user)")
    graph = make()
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, target=target)
    program = tmp_path / "sample"
    build(f"{architecture}-linux-musl", [dumping(artifact)], program, archives=_archives(artifact))
    run(emulator, *cpu, program, cwd=tmp_path)
    given = np.fromfile(tmp_path / "y.bin", np.float32)
    expected = evaluate(graph, {**params, **sample_inputs(graph)})[0]
    np.testing.assert_allclose(given, expected.reshape(-1), rtol=2e-4, atol=2e-5)


def integer_network() -> Graph:
    """A convolution and a product of codes, requantized: integers in and out."""
    graph, random = Graph("codes"), np.random.default_rng(5)
    x = graph.input("x", (1, 8, 6, 6), "f32")
    codes = graph.quantize(x, scales=(0.01,), zero_points=(-5,))
    taps = graph.constant(random.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8))
    weights = graph.constant(random.integers(-127, 128, (128, 6)).astype(np.int8))
    bias = graph.constant(random.integers(-999, 999, 8).astype(np.int32))
    none = graph.constant(np.zeros(6, np.int32))
    h = graph.qconv(codes, taps, bias, multiplier=(0.002,) * 8, x_zero_point=-5, out_zero_point=9)
    h = graph.reshape(h, shape=(1, 128))
    y = graph.qmatmul(h, weights, none, multiplier=(0.003,), x_zero_point=9)
    graph.set_outputs([graph.cast(y, to="f32")])
    return graph


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize("make", [encoder_layer, training_step, splat_step])
def test_a_windows_program_agrees_with_the_reference(tmp_path: Path, make: type[Graph]) -> None:
    graph = make()
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, target="x86_64-windows-gnu")
    run_for_windows(dumping(artifact), _archives(artifact))
    given = np.fromfile(tmp_path / "y.bin", np.float32)
    expected = evaluate(graph, {**params, **sample_inputs(graph)})[0]
    np.testing.assert_allclose(given, expected.reshape(-1), rtol=2e-4, atol=2e-5)


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "name", "magic"),
    [
        ("x86_64-windows-gnu", "step.dll", b"MZ"),
        ("x86_64-macos", "libstep.dylib", b"\xcf\xfa\xed\xfe\x07\0\0\x01"),
        ("aarch64-macos", "libstep.dylib", b"\xcf\xfa\xed\xfe\x0c\0\0\x01"),
        ("aarch64-linux-musl", "libstep.so", b"\x7fELF"),
    ],
)
def test_a_library_has_the_name_and_format_of_its_system(
    tmp_path: Path, target: str, name: str, magic: bytes
) -> None:
    graph = training_step()
    artifact = aot(graph, tmp_path, name="step", params=params_of(graph), target=target)
    assert artifact.library == tmp_path / name
    assert artifact.library.read_bytes().startswith(magic)
    imports = [path.name for path in tmp_path.glob("*.lib")]
    assert imports == (["step.lib"] if name.endswith(".dll") else [])
    assert artifact.archive is not None
    assert artifact.archive.stat().st_size > 0


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "dots"),
    [("aarch64-linux-musl", False), ("aarch64-dotprod", True), ("riscv64-linux-musl", False)],
)
def test_emulated_integers_are_the_reference_s(tmp_path: Path, target: str, dots: bool) -> None:
    architecture = target.partition("-")[0]
    emulator = f"qemu-{architecture}"
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed (Debian: qemu-user)")
    graph = integer_network()
    artifact = aot(graph, tmp_path, target=target)
    program = tmp_path / "sample"
    build(f"{architecture}-linux-musl", [dumping(artifact)], program, archives=_archives(artifact))
    assert _has_byte_dots(program) == dots
    cpu = ("-cpu", "max") if dots else ()
    run(emulator, *cpu, program, cwd=tmp_path)
    expected = evaluate(graph, sample_inputs(graph))[0]
    assert len(set(expected.reshape(-1))) > 3
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.bin", np.float32), expected.reshape(-1))


def _archives(artifact: Artifact) -> list[Path]:
    assert artifact.archive is not None
    return [artifact.archive]


def _has_byte_dots(program: Path) -> bool:
    """True if there is an `sdot` with a whole register or a lane of one, by its encoding."""
    words = _words(program)
    by_register, by_lane = (words & 0xFFE0FC00) == 0x4E809400, (words & 0xFFC0F400) == 0x4F80E000
    return bool(np.any(by_register | by_lane))


def packed_network(scheme: str, rows: int) -> Graph:
    graph, random = Graph("blocks"), np.random.default_rng(7)
    packed = encode(random.standard_normal((24, 512)).astype(np.float32), scheme)
    x = graph.input("x", (rows, 512), "f32")
    y = graph.int8_dequant_matmul(x, graph.constant(packed), scheme=scheme)
    graph.set_outputs([y])
    return graph


@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["q4_0", "q6_k", "q8_0", "mxfp4"])
@pytest.mark.parametrize("rows", [1, 5])
def test_emulated_products_of_packed_weights_take_signed_bytes(
    tmp_path: Path, scheme: str, rows: int
) -> None:
    """Codes that are no signed bytes lose half of 256, and what it adds is put back by sums."""
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed (Debian: qemu-user)")
    graph = packed_network(scheme, rows)
    artifact = aot(graph, tmp_path, target="aarch64-dotprod")
    program = tmp_path / "sample"
    build("aarch64-linux-musl", [dumping(artifact)], program, archives=_archives(artifact))
    assert _has_byte_dots(program)
    run("qemu-aarch64", "-cpu", "max", program, cwd=tmp_path)
    (expected,) = evaluate(graph, sample_inputs(graph))
    given = np.fromfile(tmp_path / "y.bin", np.float32).reshape(expected.shape)
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def halves_network() -> Graph:
    """A product and a convolution of bf16, with odd extents where pairs end."""
    graph, random = Graph("halves"), np.random.default_rng(3)
    x = graph.input("x", (1, 7, 6, 6), "f32")
    taps = graph.constant(random.standard_normal((16, 7, 3, 3)).astype(np.float32))
    weights = graph.constant(random.standard_normal((256, 19)).astype(np.float32))
    h = graph.conv(graph.cast(x, to="bf16"), graph.cast(taps, to="bf16"))
    h = graph.reshape(h, shape=(1, 256))
    y = graph.matmul(h, graph.cast(weights, to="bf16"))
    graph.set_outputs([graph.cast(y, to="f32")])
    return graph


@needs_zig
@pytest.mark.slow
def test_emulated_pairs_of_bf16_are_near_the_reference(tmp_path: Path) -> None:
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed (Debian: qemu-user)")
    graph = halves_network()
    artifact = aot(graph, tmp_path, target="aarch64-bf16")
    program = tmp_path / "sample"
    build("aarch64-linux-musl", [dumping(artifact)], program, archives=_archives(artifact))
    words = _words(program)
    vector, element = words & 0xFFE0FC00 == 0x6E40FC00, words & 0xFFC0F400 == 0x4F40F000
    assert np.any(vector | element)  # bfdot of whole registers, by a vector or by one pair
    run("qemu-aarch64", "-cpu", "max", program, cwd=tmp_path)
    (expected,) = evaluate(graph, sample_inputs(graph))
    given = np.fromfile(tmp_path / "y.bin", np.float32)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(given, expected.reshape(-1), rtol=2**-7, atol=2**-8 * scale)


@needs_compiler
@pytest.mark.parametrize("made_by", ["c", "llvm"])
def test_bf16_on_x86_is_multiplied_in_pairs(tmp_path: Path, made_by: str) -> None:
    target = named_target("x86-64-v4-bf16")
    if made_by == "c":
        if platform.machine() != "x86_64":
            pytest.skip("the C compiler is not for x86")
        archive = aot(halves_network(), tmp_path, target="x86-64-v4-bf16").archive
        assert archive is not None
        code = archive.read_bytes()
    else:
        module = lower_for(halves_network(), target).module
        exported = [kernel.name for kernel in module.entries]
        triple = "x86_64-unknown-linux-gnu"
        code = compile_kernels(module, target, triple=triple, exported=exported, symbols={})
    assert re.search(rb"\x62[\x02-\xf2][\x06-\x7e].\x52", code, re.DOTALL)  # vdpbf16ps


def _words(program: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Return the instructions of a program for aarch64, and its data between them."""
    content = program.read_bytes()
    return np.frombuffer(content[: len(content) // 4 * 4], np.uint32)


@pytest.mark.slow
@needs_compiler
def test_named_compiler_is_used_for_any_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_compiler("aarch64-linux-gnu", "cc -DX").command == ("cc", "-DX")
    monkeypatch.setenv("RLX_CC", "cc")
    assert find_compiler("riscv64-linux-gnu").command == ("cc",)
    artifact = aot(training_step(), tmp_path, target="aarch64-linux-gnu", cc="cc")
    assert artifact.library is not None


def test_missing_cross_compiler_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_CC", raising=False)
    monkeypatch.setattr(cross, "_ZIG_MODULE", "no_such_wheel")
    with pytest.raises(ToolchainError, match="no compiler for riscv64-linux-gnu9") as error:
        find_compiler("riscv64-linux-gnu9")
    assert "rlx[cross]" in str(error.value)


@needs_zig
def test_zig_is_used_where_there_is_no_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RLX_CC", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "ziglang" in find_compiler("portable").command
    monkeypatch.setattr(cross, "_ZIG_MODULE", "no_such_wheel")
    with pytest.raises(ToolchainError, match=r"no C compiler|no archiver"):
        find_compiler("portable")


def test_targets_are_described_by_their_architecture() -> None:
    assert machine_of("aarch64-linux-gnu").vector_registers == 32
    assert machine_of("x86_64-linux-musl").vector_bytes == 16
    assert machine_of("x86-64-v3").vector_bytes == 32
    assert machine_of("aarch64-dotprod").dots_bytes
    assert (machine_of("riscv64").vector_bytes, machine_of("riscv64-v").vector_bytes) == (0, 16)
    assert machine_of("x86-64-v4-vnni").dots_unsigned_bytes
    assert not machine_of("aarch64-linux-gnu").dots_bytes
    assert machine_of("x86-64-v4").vector_bytes == 64
    assert machine_of("portable").vector_bytes == 16


def test_cores_are_small_and_triples_name_them() -> None:
    for name in ("cortex-m4", "thumbv7em-none-eabihf"):
        machine = machine_of(name)
        assert machine.is_small
        assert machine.multiplies_and_adds(4)
        assert not machine.has_vectors
    assert machine_of("thumbv7m-none-eabi").cpu == "cortex-m3"
    assert machine_of("wasm32-wasi").vector_bytes == 0
    assert machine_of("wasm32-simd128").vector_bytes == 16


def test_gcc_for_cores_comes_before_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    compiler = find_compiler("cortex-m4")
    assert compiler.command == ("arm-none-eabi-gcc",)
    assert "-mcpu=cortex-m4" in compiler.flags
    assert not compiler.links


@needs_zig
@pytest.mark.parametrize("target", ["cortex-m3", "riscv32", "wasm32-freestanding"])
def test_without_an_operating_system_there_is_an_archive_alone(tmp_path: Path, target: str) -> None:
    graph = training_step()
    artifact = aot(graph, tmp_path, params=params_of(graph), target=target, math="none")
    assert artifact.library is None
    assert artifact.archive is not None
    assert artifact.archive.stat().st_size > 0
    assert artifact.manifest["flags"][0] == ("-O3" if "wasm" in target else "-Os")


@needs_zig
@pytest.mark.parametrize("target", ["wasm32", "wasm32-simd128"])
def test_webassembly_agrees_with_the_reference(tmp_path: Path, target: str) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    graph = mlp()
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, weights="embed", target=target, math="none")
    program = build(
        "wasm32-wasi", [dumping(artifact)], tmp_path / "sample.wasm", archives=_archives(artifact)
    )
    _run_wasm(wasmtime, program, tmp_path)
    given = np.fromfile(tmp_path / "y.bin", np.float32)
    expected = evaluate(graph, {**params, **sample_inputs(graph)})[0]
    np.testing.assert_allclose(given, expected.reshape(-1), rtol=2e-5, atol=2e-6)


def _run_wasm(wasmtime: Any, program: Path, directory: Path) -> None:
    """Run a program of WASI in `directory`."""
    engine = wasmtime.Engine()
    linker, store = wasmtime.Linker(engine), wasmtime.Store(engine)
    linker.define_wasi()
    config = wasmtime.WasiConfig()
    config.preopen_dir(str(directory), ".")
    store.set_wasi(config)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    with contextlib.suppress(wasmtime.ExitTrap):  # how a program ends
        instance.exports(store)["_start"](store)


def test_emit_only_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    artifact = aot(training_step(), tmp_path, target="riscv64-linux-gnu", emit_only=True)
    assert artifact.source.is_file()
    assert artifact.library is None


@needs_zig
@pytest.mark.parametrize(
    ("triple", "cpu", "fused", "widened"),
    [
        ("riscv64-linux-musl", "baseline", "fmadd.s", "fcvt.d.s"),
        ("x86_64-linux-musl", "x86_64_v3", "vfmadd", "cvtss2sd"),
    ],
)
def test_multiply_adds_without_libm_are_instructions_where_there_are_any(
    tmp_path: Path, triple: str, cpu: str, fused: str, widened: str
) -> None:
    """Not the arithmetic in double that replaces them elsewhere."""
    source = Path(cross.__file__).parents[1] / "codegen" / "templates" / "freestanding.c"
    head = "#include <stdint.h>\nvoid *memcpy(void *, const void *, __SIZE_TYPE__);\n"
    call = "float fused(float a, float b, float c) { return own_fmaf(a, b, c); }\n"
    (tmp_path / "fma.c").write_text(f"{head}{source.read_text()}{call}")
    compiler = zig_compiler(triple, (f"-mcpu={cpu}",))
    flags = ("-O2", "-w", "-fno-math-errno", "-S", tmp_path / "fma.c", "-o", tmp_path / "fma.s")
    run(*compiler.command, *compiler.flags, *flags)
    code = (tmp_path / "fma.s").read_text().partition("fused:")[2]
    assert fused in code
    assert widened not in code

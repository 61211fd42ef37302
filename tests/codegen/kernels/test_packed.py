"""Products with packed weights, of floats and of eight bits: streamed by or decoded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.kernels.packed.words import WordBlock, bias_of, has_whole_words
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import Binary, BinaryOp, Bitcast, Buffer, Prim
from rlx.codegen.schedule import Phase, Thunk
from rlx.errors import DTypeError, ShapeError, UnsupportedError
from rlx.gguf import encode
from rlx.ir import ops
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.autodiff import grad
from rlx.runtime.executable import Executable
from rlx.runtime.lower import lower_for
from rlx.target import detect_target, named_target
from tests.ir.test_block_decoding import random_blocks


def packed_rows(scheme: str, rows: int, width: int) -> np.ndarray:
    """Return normal weights in blocks, or random blocks of a type that is only decoded."""
    try:
        return encode(np.random.default_rng(1).standard_normal((rows, width)), scheme)
    except UnsupportedError:
        kind = BLOCK_TYPES[scheme]
        return random_blocks(scheme, rows * width // kind.elements, 1).reshape(rows, -1)


def product(
    scheme: str, rows: int | Dim, columns: int, blocks: int, op: str = "dequant_matmul"
) -> tuple[Graph, np.ndarray]:
    """Return a graph of `x @ W^T` with W as a param, and W in blocks."""
    width = BLOCK_TYPES[scheme].elements * blocks
    packed = packed_rows(scheme, columns, width)
    g = Graph("product")
    x, w = g.input("x", (rows, width)), g.param("w", packed.shape, "u8")
    g.set_outputs([getattr(g, op)(x, w, scheme=scheme)])
    return g, packed


def records(compiled: object, op: str = "dequant_matmul") -> list[bool]:
    """Return of each packed product of a program whether blocks are decoded before."""
    assert isinstance(compiled, Executable)
    thunks = [thunk for thunk in compiled.schedule.thunks if isinstance(thunk, Thunk)]
    nodes = [node for thunk in thunks for node in thunk_body(thunk).nodes]
    lowerings = [n.lowering for n in nodes if n.op.name == op]
    return [found.depth > 0 for found in lowerings if isinstance(found, Schedule)]


def rounded(x: np.ndarray) -> np.ndarray:
    """Return what rows are once they are rounded to eight bits, in f64."""
    parts = x.reshape(*x.shape[:-1], -1, 32)
    largest = np.abs(parts).max(axis=-1, keepdims=True)
    codes = np.rint(parts * (np.float32(127) / np.maximum(largest, np.float32(2.0**-100))))
    scales = largest * np.float32(1 / 127)
    exact: np.ndarray = codes * scales.astype(np.float64)
    return exact.reshape(x.shape)


def check(compiled: object, packed: np.ndarray, scheme: str, rows: int, *, int8: bool) -> None:
    assert isinstance(compiled, Executable)
    weights = decode_blocks(packed, BLOCK_TYPES[scheme]).astype(np.float64)
    x = np.random.default_rng(2).standard_normal((rows, weights.shape[1])).astype(np.float32)
    (y,) = compiled.run({"x": x})
    read = rounded(x) if int8 else x.astype(np.float64)
    scale = np.abs(read) @ np.abs(weights.T)
    assert (np.abs(y - read @ weights.T) <= (4e-6 if int8 else 2e-6) * scale).all()


def check_records(compiled: object, *, decoded: bool, int8: bool) -> None:
    """Words are multiplied where an instruction of the machine multiplies bytes."""
    if not int8:
        assert records(compiled) == [decoded]
    elif detect_target().dots_unsigned_bytes:
        assert records(compiled, "dequant_matmul_words") == [decoded]


OPS = pytest.mark.parametrize("op", ["dequant_matmul", "int8_dequant_matmul"])


@OPS
def test_a_packed_product_reads_as_its_golden(golden: Callable[[str, str], None], op: str) -> None:
    """One row by 32 rows of Q4_1 for AVX-512 with VNNI: as floats, and as integers."""
    g = Graph("product")
    x, w = g.input("x", (1, 64)), g.param("w", (32, 40), "u8")
    g.set_outputs([getattr(g, op)(x, w, scheme="q4_1")])
    program = lower_for(g, named_target("x86-64-v4-vnni"))
    product = [kernel for kernel in program.module.kernels if "dequant_matmul" in kernel.name]
    assert len(product) == 1
    golden(f"{op}_q4_1.c", emit_kernel(replace(product[0], doc=())) + "\n")


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("scheme", ["q3_k", "q4_0", "q5_0", "q6_k", "q8_0"])
def test_weights_of_zero_add_nothing_however_large_the_input(scheme: str, backend: Any) -> None:
    """One weight of a block is large: the others are the code that means zero."""
    weights = np.zeros((16, 512))
    weights[:, ::16] = 1.0
    packed = encode(weights, scheme)
    zero = decode_blocks(packed, BLOCK_TYPES[scheme])[0] == 0
    assert zero.sum() > 256
    x = np.where(zero, 3e30 + np.arange(512) * 1e28, 0).astype(np.float32)[None]
    g = Graph("product")
    g.set_outputs(
        [g.dequant_matmul(g.input("x", x.shape), g.param("w", packed.shape, "u8"), scheme=scheme)]
    )
    (y,) = runtime.compile(g, backend=backend, params={"w": packed}).run({"x": x})
    np.testing.assert_array_equal(y, 0)
    x[0, 1] = np.inf  # times zero
    (y,) = runtime.compile(g, backend=backend, params={"w": packed}).run({"x": x})
    assert np.isnan(y).all()
    x[0, 0], x[0, 1] = np.inf, 0
    (y,) = runtime.compile(g, backend=backend, params={"w": packed}).run({"x": x})
    assert (np.abs(y) == np.inf).all()


@OPS
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("scheme", BLOCK_TYPES)
def test_every_block_type_streams_past_few_rows(scheme: str, rows: int, op: str) -> None:
    g, packed = product(scheme, rows, 37, 3, op)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    int8 = op == "int8_dequant_matmul"
    check_records(compiled, decoded=False, int8=int8)
    check(compiled, packed, scheme, rows, int8=int8)


@OPS
@pytest.mark.parametrize("scheme", ["q4_1", "q5_0", "q8_0", "q3_k", "q6_k", "iq2_xs", "nvfp4"])
def test_many_rows_use_decoded_weights_in_tiles(scheme: str, op: str) -> None:
    g, packed = product(scheme, Dim("rows", max=200), 70, 9 if scheme == "q4_1" else 2, op)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=2)
    int8 = op == "int8_dequant_matmul"
    check_records(compiled, decoded=True, int8=int8)
    for count in (1, 12, 97, 200):
        check(compiled, packed, scheme, count, int8=int8)


@OPS
@pytest.mark.parametrize("extents", [(0, 32, 2), (30, 0, 2), (30, 32, 0), (2, 32, 0)])
def test_empty_matrices_give_zeros(op: str, extents: tuple[int, int, int]) -> None:
    rows, columns, blocks = extents
    g = Graph("empty")
    x, w = g.input("x", (rows, 32 * blocks)), g.param("w", (columns, 18 * blocks), "u8")
    g.set_outputs([getattr(g, op)(x, w, scheme="q4_0")])
    packed = np.full((columns, 18 * blocks), 7, np.uint8)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    (y,) = compiled.run({"x": np.zeros((rows, 32 * blocks), np.float32)})
    np.testing.assert_array_equal(y, np.zeros((rows, columns), np.float32))


@pytest.mark.parametrize(
    ("scheme", "rows", "blocks", "int8"),
    [
        *(("q4_1", 1, 5, False), ("q4_0", 9, 5, False), ("iq4_xs", 9, 5, False)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("iq2_xs", 1, 5, False), ("q4_1", 1, 5, True), ("q4_0", 9, 5, True),
                ("q6_k", 1, 2, True),
            )
        ),
    ],
)  # fmt: skip
def test_c_agrees(scheme: str, rows: int, blocks: int, int8: bool) -> None:
    op = "int8_dequant_matmul" if int8 else "dequant_matmul"
    g, packed = product(scheme, rows, 33, blocks, op)
    compiled = runtime.compile(g, backend="c", params={"w": packed}, threads=1)
    check(compiled, packed, scheme, rows, int8=int8)


@pytest.mark.parametrize("scheme", ["iq3_s", "iq1_s"])
def test_rows_of_a_packed_table_are_decoded_after_they_are_gathered(scheme: str) -> None:
    table = packed_rows(scheme, 6, 256)
    g = Graph("embedding")
    at, w = g.input("at", (4,), "i32"), g.param("w", table.shape, "u8")
    g.set_outputs([g.dequantize_blocks(g.gather(w, at, axis=0), scheme=scheme)])
    compiled = runtime.compile(g, backend="llvm", params={"w": table}, threads=1)
    assert isinstance(compiled, Executable)
    chosen = np.array([5, 0, 3, 3], np.int32)
    (rows,) = compiled.run({"at": chosen})
    np.testing.assert_array_equal(rows, decode_blocks(table, BLOCK_TYPES[scheme])[chosen])


def test_what_follows_joins_the_product() -> None:
    g = Graph("residual")
    packed = encode(np.random.default_rng(0).standard_normal((48, 64)), "q4_0")
    x, w = g.input("x", (1, 64)), g.param("w", packed.shape, "u8")
    r = g.input("r", (1, 48))
    g.set_outputs([r + g.dequant_matmul(x, w, scheme="q4_0")])
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    assert isinstance(compiled, Executable)
    runs = [t for t in compiled.schedule.thunks if isinstance(t, Thunk)]
    assert len([t for t in runs if "dequant_matmul" in str(thunk_body(t).nodes)]) == 1
    ones = np.ones((1, 64), np.float32)
    (y,) = compiled.run({"x": ones, "r": np.ones((1, 48), np.float32)})
    expected = 1 + decode_blocks(packed, BLOCK_TYPES["q4_0"]).sum(axis=1)
    np.testing.assert_allclose(y[0], expected, rtol=1e-4, atol=1e-4)


def test_a_q8_k_product_has_known_values() -> None:
    """k = 256, codes i - 128, scale 0.0625."""
    block = np.zeros(292, np.uint8)
    block[:4] = np.array([0.0625], "<f4").view(np.uint8)
    block[4:260] = np.arange(-128, 128).astype(np.int8).view(np.uint8)
    x = (0.001 * np.arange(512) - 0.5).astype(np.float32).reshape(2, 256)
    g = Graph("golden")
    product = g.dequant_matmul(g.input("x", (2, 256)), g.input("w", (1, 292), "u8"), scheme="q8_k")
    g.set_outputs([product])
    compiled = runtime.compile(g, backend="llvm", threads=1)
    (y,) = compiled.run({"x": x, "w": block[None]})
    np.testing.assert_allclose(y[:, 0], [90.36, 88.312], atol=1e-3)


def test_bytes_of_rows_must_be_whole_blocks() -> None:
    g = Graph("bad")
    x, w = g.input("x", (1, 64)), g.input("w", (3, 37), "u8")
    with pytest.raises(ShapeError, match="whole blocks of 18 bytes"):
        g.dequant_matmul(x, w, scheme="q4_0")


def test_extents_of_rows_must_fit_their_operands() -> None:
    g = Graph("bad")
    x, w = g.input("x", (1, 65)), g.input("w", (3, 36), "u8")
    with pytest.raises(ShapeError, match="65, must equal them"):
        g.dequant_matmul(x, w, scheme="q4_0")


def products_of(*columns: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return products of one row of 512 with packed weights of so many columns each."""
    g = Graph("products")
    x = g.input("x", (1, 512))
    packed = {f"w{i}": packed_rows("q4_1", count, 512) for i, count in enumerate(columns)}
    weights = [g.param(name, rows.shape, "u8") for name, rows in packed.items()]
    g.set_outputs([g.dequant_matmul(x, w, scheme="q4_1") for w in weights])
    return g, packed


@pytest.mark.parametrize(("columns", "threads"), [((64, 64), 1), ((128, 512), 2)])
def test_threads_are_woken_for_large_products_and_share_small_ones(
    columns: tuple[int, ...], threads: int
) -> None:
    """Waking a thread takes some microseconds, a product of 2^15 multiply-adds two or three."""
    g, packed = products_of(*columns)
    program = lower_for(g, named_target("x86-64-v4"))
    thunks = [thunk for thunk in program.schedule.phase(Phase.RUN) if isinstance(thunk, Thunk)]
    kernels = [program.kernels[thunk.kernel_key] for thunk in thunks]
    assert all(kernel.parallel_loop for kernel in kernels) == (threads == 2)
    assert any(kernel.wakes_threads for kernel in kernels) == (threads == 2)
    alone, shared = (
        runtime.compile(g, backend="llvm", params=packed, threads=count) for count in (1, 2)
    )
    assert isinstance(shared, Executable)
    assert shared.threads == threads
    x = np.random.default_rng(3).standard_normal((1, 512)).astype(np.float32)
    for mine, other in zip(alone.run({"x": x}), shared.run({"x": x}), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("scheme", BLOCK_TYPES)
def test_every_block_type_is_decoded_where_no_instruction_multiplies_bytes(
    scheme: str, rows: int
) -> None:
    graph, _ = product(scheme, rows, 37, 3, "int8_dequant_matmul")
    schedule = str(lower_for(graph, named_target("x86-64")).schedule)
    assert "dequant_matmul" in schedule
    assert "dequant_matmul_words" not in schedule


def test_weights_that_are_inputs_are_decoded() -> None:
    packed = packed_rows("q4_1", 5, 64)
    g = Graph("product")
    x, w = g.input("x", (3, 64)), g.input("w", packed.shape, "u8")
    g.set_outputs([g.int8_dequant_matmul(x, w, scheme="q4_1")])
    compiled = runtime.compile(g, backend="llvm", threads=1)
    x_value = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    (y,) = compiled(x_value, packed)
    expected = rounded(x_value) @ decode_blocks(packed, BLOCK_TYPES["q4_1"]).T
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(evaluate(g, {"x": x_value, "w": packed})[0], y, rtol=1e-4, atol=1e-4)


def test_what_is_no_number_shows() -> None:
    """An infinity or NaN makes the results of its row NaN; zeros and tiny numbers stay zero."""
    g, packed = product("q4_1", 4, 5, 2, "int8_dequant_matmul")
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    x = np.ones((4, 64), np.float32)
    x[0, 3], x[1, 40] = np.inf, np.nan
    x[2], x[3] = 0.0, 1e-38
    (y,) = compiled(x)
    assert np.isnan(y[:2]).all()
    assert (y[2] == 0).all()
    assert (np.abs(y[3]) < 1e-35).all()


def test_codes_come_four_at_a_time_where_formulas_are_of_bytes() -> None:
    whole = {name for name, kind in BLOCK_TYPES.items() if has_whole_words(kind)}
    assert whole == {
        "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_k",
        "tq2_0", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4",
    }  # fmt: skip


def test_gradients_pass_the_rounding() -> None:
    g, packed = product("q8_0", 2, 3, 1, "int8_dequant_matmul")
    x = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    d = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    (dx,) = evaluate(grad(g, ["x"]), {"x": x, "w": packed, "d_output": d})
    np.testing.assert_allclose(dx, d @ decode_blocks(packed, BLOCK_TYPES["q8_0"]), rtol=1e-5)


def test_what_is_no_integer_or_no_block_is_refused() -> None:
    g = Graph("bad")
    x = g.input("x", (2, 48))
    with pytest.raises(DTypeError, match="fp8e4m3 are not multiplied as integers"):
        g.int8_dequant_matmul(x, g.input("w", (3, 48), "u8"), scheme="fp8e4m3")
    with pytest.raises(ShapeError, match="rounded in blocks of 32"):
        ops.quantize_rows(x)


@pytest.mark.parametrize(
    ("masks", "moved"), [((15, 7), False), ((15, 255), True), ((255, 15), True)]
)
def test_all_codes_of_a_type_are_moved_if_one_is_no_signed_byte(
    masks: tuple[int, int], moved: bool
) -> None:
    """One number is added to all of them afterwards."""
    kind = dataclasses.replace(
        BLOCK_TYPES["q4_0"],
        codes=lambda block, place: [block.byte(2 + place) & mask for mask in masks],
    )
    words = Buffer("blocks", Prim.I32)
    block = WordBlock(KernelBuilder("codes"), words, kind, const(0, Prim.I64), 16)
    found = [code.node for code in block.packed_codes(const(0, Prim.I64), [])]
    inner = [node.x for node in found if isinstance(node, Bitcast)]
    flipped = [isinstance(node, Binary) and node.op is BinaryOp.XOR for node in inner]
    assert flipped == [moved, moved]
    assert bias_of(kind, words) == (128 if moved else 0)
    assert bias_of(kind, Buffer("blocks", Prim.U32)) == 0

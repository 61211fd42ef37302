"""Products with packed weights: laid out in setup, streamed by or decoded, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.schedule import Phase, Thunk
from rlx.errors import ShapeError, UnsupportedError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.shape import Dim
from rlx.runtime.executable import Executable
from rlx.runtime.lower import lower_for
from rlx.target import named_target
from tests.ir.test_block_decoding import random_blocks


def packed_rows(scheme: str, rows: int, width: int) -> np.ndarray:
    """Return normal weights in blocks, or random blocks of a type that is only decoded."""
    try:
        return encode(np.random.default_rng(1).standard_normal((rows, width)), scheme)
    except UnsupportedError:
        kind = BLOCK_TYPES[scheme]
        return random_blocks(scheme, rows * width // kind.elements, 1).reshape(rows, -1)


def product(scheme: str, rows: int | Dim, columns: int, blocks: int) -> tuple[Graph, np.ndarray]:
    """Return a graph of `x @ W^T` with W as a param, and W in blocks."""
    width = BLOCK_TYPES[scheme].elements * blocks
    packed = packed_rows(scheme, columns, width)
    g = Graph("product")
    x, w = g.input("x", (rows, width)), g.param("w", packed.shape, "u8")
    g.set_outputs([g.dequant_matmul(x, w, scheme=scheme)])
    return g, packed


def records(compiled: object) -> list[str]:
    """Return how the packed products of a program read their rows."""
    assert isinstance(compiled, Executable)
    thunks = [thunk for thunk in compiled.schedule.thunks if isinstance(thunk, Thunk)]
    nodes = [node for thunk in thunks for node in thunk_body(thunk).nodes]
    lowerings = [n.lowering for n in nodes if n.op.name == "dequant_matmul"]
    return [found.left for found in lowerings if isinstance(found, Schedule)]


def check(compiled: object, packed: np.ndarray, scheme: str, rows: int) -> None:
    assert isinstance(compiled, Executable)
    weights = decode_blocks(packed, BLOCK_TYPES[scheme]).astype(np.float64)
    x = np.random.default_rng(2).standard_normal((rows, weights.shape[1])).astype(np.float32)
    (y,) = compiled.run({"x": x})
    scale = np.abs(x).astype(np.float64) @ np.abs(weights.T)
    assert (np.abs(y - x @ weights.T) <= 2e-6 * scale).all()


@pytest.mark.parametrize("op", ["dequant_matmul", "int8_dequant_matmul"])
def test_a_packed_product_reads_as_its_golden(golden: Callable[[str, str], None], op: str) -> None:
    """One row by 32 rows of Q4_1 for AVX-512 with VNNI: as floats, and as integers."""
    g = Graph("product")
    x, w = g.input("x", (1, 64)), g.param("w", (32, 40), "u8")
    g.set_outputs([getattr(g, op)(x, w, scheme="q4_1")])
    program = lower_for(g, named_target("x86-64-v4-vnni"))
    product = [kernel for kernel in program.module.kernels if "dequant_matmul" in kernel.name]
    assert len(product) == 1
    golden(f"{op}_q4_1.c", emit_kernel(replace(product[0], doc=())) + "\n")


@pytest.mark.parametrize("scheme", BLOCK_TYPES)
def test_every_block_type_streams_past_few_rows(scheme: str) -> None:
    g, packed = product(scheme, 2, 37, 3)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    assert records(compiled) == ["in_place"]
    check(compiled, packed, scheme, 2)


@pytest.mark.parametrize("scheme", ["q4_1", "q5_0", "q8_0", "q3_k", "q6_k", "iq2_xs", "nvfp4"])
def test_many_rows_use_decoded_weights_in_tiles(scheme: str) -> None:
    rows = Dim("rows", max=200)
    g, packed = product(scheme, rows, 70, 9 if scheme == "q4_1" else 2)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=2)
    assert records(compiled) == ["copied"]
    for count in (1, 12, 97, 200):
        check(compiled, packed, scheme, count)


@pytest.mark.parametrize("op", ["dequant_matmul", "int8_dequant_matmul"])
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
    ("scheme", "rows"),
    [
        *(("q4_1", 1), ("q4_0", 9), ("iq4_xs", 9)),
        pytest.param("iq2_xs", 1, marks=pytest.mark.slow),
    ],
)
def test_c_agrees(scheme: str, rows: int) -> None:
    g, packed = product(scheme, rows, 33, 5)
    compiled = runtime.compile(g, backend="c", params={"w": packed}, threads=1)
    check(compiled, packed, scheme, rows)


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

"""Products of packed weights with activations of eight bits, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.kernels.packed.words import WordBlock, bias_of, has_whole_words
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import Binary, BinaryOp, Bitcast, Buffer, Prim
from rlx.errors import DTypeError, ShapeError
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
from tests.codegen.kernels.test_packed import packed_rows


def product(scheme: str, rows: int | Dim, columns: int, blocks: int) -> tuple[Graph, np.ndarray]:
    width = BLOCK_TYPES[scheme].elements * blocks
    packed = packed_rows(scheme, columns, width)
    g = Graph("product")
    x, w = g.input("x", (rows, width)), g.param("w", packed.shape, "u8")
    g.set_outputs([g.int8_dequant_matmul(x, w, scheme=scheme)])
    return g, packed


def rounded(x: np.ndarray) -> np.ndarray:
    """Return what rows are once they are rounded to eight bits, in f64."""
    parts = x.reshape(*x.shape[:-1], -1, 32)
    largest = np.abs(parts).max(axis=-1, keepdims=True)
    codes = np.rint(parts * (np.float32(127) / np.maximum(largest, np.float32(2.0**-100))))
    scales = largest * np.float32(1 / 127)
    exact: np.ndarray = codes * scales.astype(np.float64)
    return exact.reshape(x.shape)


def check(compiled: object, packed: np.ndarray, scheme: str, rows: int) -> None:
    assert isinstance(compiled, Executable)
    weights = decode_blocks(packed, BLOCK_TYPES[scheme]).astype(np.float64)
    x = np.random.default_rng(2).standard_normal((rows, weights.shape[1])).astype(np.float32)
    (y,) = compiled.run({"x": x})
    near = rounded(x)
    assert (np.abs(y - near @ weights.T) <= 4e-6 * (np.abs(near) @ np.abs(weights.T))).all()


def lowerings(compiled: object) -> list[str]:
    """Return the kinds of record of the products with words."""
    assert isinstance(compiled, Executable)
    nodes = [n for n in compiled.plan.graph.nodes if n.op.name != "fused"]
    nodes += [i for n in compiled.plan.graph.nodes if n.op.name == "fused"
              for i in n.attribute("body").nodes]  # fmt: skip
    lowerings = [n.lowering for n in nodes if n.op.name == "dequant_matmul_words"]
    return [found.left for found in lowerings if isinstance(found, Schedule)]


@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("scheme", BLOCK_TYPES)
def test_every_block_type_is_decoded_where_no_instruction_multiplies_bytes(
    scheme: str, rows: int
) -> None:
    graph, _ = product(scheme, rows, 37, 3)
    schedule = str(lower_for(graph, named_target("x86-64")).schedule)
    assert "dequant_matmul" in schedule
    assert "dequant_matmul_words" not in schedule


@pytest.mark.parametrize("scheme", BLOCK_TYPES)
def test_every_block_type_streams_past_few_rows(scheme: str) -> None:
    g, packed = product(scheme, 2, 37, 3)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=1)
    check(compiled, packed, scheme, 2)
    if detect_target().dots_unsigned_bytes:
        assert lowerings(compiled) == ["in_place"]


@pytest.mark.parametrize("scheme", ["q4_1", "q5_0", "q8_0", "q3_k", "q6_k", "iq2_xs", "nvfp4"])
def test_many_rows_use_unpacked_codes_in_tiles(scheme: str) -> None:
    g, packed = product(scheme, Dim("rows", max=200), 70, 9 if scheme == "q4_1" else 2)
    compiled = runtime.compile(g, backend="llvm", params={"w": packed}, threads=2)
    for count in (1, 12, 97, 200):
        check(compiled, packed, scheme, count)
    if detect_target().dots_unsigned_bytes:
        assert lowerings(compiled) == ["copied"]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "rows"), [("q4_1", 1), ("q4_0", 9), ("q6_k", 1)])
def test_c_agrees(scheme: str, rows: int) -> None:
    g, packed = product(scheme, rows, 33, 5 if scheme != "q6_k" else 2)
    compiled = runtime.compile(g, backend="c", params={"w": packed}, threads=1)
    check(compiled, packed, scheme, rows)


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
    g, packed = product("q4_1", 4, 5, 2)
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
    g, packed = product("q8_0", 2, 3, 1)
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
        g.quantize_rows(x)


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

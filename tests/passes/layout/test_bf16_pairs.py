"""Products of bf16 by pairs, on targets that multiply two at once: near the reference's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.ops.bf16_products import words_of_bf16
from rlx.passes.layout.pack_operands import pack_operands
from rlx.passes.layout.tile_convolutions import tile_convolutions
from rlx.passes.precision.mixed_precision import at_precision
from rlx.runtime.lower import lower_for
from rlx.target import Target, named_target

X86, ARM = named_target("x86-64-v4-bf16"), named_target("aarch64-bf16")
Array = np.ndarray[Any, Any]


def values(*shape: int) -> Array:
    random = np.random.default_rng(0)
    return random.standard_normal(shape).astype(ml_dtypes.bfloat16)


def lowered(graph: Graph, target: Target) -> Graph:
    return pack_operands(target)(tile_convolutions(target)(graph))


def names(graph: Graph) -> list[str]:
    return [named(node) for node in graph.nodes]


def named(node: Node) -> str:
    """Return the name of an op, with what its operands hold."""
    if node.op not in (ops.stored_matmul, ops.stored_conv):
        return node.op.name
    return f"{node.op.name} of {node.attribute('elements')}"


def agree(graph: Graph, given: dict[str, Array], op: str) -> None:
    """Compare the reference with what both targets compute, by either back end and the formula."""
    inputs = {name: array for name, array in given.items() if name != "w"}
    params = {name: array for name, array in given.items() if name == "w"}
    (expected,) = rlx.compile(graph, params=params, backend="reference").run(inputs)
    for target in (X86, ARM):
        found = lowered(graph, target)
        assert op in names(found)
        for backend in ("reference", "c", "llvm"):
            (made,) = rlx.compile(found, params=params, backend=backend).run(inputs)
            close = np.asarray(expected, np.float32)
            np.testing.assert_allclose(np.asarray(made, np.float32), close, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(
    ("rows", "op"), [((4,), "stored_matmul of bf16"), ((5,), "matmul"), ((2, 3), "matmul")]
)
def test_a_slow_instruction_multiplies_pairs_for_few_rows_only(
    rows: tuple[int, ...], op: str
) -> None:
    graph = Graph("product")
    x, w = graph.input("x", (*rows, 64), "bf16"), graph.param("w", (64, 40), "bf16")
    graph.set_outputs([x @ w])
    slow = replace(X86, vendor="GenuineIntel")
    assert op in names(lowered(graph, slow))
    assert "stored_matmul of bf16" in names(lowered(graph, X86))


def test_a_slow_instruction_convolves_no_pairs() -> None:
    graph = Graph("image")
    x, w = graph.input("x", (1, 16, 12, 12), "bf16"), graph.param("w", (32, 16, 3, 3), "bf16")
    graph.set_outputs([graph.conv(x, w, stride=(1, 1), padding=((1, 1), (1, 1)))])
    assert "stored_conv of bf16" in names(lowered(graph, X86))
    assert "stored_conv of bf16" not in names(lowered(graph, replace(X86, vendor="GenuineIntel")))


@pytest.mark.parametrize(
    ("x", "w"), [((20, 64), (64, 40)), ((2, 9, 33), (33, 17)), ((2, 9, 34), (2, 34, 17))]
)
def test_products_of_pairs_agree_with_the_reference(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    graph = Graph("product")
    graph.set_outputs([graph.matmul(graph.input("x", x, "bf16"), graph.param("w", w, "bf16"))])
    agree(graph, {"x": values(*x), "w": values(*w)}, "stored_matmul of bf16")


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("leaf", ["x", "w"])
def test_transposed_operands_combine_in_pairs(left: bool, leaf: str) -> None:
    graph = Graph("transposed")
    a = graph.input("a", (33, 48) if left else (48, 33), "bf16")
    make = graph.param if leaf == "w" else graph.input
    b = make(leaf, (40, 33), "bf16")
    a = graph.transpose(a, perm=(1, 0)) if left else a
    graph.set_outputs([graph.matmul(a, graph.transpose(b, perm=(1, 0)))])
    given = {"a": values(33, 48) if left else values(48, 33), leaf: values(40, 33)}
    agree(graph, given, "stored_matmul of bf16")


@pytest.mark.parametrize("channels", [6, 7])
def test_convolutions_combine_in_pairs_of_channels(channels: int) -> None:
    graph = Graph("conv")
    x = graph.input("x", (2, channels, 9, 8), "bf16")
    w = graph.param("w", (18, channels, 3, 3), "bf16")
    graph.set_outputs([graph.conv(x, w, stride=(1, 2), padding=((1, 1), (0, 1)))])
    agree(
        graph,
        {"x": values(2, channels, 9, 8), "w": values(18, channels, 3, 3)},
        "stored_conv of bf16",
    )


def test_single_taps_are_products_of_pairs() -> None:
    graph = Graph("taps")
    x, w = graph.input("x", (1, 32, 9, 8), "bf16"), graph.param("w", (24, 32, 1, 1), "bf16")
    graph.set_outputs([graph.conv(x, w)])
    agree(graph, {"x": values(1, 32, 9, 8), "w": values(24, 32, 1, 1)}, "stored_matmul of bf16")


@pytest.mark.parametrize("depth", [64, 65])
def test_words_are_made_of_bits_in_place(depth: int) -> None:
    """No conversion to f32 and back: the bits of a NaN stay, too."""
    graph = Graph("words")
    graph.set_outputs([words_of_bf16(graph.input("x", (4, depth), "bf16"), 1)])
    given = {"x": values(4, depth)}
    given["x"].view(np.uint16)[0, 0] = 0x7F81
    (expected,) = rlx.compile(graph, backend="reference").run(given)
    run = rlx.compile(graph, backend="c")
    assert "bf16_to_f32" not in run.c_source
    assert "f32_to_bf16" not in run.c_source
    for found in (run, rlx.compile(graph, backend="llvm")):
        np.testing.assert_array_equal(found.run(given)[0], expected)


def test_mixed_precision_multiplies_pairs_where_the_target_does() -> None:
    graph = Graph("mixed")
    x, w = graph.input("x", (16, 64), "f32"), graph.param("w", (64, 32), "f32")
    graph.set_outputs([graph.relu(graph.matmul(x, w))])
    program = str(lower_for(at_precision(graph, "bf16"), X86).schedule)
    run = program[program.index("run:") :]
    assert "stored_matmul, cast x2, relu" in run
    assert "2 calls" in run  # rounding and pairing are one pass
    assert "stored_matmul" not in str(lower_for(graph, X86).schedule)


def test_other_targets_and_dtypes_are_widened() -> None:
    graph = Graph("wide")
    product = graph.matmul(graph.input("x", (16, 64), "bf16"), graph.param("w", (64, 32), "bf16"))
    graph.set_outputs([product])
    assert "stored_matmul of bf16" not in names(lowered(graph, named_target("x86-64-v4")))
    halves = Graph("halves")
    product = halves.matmul(halves.input("x", (16, 64), "f16"), halves.param("w", (64, 32), "f16"))
    halves.set_outputs([product])
    assert "stored_matmul of bf16" not in names(lowered(halves, X86))


def test_products_of_anything_but_words_are_errors() -> None:
    graph = Graph("wrong")
    x, w = graph.input("x", (4, 4), "bf16"), graph.input("w", (4, 4), "u32")
    with pytest.raises(DTypeError, match="must be one of: u32"):
        ops.stored_matmul(x, w, elements="bf16")

"""Integer products by words of four bytes: the same integers, whatever the operands are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.passes.lowering.exact_products import exact_products
from rlx.runtime.compile import lower_for
from rlx.target import Target, named_target

VNNI, DOTPROD = named_target("x86-64-v4-vnni"), named_target("aarch64-dotprod")
BYTES = {"i8": np.int8, "u8": np.uint8}


def operand(graph: Graph, name: str, shape: tuple[Any, ...], dtype: str, zero: int) -> Value:
    """An input, widened and centered; `w` is a param."""
    make = graph.param if name == "w" else graph.input
    wide = graph.cast(make(name, shape, dtype), to="i32")
    return wide - zero if zero else wide


def codes(dtype: str, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8).view(BYTES[dtype])


def lowered(graph: Graph, target: Target) -> list[str]:
    return [node.op.name for node in exact_products(target)(graph).nodes]


def agree(graph: Graph, given: dict[str, Any]) -> None:
    """Compare the reference, the lowered graphs of both machines, and both back ends here."""
    inputs = {name: array for name, array in given.items() if name != "w"}
    params = {name: array for name, array in given.items() if name == "w"}
    expected = rlx.compile(graph, params=params, backend="reference").run(inputs)[0]
    for target in (VNNI, DOTPROD):
        found = exact_products(target)(graph)
        made = rlx.compile(found, params=params, backend="reference").run(inputs)[0]
        np.testing.assert_array_equal(made, expected)
    for backend in ("c", "llvm"):
        made = rlx.compile(graph, params=params, backend=backend).run(inputs)[0]
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("x", "w", "x_zero", "w_zero"),
    [("i8", "i8", 0, 0), ("i8", "i8", -7, 0), ("u8", "i8", 128, 0), ("i8", "u8", 3, 131)],
)
@pytest.mark.parametrize("depth", [64, 67])
def test_products_are_exact(x: str, w: str, x_zero: int, w_zero: int, depth: int) -> None:
    graph = Graph("product")
    a = operand(graph, "x", (2, 5, depth), x, x_zero)
    b = operand(graph, "w", (depth, 19), w, w_zero)
    graph.set_outputs([graph.matmul(a, b)])
    assert "matmul_bytes" in lowered(graph, VNNI)
    assert "matmul_bytes" in lowered(graph, DOTPROD)
    agree(graph, {"x": codes(x, (2, 5, depth)), "w": codes(w, (depth, 19))})


def test_the_largest_products_are_exact() -> None:
    """Sums of pairs do not fit 16 bits: instructions that saturate there would fail."""
    graph = Graph("largest")
    a, b = operand(graph, "x", (8, 2048), "i8", 0), operand(graph, "w", (2048, 8), "i8", 0)
    graph.set_outputs([graph.matmul(a, b)])
    agree(graph, {"x": np.full((8, 2048), -128, np.int8), "w": np.full((2048, 8), -128, np.int8)})


@pytest.mark.parametrize(
    ("groups", "kernel", "attributes"),
    [
        (1, 3, {"padding": ((1, 1), (1, 2))}),
        (2, 3, {"stride": (2, 2), "padding": ((1, 1), (1, 1))}),
        (1, 1, {}),
        (1, 3, {"dilation": (2, 1)}),
    ],
)
@pytest.mark.parametrize("zero", [0, 5])
def test_convolutions_are_exact(
    groups: int, kernel: int, attributes: dict[str, Any], zero: int
) -> None:
    graph = Graph("conv")
    shapes = {"x": (2, 12, 9, 8), "w": (18, 12 // groups, kernel, kernel)}
    x = operand(graph, "x", shapes["x"], "i8", zero)
    w = operand(graph, "w", shapes["w"], "i8", 0)
    graph.set_outputs([graph.conv(x, w, groups=groups, **attributes)])
    assert "conv_bytes" in lowered(graph, VNNI)
    agree(graph, {name: codes("i8", shape) for name, shape in shapes.items()})


def test_other_machines_and_operands_keep_their_products() -> None:
    graph = Graph("others")
    a, b = operand(graph, "x", (8, 64), "i8", 0), operand(graph, "w", (64, 8), "i8", 0)
    graph.set_outputs([graph.matmul(a, b)])
    assert "matmul_bytes" not in lowered(graph, named_target("x86-64-v4"))
    graph.set_outputs([graph.matmul(a, b * 3)])
    assert "matmul_bytes" not in lowered(graph, VNNI)


def test_symbolic_rows_are_products_of_words() -> None:
    graph = Graph("rows")
    a = operand(graph, "x", (rlx.Dim("n", max=40), 32), "i8", 0)
    graph.set_outputs([graph.matmul(a, operand(graph, "w", (32, 16), "i8", 0))])
    assert "matmul_bytes" in lowered(graph, VNNI)
    agree(graph, {"x": codes("i8", (7, 32)), "w": codes("i8", (32, 16))})


def test_words_hold_elements_a_quarter_of_the_axis_apart() -> None:
    graph = Graph("words")
    x = graph.input("x", (1, 6), "i8")
    graph.set_outputs([graph.pack_bytes(x, axis=1, signed=signed) for signed in (True, False)])
    for backend in ("reference", "c", "llvm"):
        run = rlx.compile(graph, backend=backend)
        signed, unsigned = run.run({"x": np.array([[1, 2, 3, 4, -1, -2]], np.int8)})
        bytes_of = signed.view(np.int8).reshape(2, 4)
        np.testing.assert_array_equal(bytes_of, [[1, 3, -1, 0], [2, 4, -2, 0]])
        moved = [[129, 131, 127, 0], [130, 132, 126, 0]]
        np.testing.assert_array_equal(unsigned.view(np.uint8).reshape(2, 4), moved)


@pytest.mark.parametrize(
    ("shape", "axis", "groups"),
    [((3, 5), 1, 1), ((2, 12, 7), 1, 2), ((9,), 0, 1), ((2, 3, 4), 0, 1)],
)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_every_kernel_packs_what_the_formula_says(
    dtype: str, shape: tuple[int, ...], axis: int, groups: int
) -> None:
    graph = Graph("pack")
    x = graph.input("x", shape, dtype)
    packed = [graph.pack_bytes(x, axis=axis, signed=s, groups=groups) for s in (True, False)]
    graph.set_outputs(packed)
    given = {"x": codes(dtype, shape)}
    expected = rlx.compile(graph, backend="reference").run(given)
    for backend in ("c", "llvm"):
        for made, wanted in zip(
            rlx.compile(graph, backend=backend).run(given), expected, strict=True
        ):
            np.testing.assert_array_equal(made, wanted)


def test_words_of_other_types_and_uneven_groups_are_errors() -> None:
    graph = Graph("wrong")
    x, y = graph.input("x", (4, 6), "i8"), graph.input("y", (4, 6), "f32")
    with pytest.raises(ShapeError, match="4 groups of axis 1 are no words"):
        graph.pack_bytes(x, axis=1, signed=True, groups=4)
    with pytest.raises(DTypeError, match="f32"):
        graph.pack_bytes(y, axis=1, signed=True)
    with pytest.raises(DTypeError, match="words of four bytes have dtype i8"):
        graph.matmul_bytes(x, x)


def test_rounding_and_packing_are_one_pass_over_the_input() -> None:
    graph = Graph("rounded")
    x, w = graph.input("x", (8, 64), "f32"), graph.param("w", (64, 32), "i8")
    q = graph.quantize(x, scales=(0.05,), zero_points=(3,))
    graph.set_outputs([graph.matmul(graph.cast(q, to="i32") - 3, graph.cast(w, to="i32"))])
    program = str(lower_for(graph, VNNI).schedule)
    run = program[program.index("run:") :]
    assert "2 calls" in run
    assert "i8[8, 64]" not in run
    given = {"w": codes("i8", (64, 32)), "x": np.linspace(-8, 8, 512, dtype="f4").reshape(8, 64)}
    agree(graph, given)

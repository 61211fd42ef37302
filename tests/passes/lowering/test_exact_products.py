"""Integer products as float products: exact at the bounds, left alone beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph, Value
from rlx.passes.lowering.exact_products import exact_products
from rlx.passes.lowering.integer_ranges import EXACT, range_of
from rlx.runtime.lower import lower_for
from rlx.target import named_target

FLOATS = named_target("x86-64")
"""It multiplies no bytes: see `test_int8_dot` for machines that do."""


def product(depth: int, zero_point: int = 0, rows: int = 8, columns: int = 8) -> Graph:
    graph = Graph("product")
    x = graph.input("x", (rows, depth), "i8")
    w = graph.input("w", (depth, columns), "i8")
    wide = graph.cast(x, to="i32")
    centered = wide - zero_point if zero_point else wide
    graph.set_outputs([graph.matmul(centered, graph.cast(w, to="i32"))])
    return graph


def matmuls(graph: Graph) -> list[Value]:
    found = exact_products(FLOATS)(graph)
    return [node.result for node in found.nodes if node.op.name == "matmul"]


@pytest.mark.parametrize(
    ("depth", "zero_point", "parts"),
    [(64, 0, 1), (1024, 0, 1), (1025, 0, 2), (512, 127, 1), (1024, 127, 2), (8192, 0, 8)],
)
def test_sums_are_as_long_as_stays_exact(depth: int, zero_point: int, parts: int) -> None:
    found = matmuls(product(depth, zero_point))
    assert [str(each.dtype) for each in found] == ["f32"] * parts


@pytest.mark.parametrize(("depth", "rows", "columns"), [(8193, 8, 8), (64, 1, 1)])
def test_longer_and_tiny_products_stay_integers(depth: int, rows: int, columns: int) -> None:
    assert [str(m.dtype) for m in matmuls(product(depth, 0, rows, columns))] == ["i32"]


def test_a_target_without_vectors_reads_codes_in_place() -> None:
    found = exact_products(named_target("cortex-m4"))(product(64, 3))
    (made,) = [node for node in found.nodes if node.op.name == "stored_matmul"]
    assert [str(operand.dtype) for operand in made.operands] == ["i8", "i8"]


def test_ranges_follow_casts_movement_and_constants() -> None:
    graph = Graph("ranges")
    x = graph.input("x", (2, 3), "u8")
    wide = graph.transpose(graph.cast(x, to="i32"), perm=(1, 0)) - 100
    assert range_of(wide) == (-100, 155)
    assert range_of(graph.input("y", (2,), "i32")) is None


def test_sums_that_may_wrap_have_no_range() -> None:
    graph = Graph("wrapping")
    large = graph.constant(np.full(3, 32767, np.int16))
    wrapped = graph.cast(large + large, to="i32")  # -2, not 65534
    assert range_of(graph.cast(large, to="i32")) == (32767, 32767)
    assert range_of(wrapped - 65534) is None


def test_long_chains_of_sums_are_followed_some_way_only() -> None:
    graph = product(64)
    wide = graph.cast(graph.leaf("x"), to="i32")
    total = wide
    for _ in range(1500):
        total = total + total - wide
    graph.set_outputs([graph.matmul(total, graph.cast(graph.leaf("w"), to="i32"))])
    assert [str(m.dtype) for m in matmuls(graph)][-1] == "i32"


def test_products_of_no_terms_and_symbolic_rows_are_zeros() -> None:
    graph = Graph("empty")
    x = graph.input("x", (rlx.Dim("n", max=8), 0), "i8")
    w = graph.input("w", (0, 3), "i8")
    graph.set_outputs([graph.matmul(graph.cast(x, to="i32"), graph.cast(w, to="i32"))])
    (y,) = rlx.compile(graph, backend="c")(x=np.zeros((2, 0), np.int8), w=np.zeros((0, 3), np.int8))
    assert np.array_equal(y, np.zeros((2, 3), np.int32))


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("depth", [1024, 1500])
def test_the_largest_sums_are_exact(backend: str, depth: int) -> None:
    """One part of f32 holds the sums of 1,024 products; of more, most are no number of f32."""
    random = np.random.default_rng(0)
    x, w = (
        random.integers(-128, -122, shape).astype(np.int8) for shape in ((8, depth), (depth, 8))
    )
    run = rlx.compile(product(depth), backend=backend)
    (result,) = run.run({"x": x, "w": w})
    expected = x.astype(np.int64) @ w.astype(np.int64)
    rounded = expected.astype(np.float32).astype(np.int64)
    assert (expected > EXACT / 2).all()
    assert (depth > 1024) == (rounded != expected).any()
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_are_exact(groups: int) -> None:
    graph = Graph("conv")
    x, w = graph.input("x", (2, 4, 9, 9), "i8"), graph.input("w", (6, 4 // groups, 3, 3), "i8")
    wide: Any = graph.cast(x, to="i32") + 3
    graph.set_outputs([graph.conv(wide, graph.cast(w, to="i32"), groups=groups)])
    random = np.random.default_rng(0)
    feeds = {
        "x": random.integers(-128, 128, (2, 4, 9, 9)).astype(np.int8),
        "w": random.integers(-128, 128, (6, 4 // groups, 3, 3)).astype(np.int8),
    }
    found = exact_products(FLOATS)(graph)
    assert any(n.op.name == "conv" and str(n.result.dtype) == "f32" for n in found.nodes)
    expected = rlx.compile(graph, backend="reference").run(feeds)[0]
    np.testing.assert_array_equal(rlx.compile(graph).run(feeds)[0], expected)


def scaled(dtype: str, channels: int, depth: int, **window: Any) -> Graph:
    """A depthwise convolution of bytes with zero points, whose sums are scaled as floats."""
    graph = Graph("scaled")
    x = graph.input("x", (2, channels, 17, 13), dtype)
    w = graph.input("w", (channels, 1, depth, 3), "i8")
    scale = graph.input("scale", (channels, 1, 1), "f32")
    sums = graph.conv(
        graph.cast(x, to="i32") - 113, graph.cast(w, to="i32"), groups=channels, **window
    )
    graph.set_outputs([graph.cast(sums, to="f32") * scale + 0.25])
    return graph


_WINDOWS: list[dict[str, Any]] = [
    {},
    {"stride": (2, 2), "padding": ((1, 1), (1, 1))},
    {"stride": (1, 2), "padding": ((0, 2), (1, 0))},
    {"dilation": (2, 2), "padding": ((2, 2), (2, 2))},
    {"stride": (3, 1), "dilation": (1, 3), "padding": ((1, 0), (3, 3))},
]


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("channels", [3, 16, 21])
@pytest.mark.parametrize("dtype", ["u8", "i8"])
@pytest.mark.parametrize("window", _WINDOWS, ids=str)
def test_sums_that_are_cast_back_are_exact(
    window: dict[str, Any], dtype: str, channels: int, backend: str
) -> None:
    """The bits of the reference, which sums in i32."""
    graph, random = scaled(dtype, channels, 3, **window), np.random.default_rng(0)
    limits = np.iinfo({"u8": np.uint8, "i8": np.int8}[dtype])
    feeds = {
        "x": random.integers(limits.min, limits.max + 1, (2, channels, 17, 13)).astype(
            limits.dtype
        ),
        "w": random.integers(-128, 128, (channels, 1, 3, 3)).astype(np.int8),
        "scale": -random.random((channels, 1, 1)).astype(np.float32),
    }
    (expected,) = rlx.compile(graph, backend="reference").run(feeds)
    (result,) = rlx.compile(graph, backend=backend).run(feeds)
    np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v4-vnni"])
def test_sums_that_are_cast_back_are_not_rounded(name: str) -> None:
    """No cast to i32 is left."""
    left = exact_products(named_target(name))(scaled("u8", 16, 3, padding=((1, 1), (1, 1))))
    assert not any(n.op.name == "cast" and n.operands[0].op.name == "conv" for n in used(left))


def used(graph: Graph) -> list[Any]:
    """Return the nodes that outputs depend on."""
    found: dict[Any, None] = {}
    waiting = [output.node for output in graph.outputs]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [operand.node for operand in node.operands]
    return list(found)


@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_a_sum_of_no_value_is_no_negative_zero(backend: str) -> None:
    """In floats 0 * -1 is -0; the integer is 0."""
    graph = Graph("zeros")
    x, w = graph.input("x", (64, 1), "i8"), graph.input("w", (1, 64), "i8")
    product_of = graph.matmul(graph.cast(x, to="i32"), graph.cast(w, to="i32"))
    graph.set_outputs([graph.cast(product_of, to="f32")])
    feeds = {"x": np.zeros((64, 1), np.int8), "w": np.full((1, 64), -1, np.int8)}
    (result,) = rlx.compile(graph, backend=backend).run(feeds)
    assert not np.signbit(result).any()


def images(dtype: str, *, fixed: bool) -> Graph:
    """A convolution of three by three taps that Winograd's transforms suit."""
    graph = Graph("images")
    x, weights = graph.input("x", (1, 64, 28, 28), dtype), np.ones((64, 64, 3, 3), np.int8)
    if fixed:
        w = graph.constant(weights if dtype == "i8" else weights * np.float32(0.3))
    else:
        w = graph.param("w", weights.shape, dtype)
    wide = [graph.cast(each, to="i32" if dtype == "i8" else "f32") for each in (x, w)]
    graph.set_outputs([graph.conv(*wide, padding=((1, 1), (1, 1)))])
    return graph


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("fixed", [False, True])
def test_sums_of_integers_are_not_transformed(name: str, fixed: bool) -> None:
    """Winograd's transforms divide by 24: what they give of integers is none."""
    target = named_target(name)
    assert "winograd" in str(lower_for(images("f32", fixed=fixed), target).schedule)
    assert "winograd" not in str(lower_for(images("i8", fixed=fixed), target).schedule)

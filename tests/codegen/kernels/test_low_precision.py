"""f16 and bf16: every value has its dtype's precision, stored or not, in all three."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.runtime.compile import compile as compile_graph

NARROW = (DType.F16, DType.BF16)
BACKENDS = ("llvm", "c")
Array = NDArray[Any]


def every_value(dtype: DType) -> Array:
    """Return all 65,536 values of a 16-bit float."""
    values: Array = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    return values


def bits(array: Any) -> Array:
    """Return the bits of `array`, those of every NaN as of one."""
    array = np.asarray(array)
    if array.dtype.kind in "biu":
        return np.asarray(array)
    patterns: Array = array.view(f"u{array.dtype.itemsize}").copy()
    patterns += 1  # 0 is for NaN
    patterns[np.isnan(array)] = 0
    return patterns


def check(graph: Graph, feeds: dict[str, Array], backend: str) -> None:
    found = compile_graph(graph, backend=backend).run(feeds)
    for one, other in zip(found, evaluate(graph, feeds), strict=True):
        np.testing.assert_array_equal(bits(one), bits(other))


UNARY: dict[str, Callable[[Value], Value]] = {
    "neg": lambda x: ops.neg(x),
    "abs": lambda x: ops.abs(x),
    "sqrt": lambda x: ops.sqrt(x),
    "square": lambda x: ops.square(x),
    "reciprocal": lambda x: ops.reciprocal(x),
    "floor": lambda x: ops.floor(x),
    "relu": lambda x: ops.relu(x),
    "twice": lambda x: x + x,
    "f32": lambda x: ops.cast(ops.cast(x, to=DType.F32) * 1.7, to=x.dtype),
}

BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": lambda x, y: ops.maximum(x, y),
    "minimum": lambda x, y: ops.minimum(x, y),
    "where": lambda x, y: ops.where(x < y, x * y, x + y),
}


def chain(seed: int, dtype: DType) -> Graph:
    """Return eight random ops after each other, and what a program sees of each."""
    rng = np.random.default_rng(seed)
    graph = Graph("chain")
    values = [graph.input(name, (1 << 12,), dtype) for name in "xy"]
    seen = []
    for _ in range(8):
        if rng.random() < 0.3:
            value = UNARY[str(rng.choice(list(UNARY)))](values[rng.integers(len(values))])
        else:
            left, right = (values[i] for i in rng.integers(len(values), size=2))
            value = BINARY[str(rng.choice(list(BINARY)))](left, right)
        values.append(value)
        seen += [ops.cast(value, to=DType.F32), value > values[0], ops.cast(value, to=DType.I32)]
    graph.set_outputs([values[-1], *seen])
    return graph


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
def test_chains_have_the_same_bits_as_the_reference(dtype: DType, backend: str) -> None:
    for seed in range(6 if backend == "llvm" else 2):
        rng = np.random.default_rng(seed)
        feeds = {name: rng.choice(every_value(dtype), 1 << 12) for name in "xy"}
        check(chain(seed, dtype), feeds, backend)


@pytest.mark.guarantee(
    "Results",
    "Every value of a 16-bit type is rounded where the program rounds it, also "
    "inside of a fused kernel.",
)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", UNARY)
def test_every_value_inside_a_kernel_is_rounded(name: str, dtype: DType, backend: str) -> None:
    graph = Graph("one")
    y = UNARY[name](graph.input("x", (1 << 16,), dtype))
    graph.set_outputs([ops.cast(y, to=DType.F32)])
    check(graph, {"x": every_value(dtype)}, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_product_beyond_f16_is_infinite_also_where_it_is_not_stored(backend: str) -> None:
    graph = Graph("overflow")
    x = graph.input("x", (4,), DType.F16)
    graph.set_outputs([x * x / x, ops.is_finite(x * x)])
    (quotient, finite) = compile_graph(graph, backend=backend).run(
        {"x": np.full(4, 900, np.float16)}
    )
    assert np.isinf(quotient).all()
    assert not finite.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
def test_casts_to_narrow_floats_round_once(dtype: DType, backend: str) -> None:
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    near_ties = (rng.integers(0, 1 << 16, 1 << 14) << 16) + rng.integers(0x7FFF, 0x8002, 1 << 14)
    singles = np.concatenate([patterns, near_ties.astype(np.uint32)]).view(np.float32)
    with np.errstate(invalid="ignore"):
        doubles = singles.astype(np.float64) * (1 + rng.choice([0.0, 2**-50], singles.shape))
    whole = rng.integers(0, 256, 1 << 12) << rng.integers(0, 54, 1 << 12)
    ties = whole * 256 + whole // 2 + rng.integers(-1, 2, 1 << 12)
    feeds = {"f32": singles, "f64": doubles, "i64": ties, "i32": ties.astype(np.int32)}
    graph = Graph("casts")
    values = [graph.input(name, array.shape, DType(name)) for name, array in feeds.items()]
    narrow = [ops.cast(value, to=dtype) for value in values]
    graph.set_outputs([*narrow, *(ops.cast(value, to=DType.F32) for value in narrow)])
    check(graph, feeds, backend)


ANCHORED: dict[str, Callable[[Value, Value], Value]] = {
    "matmul": lambda x, y: ops.matmul(x, y) * 3.0 + y,
    "sum": lambda x, y: ops.reduce_sum(x, axes=(1,), keepdims=True) * y - x,
    "max of products": lambda x, y: ops.reduce_max(x * y, axes=(1,), keepdims=True) + y,
    "sum of products": lambda x, y: ops.reduce_sum(x * y * y, axes=(0,)) * x,
    "cumsum": lambda x, y: ops.cumsum(x * y, axis=0) * y,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ANCHORED)
def test_what_surrounds_an_accumulation_is_rounded(name: str, dtype: DType, backend: str) -> None:
    """Small integers, so that every order of accumulating gives the same sum."""
    graph = Graph("anchored")
    x, y = (graph.input(name, (16, 16), dtype) for name in "xy")
    graph.set_outputs([ops.cast(ANCHORED[name](x, y), to=DType.F32)])
    rng = np.random.default_rng(2)
    feeds = {name: rng.integers(-40, 40, (16, 16)).astype(dtype.numpy) for name in "xy"}
    check(graph, feeds, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
def test_comparisons_and_casts_see_no_more_than_a_value_has(dtype: DType, backend: str) -> None:
    """Products that differ in f32 alone are equal, and both are the whole number between."""
    graph = Graph("compared")
    x, y, z = (graph.input(name, (64,), dtype) for name in "xyz")
    near = [ops.gt(x * y, z), ops.eq(x * y, z), ops.cast(x * y, to=DType.I32)]
    graph.set_outputs([*near, ops.maximum(x * y, z), ops.where(ops.lt(x * y, z), x, y)])
    one = np.ones(64, dtype.numpy)
    small = (2.0 ** (-11 if dtype is DType.F16 else -8)) * np.linspace(-0.9, 0.9, 64)
    scaled = (7.0 * (1 + 2 * small)).astype(dtype.numpy)
    feeds = {"x": scaled, "y": scaled, "z": (scaled * scaled).astype(dtype.numpy)}
    assert (feeds["z"] != 49 * one).any()
    check(graph, feeds, backend)
    above, equal, *_ = compile_graph(graph, backend=backend).run(feeds)
    assert equal.all()
    assert not above.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", NARROW)
def test_nothing_is_scattered_into_nothing(dtype: DType, backend: str) -> None:
    graph = Graph("empty")
    updates = graph.input("updates", (0, 3), dtype)
    indices = graph.input("indices", (0,), DType.I32)
    graph.set_outputs([ops.scatter_add(updates, indices, size=0)])
    feeds = {"updates": np.zeros((0, 3), dtype.numpy), "indices": np.zeros(0, np.int32)}
    check(graph, feeds, backend)

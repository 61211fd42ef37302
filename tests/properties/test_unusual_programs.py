"""Programs of unusual size, shape and names: they compile, fast, and mean what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.runtime.executable import Executable
from rlx.runtime.toolchain import has_toolchain

Array = NDArray[Any]
Feeds = Mapping[str, Array]
BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agree(graph: Graph, feeds: Feeds, params: Feeds | None = None, backend: str = "llvm") -> None:
    """Demand that compiled code gives what the reference gives, twice in a row."""
    params = params or {}
    expected = evaluate(graph, {**feeds, **params})
    run = rlx.compile(graph, backend=backend, params=params, threads=1)
    first = run.run(feeds)
    again = run.run(feeds) if not graph.donations else first
    for given, repeated, wanted in zip(first, again, expected, strict=True):
        assert (given.dtype, given.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(given, repeated)


NAMES = (
    "int", "é", "2x", "a b", "double", "main", "run", "arena", "__init__", "a\nb", 'q"uo\\te', "*/",
    "/*", "π", "%1", "NULL", "memcpy", "exp", "a.b.c", "日本", "inf", "f32", "\x00", "back\\",
    "x" * 3000,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:20]))
def test_graphs_inputs_and_params_may_have_any_name(name: str, backend: str) -> None:
    graph = Graph(name)
    x, w = graph.input(name, (3,)), graph.param(f"{name}_w", (3,))
    graph.set_outputs([ops.cumsum(x, axis=0) + w])
    assert format_graph(parse_graph(format_graph(graph))) == format_graph(graph)
    agree(graph, {name: numbers(3)}, {f"{name}_w": numbers(3, seed=1)}, backend)


def chain(x: Value, step: Callable[[Value], Value], count: int) -> list[Value]:
    for _ in range(count):
        x = step(x)
    return [x]


def fan(x: Value) -> list[Value]:
    branches = [ops.tanh(x * float(number)) for number in range(200)]
    total = branches[0]
    for branch in branches[1:]:
        total = total + branch
    return [ops.concat(*branches, axis=0), total]


LARGE: dict[str, Callable[[Value], list[Value]]] = {
    "500 elementwise nodes": lambda x: chain(x, lambda y: ops.sin(y) + 0.1, 250),
    "500 nodes that do not fuse": lambda x: chain(x, lambda y: ops.cumsum(y * 0.3, axis=0), 250),
    "60 diamonds": lambda x: chain(x, lambda y: ops.tanh(y + y * 0.5), 60),
    "40 diamonds through shapes": lambda x: chain(
        x, lambda y: ops.reverse(ops.tanh(y + ops.reverse(y, axes=(0,))), axes=(0,)), 40
    ),
    "a fan of 200": fan,
    "100 outputs": lambda x: [x + float(number) for number in range(100)],
}


@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_compile_and_agree(name: str) -> None:
    graph = Graph("large")
    graph.set_outputs(LARGE[name](graph.input("x", (5,))))
    agree(graph, {"x": numbers(5)})


def test_a_graph_takes_150_inputs() -> None:
    graph = Graph("many")
    inputs = [graph.input(f"x{number}", (5,)) for number in range(150)]
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    graph.set_outputs([total])
    agree(graph, {f"x{number}": numbers(5, seed=number) for number in range(150)})


def test_tensors_may_have_twelve_axes() -> None:
    graph = Graph("deep")
    shape = (2,) * 12
    x = graph.input("x", shape)
    graph.set_outputs(
        [
            ops.transpose(x, perm=tuple(reversed(range(12)))),
            ops.reduce_sum(x, axes=(0, 3, 5)),
            ops.reverse(x, axes=(1, 11)),
            ops.concat(x, x, axis=6),
        ]
    )
    agree(graph, {"x": numbers(*shape)})


def test_empty_tensors_go_through_every_kind_of_op() -> None:
    graph = Graph("empty")
    x, w = graph.input("x", (0, 3)), graph.input("w", (3,))
    left, right = graph.input("left", (2, 0)), graph.input("right", (0, 4))
    at = graph.input("at", (0,), "i64")
    picked = ops.gather(right, at, axis=1)
    graph.set_outputs(
        [
            *(ops.exp(x), ops.transpose(x, perm=(1, 0)), ops.concat(x, x, axis=0)),
            *(ops.reduce_sum(x, axes=(0,)), ops.reduce_prod(x, axes=(0,))),
            *(ops.reduce_max(x, axes=(0,)), ops.reduce_min(x, axes=(0,))),
            *(ops.reduce_max(x, axes=(1,)), ops.reduce_mean(x, axes=(0,))),
            *(ops.softmax(x, axis=1), ops.cumsum(x, axis=0), ops.argmax(x, axis=1)),
            *(ops.layer_norm(x, w, w, axis=1, eps=1e-5), ops.rms_norm(x, w, axis=1, eps=1e-5)),
            *(left @ right, ops.tanh(left @ right), right @ ops.transpose(right, perm=(1, 0))),
            *(picked, ops.gather_backward(picked, at, axis=1, size=4), *ops.topk(right, k=0)),
        ]
    )
    feeds = {"x": numbers(0, 3), "w": numbers(3), "left": numbers(2, 0), "right": numbers(0, 4)}
    agree(graph, {**feeds, "at": np.zeros(0, np.int64)})


def test_two_params_that_replace_each_other_swap_at_every_run() -> None:
    graph = Graph("swap")
    a, b = graph.param("a", (3,)), graph.param("b", (3,))
    graph.set_outputs([a, b], donated={a: b, b: a})
    one, two = numbers(3), numbers(3, seed=1)
    for backend in ("llvm", "reference"):
        run = rlx.compile(graph, backend=backend, params={"a": one, "b": two})
        np.testing.assert_array_equal(run()[0], one)
        np.testing.assert_array_equal(run()[0], two)
        np.testing.assert_array_equal(run.params["a"], one)


def test_outputs_may_be_inputs_and_repeat() -> None:
    graph = Graph("identity")
    x = graph.input("x", (3,))
    w = graph.param("w", (3,))
    y = x + w
    graph.set_outputs([x, x, y, ops.reshape(x, shape=(1, 3)), w, y], donated={w: y})
    agree(graph, {"x": numbers(3)}, {"w": numbers(3, seed=1)})


def test_a_graph_of_constants_needs_no_input() -> None:
    graph = Graph("constants")
    special = graph.constant(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32))
    graph.set_outputs([special, ops.neg(special), special])
    agree(graph, {})


def test_a_graph_without_inputs_and_outputs_gives_nothing() -> None:
    for backend in ("llvm", "reference"):
        assert rlx.compile(Graph("nothing"), backend=backend)() == ()


def test_nan_and_infinities_mean_the_same_in_compiled_code() -> None:
    graph = Graph("special")
    x, y = graph.input("x", (4,)), graph.input("y", (4,))
    graph.set_outputs(
        [
            *(ops.maximum(x, y), ops.minimum(x, y), ops.lt(x, y), ops.ne(x, x), ops.relu(x)),
            *(ops.reduce_max(x, axes=(0,)), ops.argmax(x, axis=0), ops.softmax(x, axis=0)),
            *(ops.sign(x), ops.cast(x, to="i32"), ops.cast(x, to="u8"), ops.cast(x, to="bool")),
            *(*ops.topk(x, k=2), ops.logsumexp(x, axes=(0,))),
        ]
    )
    x_values = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    agree(graph, {"x": x_values, "y": np.array([np.nan, 2, -np.inf, np.inf], np.float32)})


def test_executables_of_one_graph_do_not_share_memory_and_have_one_text() -> None:
    graph = Graph("twice")
    graph.set_outputs([graph.input("x", (3,)) + 1.0])
    first, second = rlx.compile(graph, backend="llvm"), rlx.compile(graph, backend="llvm")
    kept = first(numbers(3))[0]
    second(numbers(3, seed=1))
    np.testing.assert_array_equal(kept, numbers(3) + 1)
    assert isinstance(first, Executable)
    assert isinstance(second, Executable)
    assert first.llvm_ir == second.llvm_ir

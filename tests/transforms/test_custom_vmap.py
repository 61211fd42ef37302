"""Functions whose batching the user states: the rule gets what is batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, RlxError, ShapeError
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.passes.vmap import vmap as batched_graph
from rlx.tracing.traced_function import Specification, trace
from rlx.transforms.custom_vmap import custom_vmap, sequential_vmap

X = np.random.default_rng(3).standard_normal((4, 3))
W = np.arange(3.0)


def recorded(rule_result: Any = None) -> tuple[Any, list[Any]]:
    """Return a function whose rule adds 100 to the result, and the arguments its rule gets."""
    calls: list[Any] = []

    @custom_vmap
    def f(x: Any, scale: Any) -> Any:
        return {"sum": rnp.sum(x["a"] * scale), "scale": scale}

    def rule(size: int, in_batched: Any, x: Any, scale: Any) -> Any:
        calls.append((size, in_batched))
        if rule_result is not None:
            return rule_result(x, scale)
        total = rnp.sum(x["a"] * scale, -1) + 100
        return {"sum": total, "scale": scale}, {"sum": True, "scale": in_batched[1]}

    f.def_vmap(rule)
    return f, calls


def test_the_rule_takes_the_place_of_batching_and_is_given_what_is_batched() -> None:
    f, calls = recorded()
    found = rlx.vmap(lambda x: f({"a": x}, W))(X)
    np.testing.assert_allclose(found["sum"], X @ W + 100)
    np.testing.assert_array_equal(found["scale"], np.broadcast_to(W, (4, 3)))
    assert calls == [(4, [{"a": True}, False])]
    np.testing.assert_allclose(f({"a": X[0]}, W)["sum"], X[0] @ W)


def test_inside_of_compiled_functions_and_loops_the_rule_is_asked_too() -> None:
    f, _ = recorded()

    def loop(x: Any) -> Any:
        return rlx.fori_loop(0, 2, lambda _, s: s + f({"a": x}, W)["sum"], 0.0)

    found = rlx.jit(rlx.vmap(loop))(X)
    np.testing.assert_allclose(found, 2 * (X @ W + 100))


def test_the_result_of_the_rule_is_batched_once_more_unchanged() -> None:
    f, calls = recorded()
    both = rlx.vmap(rlx.vmap(lambda x: f({"a": x}, W)["sum"]))
    np.testing.assert_allclose(both(np.stack([X, 2 * X])), np.stack([X @ W, 2 * X @ W]) + 100)
    assert [size for size, _ in calls] == [4]


def test_derivatives_are_those_of_the_function_and_of_the_rule() -> None:
    @custom_vmap
    def square(x: Any) -> Any:
        return x * x

    square.def_vmap(lambda _, in_batched, x: (5 * x * x, in_batched[0]))
    np.testing.assert_allclose(rlx.grad(lambda x: rnp.sum(square(x)))(W), 2 * W)
    total = rlx.grad(lambda x: rnp.sum(rlx.vmap(square)(x)))
    np.testing.assert_allclose(total(W), 10 * W)
    _, moved = rlx.jvp(rlx.vmap(square), (W,), (np.ones(3),))
    np.testing.assert_allclose(moved, 10 * W)


def test_one_example_after_the_other_is_what_vmap_gives() -> None:
    f = sequential_vmap(lambda x, w: (rnp.sum(x["a"] * w), x["b"] * w))
    tree = {"a": X, "b": X * 2}
    axes: Any = ({"a": 0, "b": None}, None)
    found = rlx.vmap(f, in_axes=axes)(tree, W)
    np.testing.assert_allclose(found[0], X @ W)
    np.testing.assert_allclose(found[1], np.broadcast_to(2 * X * W, (4, 4, 3)))
    text = str(rlx.make_graph(rlx.vmap(f, in_axes=axes))(tree, W))
    assert "scan" in text


def test_wrong_results_of_a_rule_are_reported() -> None:
    f, _ = recorded(lambda x, scale: {"sum": x["a"], "scale": scale})
    with pytest.raises(InputError, match=r"must return \(result, out_batched\)"):
        rlx.vmap(lambda x: f({"a": x}, W))(X)
    f, _ = recorded(lambda x, scale: ({"sum": x["a"], "scale": scale}, True))
    with pytest.raises(ShapeError, match=r"returns f64\[3\]; f64\[4, 3\] is due"):
        rlx.vmap(lambda x: f({"a": x}, W))(X)
    f, _ = recorded(lambda x, scale: (x["a"], True))
    with pytest.raises(InputError, match="the trees differ"):
        rlx.vmap(lambda x: f({"a": x}, W))(X)


def test_what_a_rule_cannot_be_given_is_refused() -> None:
    def captured(x: Any) -> Any:
        f = custom_vmap(lambda w: x * w)
        f.def_vmap(lambda _, in_batched, w: (w, in_batched[0]))
        return f(W)

    with pytest.raises(InputError, match="captures an array that is batched"):
        rlx.vmap(captured)(X)

    def by_rule(x: Any, w: Any) -> Any:
        f = custom_vmap(lambda x: x * 2)
        f.def_vmap(lambda _, in_batched, x: (x * w, in_batched[0]))
        return rlx.vmap(f)(x)

    with pytest.raises(InputError, match=r"the rule of .* captures a traced array"):
        rlx.jit(by_rule)(X, W)


def test_a_function_without_a_rule_is_refused() -> None:
    with pytest.raises(InputError, match="no rule yet"):
        rlx.vmap(custom_vmap(lambda x: x))(X)


def test_a_graph_from_another_process_names_the_rule_that_is_missing() -> None:
    f, _ = recorded()
    spec = [Specification("x", rlx.ir.types.TensorType(rlx.ir.dtype.DType.F64, (3,)))]
    graph = trace(lambda arrays: f({"a": arrays[0]}, W)["sum"], "f", spec).graph
    text = format_graph(graph).replace('"f_', '"other_f_')
    with pytest.raises(RlxError, match=r"'other_f_.* is not known in this process"):
        batched_graph(parse_graph(text), [0], [0], size=4)

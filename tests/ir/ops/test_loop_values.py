"""Loops, branches and custom derivatives: known values.

Each case is a graph with its operands and the results to 10 digits; it holds in the reference
and in both backends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss, jvp
from rlx.passes.vmap import vmap
from rlx.runtime.compile import compile as compile_graph
from tests.loop_programs import Array, Types, everywhere, f64, graph_of

ONE = {"d_output": f64(1.0)}


def tridiagonal(size: int, step: float) -> Array:
    matrix: Array = np.diag(np.full(size, 1 + 2 * step))
    return matrix - step * (np.eye(size, k=1) + np.eye(size, k=-1))


def body(formula: Callable[..., Value], *shapes: tuple[int, ...], dtype: str = "f64") -> Graph:
    return graph_of("step", {f"x{i}": (s, dtype) for i, s in enumerate(shapes)}, formula)


def solving(size: int, step: float, *, rows: bool = False) -> Graph:
    """One step of the heat equation, with or without a source."""

    def formula(c: Value, *x: Value) -> Value:
        matrix = c.graph.constant(tridiagonal(size, step))
        return ops.solve(matrix, c + x[0] if x else c, vector=True)

    return body(formula, *[(size,)] * (1 + rows))


def final(step: Graph, length: int, *, loss: bool = False, **options: Any) -> Graph:
    """Return the last carry of a scan, or the sum of its elements."""
    types: Types = {"c": (step.inputs[0].type.static_shape, "f64")}
    if len(step.inputs) > 1:
        types["xs"] = ((length, *step.inputs[1].type.static_shape), "f64")

    def formula(*given: Value) -> Value:
        last: Value = ops.scan(*given, body=step, length=length, num_carries=1, **options)[0]
        return ops.reduce_sum(last, axes=(0,)) if loss else last

    return graph_of("final", types, formula)


@dataclass(frozen=True)
class Fact:
    graph: Graph
    feeds: dict[str, Any]
    expected: list[Any]
    rtol: float = 1e-10


def gradient(step: Graph, length: int, *names: str, **options: Any) -> Graph:
    return grad_with_loss(final(step, length, loss=True, **options), list(names))


GROWING = body(lambda c: c + c * 0.1, (3,))
SCALED = body(lambda c: c * 1.1, (3,))
GROWN_BY_TWENTIETH = body(lambda c: c * 1.05, (2,))
ADDING = body(lambda c, x: c + x, (3,), (3,))
IMPULSE = np.zeros((4, 3))
IMPULSE[0, 0] = 1
RISING = 0.1 * (np.arange(9.0).reshape(3, 3) - 4)
HEAT = [0.0414939542, 0.9128669917, 0.0415798630, 0.0018899938]
HEAT_SUMS = [0.9978308026, 0.9937841437, 0.9881172289, 0.9810567449, 0.9728024057]
UNIT = f64(0, 1, 0, 0)

SCANS: dict[str, Callable[[], Fact]] = {
    "geometric": lambda: Fact(final(GROWING, 10), {"c": np.ones(3)}, [[1.1**10] * 3]),
    "cumulative sum": lambda: Fact(
        final(ADDING, 4),
        {"c": np.zeros(3), "xs": np.arange(1.0, 13.0).reshape(4, 3)},
        [[22, 26, 30]],
    ),
    "driven backward Euler": lambda: Fact(
        final(solving(3, 0.1, rows=True), 4),
        {"c": np.zeros(3), "xs": IMPULSE},
        [[0.5174266432, 0.1723616789, 0.0351735567]],
        1e-9,
    ),
    "heat": lambda: Fact(
        final(solving(4, 0.05), 5),
        {"c": UNIT},
        [[0.1452774065, 0.6603510388, 0.1473645835, 0.0198093769]],
        1e-9,
    ),
    "gradient of geometric": lambda: Fact(
        gradient(SCALED, 5, "c"), {"c": np.ones(3)} | ONE, [3 * 1.61051, [1.61051] * 3]
    ),
    "gradient of heat": lambda: Fact(
        gradient(solving(4, 0.05), 3, "c"),
        {"c": UNIT} | ONE,
        [0.9881172289, [0.8747789334, 0.9881172289, 0.9881172289, 0.8747789334]],
    ),
    "gradient with xs": lambda: Fact(
        gradient(solving(3, 0.1, rows=True), 3, "c", "xs"),
        {"c": f64(0.5, 0, -0.5), "xs": RISING} | ONE,
        [
            0.0973985153,
            [0.7802218987, 0.9317958934, 0.7802218987],
            [
                [0.7802218987, 0.9317958934, 0.7802218987],
                [0.8430866891, 0.9621106923, 0.8430866891],
                [0.9154929577, 0.9859154930, 0.9154929577],
            ],
        ],
        1e-9,
    ),
    "gradient with xs by the carry alone": lambda: Fact(
        gradient(solving(3, 0.1, rows=True), 3, "c"),
        {"c": f64(0.5, 0, -0.5), "xs": RISING} | ONE,
        [0.0973985153, [0.7802218987, 0.9317958934, 0.7802218987]],
        1e-9,
    ),
    "checkpointed gradient": lambda: Fact(
        gradient(GROWN_BY_TWENTIETH, 6, "c", checkpoints=2),
        {"c": f64(0.5, -0.5)} | ONE,
        [0.0, [1.34009564] * 2],
        1e-8,
    ),
    "batch": lambda: Fact(
        vmap(final(body(lambda c, x: c + x, (2,), (2,)), 4), [0, 0], size=3),
        {
            "c": np.arange(1.0, 7.0).reshape(3, 2),
            "xs": 0.1 * np.arange(24.0).reshape(3, 4, 2),
        },
        [[[2.2, 3.6], [7.4, 8.8], [12.6, 14.0]]],
    ),
    "batch of gradients": lambda: Fact(
        vmap(gradient(body(lambda c: c + 1.0, (2,)), 3, "c"), {"c": 0}, size=3),
        {"c": 0.5 * np.arange(6.0).reshape(3, 2)} | ONE,
        [[6.5, 8.5, 10.5], np.ones((3, 2))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCANS)
def test_a_fact_of_scans_holds_everywhere(name: str) -> None:
    fact = SCANS[name]()
    found = everywhere(fact.graph, fact.feeds)
    for array, expected in zip(found, fact.expected, strict=True):
        np.testing.assert_allclose(array, expected, rtol=fact.rtol, atol=1e-10)


def test_the_heat_flows_off_step_by_step() -> None:
    def formula(c: Value) -> list[Value]:
        kept = ops.scan_trajectory(c, body=solving(4, 0.05), length=5)
        return [kept, ops.scan(c, body=solving(4, 0.05), length=5, num_carries=1)[0]]

    kept, last = everywhere(graph_of("heat", {"c": ((4,), "f64")}, formula), {"c": UNIT})
    np.testing.assert_allclose(kept[0], HEAT, atol=1e-10)
    np.testing.assert_allclose(kept.sum(axis=1), HEAT_SUMS, rtol=1e-9)
    np.testing.assert_allclose(kept[-1], last, rtol=1e-15)


def test_a_checkpointed_scan_has_the_same_loss_and_gradient() -> None:
    feeds = {"c": f64(0.5, -0.5)} | ONE
    plain = evaluate(gradient(GROWN_BY_TWENTIETH, 6, "c"), feeds)
    again = evaluate(gradient(GROWN_BY_TWENTIETH, 6, "c", checkpoints=2), feeds)
    for one, other in zip(plain, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("checkpoints", [None, 1])
def test_scans_of_no_step_and_of_one(length: int, checkpoints: int | None) -> None:
    graph = gradient(SCALED, length, "c", checkpoints=checkpoints)
    total, dc = everywhere(graph, {"c": np.ones(3)} | ONE)
    np.testing.assert_allclose([total / 3, *dc], 1.1**length)


# Branches and loops


def test_gradients_go_through_a_branch_and_a_loop() -> None:
    types: Types = {"x": ((2,), "f64")}
    square = graph_of("square", types, lambda x: x * x)
    rectified = graph_of("rectified", types, lambda x: ops.relu(x))
    condition = graph_of("nonzero", types, lambda c: c)

    def loss(p: Value, x: Value) -> Value:
        (taken,) = ops.switch(p, x, branches=(rectified, square))
        last, _ = ops.while_loop(taken, condition=condition, body=square, max_trips=2)
        return ops.reduce_sum(last, axes=(0,))

    graph = grad_with_loss(graph_of("loss", {"p": ((), "bool")} | types, loss), ["x"])
    feeds = {"p": np.bool_(True), "x": f64(1.5, -0.5)} | ONE
    total, dx = everywhere(graph, feeds)
    np.testing.assert_allclose(total, 1.5**8 + 0.5**8)
    np.testing.assert_allclose(dx, [8 * 1.5**7, -8 * 0.5**7])


def counted(formula: Any, condition: Any, starts: dict[str, float], most: int | None) -> list[Any]:
    """Run a while loop over f64 scalars; return its carries and trips."""
    types: Types = dict.fromkeys(starts, ((), "f64"))
    graph = graph_of(
        "counted",
        types,
        lambda *c: ops.while_loop(
            *c,
            condition=graph_of("condition", types, condition),
            body=graph_of("trip", types, formula),
            max_trips=most,
        ),
    )
    return [float(x) for x in everywhere(graph, {k: f64(v) for k, v in starts.items()})]


def test_carries_of_a_loop_move_at_once() -> None:
    def always(a: Value, _: Value) -> Value:
        return ops.eq(a, a)

    assert counted(lambda a, b: [b, a + b], always, {"a": 0, "b": 1}, 10) == [55, 89, 10]
    assert counted(lambda a, b: [b, a], always, {"a": 1, "b": 2}, 3) == [2, 1, 3]


@pytest.mark.parametrize(
    ("value", "holds"), [(0.5, True), (np.nan, True), (-0.0, False), (0.0, False)]
)
def test_a_condition_holds_where_it_is_not_zero(value: float, holds: bool) -> None:
    _, trips = counted(lambda c: c, lambda c: c, {"c": value}, 3)
    assert trips == (3 if holds else 0)


# Params in bodies


def with_params(graph: Graph, feeds: dict[str, Any], params: dict[str, Any]) -> list[Any]:
    """Return the reference's results, which are also those of LLVM."""
    expected = evaluate(graph, feeds | params)
    compiled = compile_graph(graph, backend="llvm", threads=1, params=params)
    for found, wanted in zip(compiled.run(feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    return expected


def test_params_of_a_body_become_consts_in_the_order_of_first_use() -> None:
    def step(c: Value, x: Value) -> Value:
        late, early = c.graph.param("late", (), "f64"), c.graph.param("early", (), "f64")
        return ops.sin(c * early) + x * late * early

    inner = graph_of("step", {"c": ((), "f64"), "x": ((), "f64")}, step)
    graph = graph_of(
        "outer",
        {"c": ((), "f64"), "xs": ((3,), "f64")},
        lambda c, xs: ops.scan(c, xs, body=inner, length=3, num_carries=1),
    )
    assert [value.node.name for value in graph.params] == ["early", "late"]
    feeds, params = {"c": f64(0.3), "xs": f64(1, 2, 3)}, {"early": f64(0.7), "late": f64(-0.2)}
    expected = 0.3
    for x in (1, 2, 3):
        expected = np.sin(expected * 0.7) + x * -0.2 * 0.7
    np.testing.assert_allclose(with_params(graph, feeds, params), [expected])
    _, slope = with_params(grad_with_loss(graph, ["late"]), feeds | ONE, params)
    ends = [evaluate(graph, feeds | params | {"late": f64(-0.2 + h)})[0] for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-7)


def test_params_of_one_name_are_one_param_at_any_depth() -> None:
    def scaled(x: Value) -> Value:
        return x * x.graph.param("w", (), "f64")

    types: Types = {"x": ((), "f64")}
    below = graph_of("below", types, lambda x: ops.lt(x, scaled(x.graph.constant(9.0, "f64"))))
    trip = graph_of("trip", types, lambda x: scaled(x))

    def branch(x: Value) -> Value:
        last: Value = ops.while_loop(x, condition=below, body=trip, max_trips=9)[0]
        return last

    branches = (graph_of("looping", types, branch), graph_of("once", types, scaled))
    graph = graph_of(
        "outer",
        {"s": ((), "bool")} | types,
        lambda s, x: [*ops.switch(s, scaled(x), branches=branches)],
    )
    assert [value.node.name for value in graph.params] == ["w"]
    feeds, params = {"s": np.bool_(False), "x": f64(1.0)}, {"w": f64(2.0)}
    assert with_params(graph, feeds, params) == [32]
    assert with_params(graph, feeds | {"s": np.bool_(True)}, params) == [4]
    inlined = graph_of("call", types, lambda x: ops.custom_call(x, body=trip))
    assert with_params(inlined, {"x": f64(3.0)}, params) == [6]


def trained(dtype: str = "f64") -> Graph:
    return graph_of("trained", {"x": ((), "f64")}, lambda x: x * x.graph.param("w", (), dtype))


def test_a_function_with_derivatives_of_its_own_reads_no_params() -> None:
    types: Types = dict.fromkeys(("x", "y", "d"), ((), "f64"))
    pullback = graph_of("pullback", types, lambda *given: given[2])
    with pytest.raises(GraphError, match="'trained' has param 'w', of which 'pullback'"):
        graph_of(
            "call",
            {"x": ((), "f64")},
            lambda x: ops.custom_call(x, body=trained(), vjp_body=pullback),
        )


def test_a_param_has_one_type_and_is_no_input() -> None:
    def scanned(x: Value) -> Any:
        return ops.scan(x, body=trained(), length=2, num_carries=1)

    graph = Graph("outer")
    graph.param("w", (2,), "f64")
    with pytest.raises(
        GraphError, match=r"'w' has type f64\[\] in body 'trained' and type f64\[2\]"
    ):
        scanned(graph.input("x", (), "f64"))
    graph = Graph("outer")
    graph.input("w", (), "f64")
    with pytest.raises(GraphError, match="reads param 'w', which is an input"):
        scanned(graph.input("x", (), "f64"))


# Functions with derivatives of their own


def test_a_stated_pullback_is_in_the_gradient_and_its_function_is_not_differentiated() -> None:
    types: Types = {"x": ((), "f32")}
    square = graph_of("square", types, lambda x: x * x)
    given: Types = dict.fromkeys(("x", "y", "d"), ((), "f32"))
    pullback = graph_of("pullback", given, lambda *given: ops.sin(given[2]))
    stated = graph_of("call", types, lambda x: ops.custom_call(x, body=square, vjp_body=pullback))
    plain = graph_of("call", types, lambda x: ops.custom_call(x, body=square))
    names = [node.op.name for node in grad_with_loss(stated, ["x"]).nodes]
    assert "sin" in names
    feeds = {"x": np.float32(3), "d_output": np.float32(1)}
    assert everywhere(grad_with_loss(plain, ["x"]), feeds)[1] == 6


def test_a_function_in_either_mode_alone_serves_the_other_by_its_body() -> None:
    types: Types = {"x": ((), "f32")}
    identity = graph_of("identity", types, lambda x: x)
    given: Types = dict.fromkeys(("x", "y", "d"), ((), "f32"))
    twice = graph_of("twice", given, lambda *given: given[2] * 2.0)
    graph = graph_of("call", types, lambda x: ops.custom_call(x, body=identity, vjp_body=twice))
    feeds = {"x": np.float32(7), "tangent_x": np.float32(1)}
    assert [float(x) for x in everywhere(jvp(graph, ["x"]), feeds)] == [7, 1]


def test_loops_nest_in_functions_in_loops() -> None:
    """A branch in a scan in a custom function in a scan, in f32, and its gradient."""
    scalar: Types = {"c": ((), "f32")}
    up = graph_of("up", scalar, lambda c: ops.sin(c) + 1.0)
    down = graph_of("down", scalar, lambda c: c * 0.5)
    inner = graph_of("inner", scalar, lambda c: ops.switch(ops.lt(c, 0.8), c, branches=(down, up)))
    called = graph_of("called", scalar, lambda c: ops.scan(c, body=inner, length=3, num_carries=1))
    outer = graph_of("outer", scalar, lambda c: ops.custom_call(c, body=called))
    graph = graph_of("all", scalar, lambda c: ops.scan(c, body=outer, length=2, num_carries=1))

    def value(c: float) -> float:
        for _ in range(6):
            c = np.sin(c) + 1 if c < 0.8 else c * 0.5
        return c

    feeds = {"c": np.float32(0.3), "d_output": np.float32(1)}
    last, slope = everywhere(grad_with_loss(graph, ["c"]), feeds, rtol=1e-6)
    np.testing.assert_allclose(last, value(0.3), rtol=1e-6)
    np.testing.assert_allclose(slope, (value(0.3 + 1e-5) - value(0.3 - 1e-5)) / 2e-5, rtol=1e-4)

"""Simplification: what it rewrites, and what it must leave for NaN, infinity and -0.0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.simplify import simplify
from rlx.passes.rewrites.simplify_arithmetic import is_lossless
from tests.passes.text import assert_becomes, assert_unchanged

_SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e-45, -3e38, np.inf, -np.inf, np.nan]


X = '%0: f32[2, 3] = input "x"'
SHRINKS = {
    "neg of neg": ("%1: f32[2, 3] = neg %0\n%2: f32[2, 3] = neg %1", None),
    "transposes": (
        "%1: f32[3, 2] = transpose %0 {perm = (1, 0)}\n"
        "%2: f32[2, 3] = transpose %1 {perm = (1, 0)}",
        None,
    ),
    "reshapes": (
        "%1: f32[6] = reshape %0 {shape = (6,)}\n%2: f32[3, 2] = reshape %1 {shape = (3, 2)}",
        "f32[3, 2] = reshape %0 {shape = (3, 2)}",
    ),
    "a transpose of unit axes": (
        "%1: f32[1, 2, 3] = reshape %0 {shape = (1, 2, 3)}\n"
        "%2: f32[2, 1, 3] = transpose %1 {perm = (1, 0, 2)}",
        "f32[2, 1, 3] = reshape %0 {shape = (2, 1, 3)}",
    ),
    "a narrow of all": ("%1: f32[2, 3] = narrow %0 {axis = 1, start = 0, length = 3}", None),
    "narrows": (
        "%1: f32[2, 2] = narrow %0 {axis = 1, start = 1, length = 2}\n"
        "%2: f32[2, 1] = narrow %1 {axis = 1, start = 1, length = 1}",
        "f32[2, 1] = narrow %0 {axis = 1, start = 2, length = 1}",
    ),
    "concat of one": ("%1: f32[2, 3] = concat %0 {axis = 0}", None),
    "a part of a concat": (
        "%1: f32[4, 3] = concat %0, %0 {axis = 0}\n"
        "%2: f32[2, 3] = narrow %1 {axis = 0, start = 2, length = 2}",
        None,
    ),
    "a lossless cast there and back": (
        "%1: f64[2, 3] = cast %0 {to = f64}\n%2: f32[2, 3] = cast %1 {to = f32}",
        None,
    ),
}
"""Nodes after the input `X`, and the one node or the input that is left of them."""


@pytest.mark.parametrize("name", SHRINKS)
def test_chains_shrink_to_one_node_or_none(name: str) -> None:
    before, result = SHRINKS[name]
    last = before.splitlines()[-1].split(":")[0]
    after = f"%1: {result}\nreturn %1" if result else "return %0"
    assert_becomes(simplify, f"{X}\n{before}\nreturn {last}", f"{X}\n{after}")


def test_a_cast_that_loses_something_stays() -> None:
    casts = "%1: f16[2, 3] = cast %0 {to = f16}\n%2: f32[2, 3] = cast %1 {to = f32}"
    assert_unchanged(simplify, f"{X}\n{casts}\nreturn %2")


@pytest.mark.parametrize("middle", ["f64", "f32"])
def test_an_integer_keeps_its_detour_through_floats_on_the_way_to_another(middle: str) -> None:
    graph = Graph("detour")
    x = graph.input("x", (1,), "i8")
    graph.set_outputs([ops.cast(ops.cast(x, to=middle), to="u8")])
    assert simplify(graph) is graph


def test_lossless_casts_are_exactly_those_that_come_back() -> None:
    for source in (DType.I8, DType.U8, DType.I16):
        bounds = np.iinfo(source.numpy)
        every = np.arange(bounds.min, bounds.max + 1).astype(source.numpy)
        for target in DType:
            if target.is_complex or target is DType.BOOL:
                continue
            with np.errstate(all="ignore"):
                wide = every.astype(target.numpy)
                equal = bool((wide.astype(np.float64) == every.astype(np.float64)).all())
            assert is_lossless(source, target) == equal, (source, target)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x + 0.0,
        lambda x: x + -0.0,
        lambda x: x - 0.0,
        lambda x: x - -0.0,
        lambda x: x * 1.0,
        lambda x: x * 0.0,
        lambda x: x * -1.0,
        lambda x: x / 8.0,
        lambda x: x / 3.0,
        lambda x: x / 0.0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: ops.pow(x, 0.0),
        lambda x: ops.pow(x, 1.0),
        lambda x: ops.pow(x, 2.0),
        lambda x: ops.pow(x, -1.0),
        lambda x: ops.pow(x, 0.5),
        lambda x: ops.pow(ops.abs(x), 0.5),
        lambda x: ops.add(x, ops.neg(x)),
        lambda x: ops.abs(ops.neg(x)),
        lambda x: ops.relu(ops.relu(x)),
        lambda x: ops.where(ops.eq(x, x), x, x),
    ],
)
def test_special_values_come_out_bit_for_bit(build: Callable[[Value], Value]) -> None:
    graph = Graph("special")
    x = graph.input("x", (len(_SPECIAL),))
    graph.set_outputs([build(x)])
    feeds = {"x": np.array(_SPECIAL, np.float32)}
    (wanted,), (got,) = evaluate(graph, feeds), evaluate(simplify(graph), feeds)
    np.testing.assert_array_equal(got, wanted)
    both = ~np.isnan(wanted)
    assert (np.signbit(got) == np.signbit(wanted))[both].all()


@pytest.mark.parametrize(
    ("build", "dtype", "left"),
    [
        (lambda x: x + 0, "i32", "input"),
        (lambda x: x + -0.0, "f32", "input"),
        (lambda x: x + 0.0, "f32", "add"),
        (lambda x: x * 0, "i64", "expand"),
        (lambda x: x * 0.0, "f32", "mul"),
        (lambda x: x - x, "i8", "expand"),
        (lambda x: x - x, "f32", "sub"),
        (lambda x: x / 8.0, "f32", "mul"),
        (lambda x: x / 3.0, "f32", "div"),
        (lambda x: x / 2, "i32", "div"),
    ],
)
def test_arithmetic_on_constants_is_rewritten_where_no_bit_changes(
    build: Callable[[Value], Value], dtype: str, left: str
) -> None:
    graph = Graph("scalar")
    graph.set_outputs([build(graph.input("x", (4,), dtype))])
    assert simplify(graph).outputs[0].op.name == left


@pytest.mark.parametrize(
    ("limit", "high", "low", "is_free"),
    [("i8", 127, -128, True), ("i8", 126, -127, False), ("u8", 300, -0.0, True)],
)
def test_casts_that_saturate_need_no_limits(
    limit: str, high: float, low: float, is_free: bool
) -> None:
    graph = Graph("limited")
    x = graph.input("x", (len(_SPECIAL) + 4,), "f32")
    inside = graph.minimum(graph.maximum(x, low), high)
    graph.set_outputs([graph.cast(inside, to=limit, rounding=r) for r in ("trunc", "away")])
    found = simplify(graph)
    assert is_free is not any(node.op in (ops.minimum, ops.maximum) for node in found.nodes)
    given = {"x": np.array([*_SPECIAL, 126.5, 127.4, -128.6, 255.5], np.float32)}
    for made, expected in zip(evaluate(found, given), evaluate(graph, given), strict=True):
        np.testing.assert_array_equal(made, expected)


def test_a_rule_that_would_drop_a_broadcast_does_not_fire() -> None:
    graph = Graph("broadcast")
    x = graph.input("x", (3,))
    ones = graph.constant(np.ones((2, 3), np.float32))
    graph.set_outputs([ops.mul(x, ones)])
    assert simplify(graph) is graph


def test_an_expanded_operand_is_broadcast_by_the_op_itself() -> None:
    assert_becomes(
        simplify,
        """
          %0: f32[2, 3] = input "x"
          %1: f32[3] = input "row"
          %2: f32[2, 3] = expand %1 {shape = (2, 3)}
          %3: f32[2, 3] = add %0, %2
          return %3
        """,
        """
          %0: f32[2, 3] = input "x"
          %1: f32[3] = input "row"
          %2: f32[2, 3] = add %0, %1
          return %2
        """,
    )


def test_names_scopes_and_dead_leaves_stay() -> None:
    graph = Graph("named")
    x, unused = graph.input("x", (4,)), graph.param("unused", (2,))
    with graph.scope("block"):
        halved = graph.append(ops.div, (x, graph.constant(2.0)), ops.div.attrs(), name="half")[0]
    graph.set_outputs([halved])
    after = simplify(graph)
    node = after.outputs[0].node
    assert (node.op, node.name, node.scope) == (ops.mul, "half", "block")
    assert node.source == halved.node.source
    assert after.params[0].node.name == unused.node.name


def test_a_body_of_control_flow_is_simplified_too() -> None:
    body = Graph("body")
    y = body.input("y", (4,))
    body.set_outputs([ops.neg(ops.neg(ops.exp(y)))])
    graph = Graph("outer")
    graph.set_outputs(ops.checkpoint(graph.input("x", (4,)), body=body))
    inner = simplify(graph).outputs[0].node.attribute("body")
    assert [node.op.name for node in inner.nodes] == ["input", "exp"]


@pytest.mark.parametrize(
    "node",
    [
        "f32[9, 1, 1] = cholesky %0 {}",
        "f32[9, 1, 1] = triangular_solve %0, %1 {}",
        "f32[9, 1, 1] = triangular_solve %0, %1 {left = false, }",
        "f32[9, 1, 1] = triangular_solve %0, %1 {unit_diagonal = true, }",
        "f32[9, 1, 1] = solve %0, %1 {vector = false, }",
        "f32[9, 1] = solve %0, %2 {vector = true, }",
    ],
)
def test_systems_of_one_unknown_are_elementwise(node: str) -> None:
    graph = parse_graph(
        f"""graph @case {{
        %0: f32[9, 1, 1] = input "a"
        %1: f32[9, 1, 1] = input "b"
        %2: f32[9, 1] = input "v"
        %3: {node.replace("}", 'on_singular = "nan"}')}
        return %3
        }}"""
    )
    done = simplify(graph)
    assert not {n.op for n in done.nodes} & {ops.cholesky, ops.triangular_solve, ops.solve}
    a = np.array(_SPECIAL, np.float32).reshape(9, 1, 1)
    b = np.linspace(-2, 3, 9, dtype=np.float32)
    given = {"a": a, "b": b.reshape(9, 1, 1), "v": b.reshape(9, 1)}
    with np.errstate(all="ignore"):
        before, after = (evaluate(each, given)[0] for each in (graph, done))
    np.testing.assert_array_equal(before, after)

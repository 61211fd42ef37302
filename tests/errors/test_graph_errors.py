"""One small wrong program per message of the graph layer."""
# ruff: noqa: ARG005 (all programs have the same two parameters)

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx import blocks
from rlx.errors import DTypeError, GraphError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim

Build = Callable[[Graph, Value], Any]


def other_value() -> Value:
    return Graph("other").input("y", (2, 3))


def twice(graph: Graph, x: Value) -> None:
    graph.set_outputs([x], donated={x: x})
    graph.param("w", (2, 3))
    graph.donate("w", 0)


def some_biases(graph: Graph, x: Value) -> None:
    square = graph.param("w", (3, 3))
    weights = blocks.AttentionWeights(
        square, square, square, square, query_bias=graph.param("b", (3,))
    )
    blocks.multi_head_attention(x, weights, num_heads=1)


def uneven_heads(graph: Graph, x: Value) -> None:
    square = graph.param("w", (3, 3))
    weights = blocks.AttentionWeights(square, square, square, square)
    blocks.multi_head_attention(x, weights, num_heads=2)


WRONG_PROGRAMS: list[tuple[type[RlxError], str, Build]] = [
    (GraphError, "input: graph 'g' already has an input or param named 'x'",
     lambda g, x: g.input("x", (2,))),
    (GraphError, "param: the name is empty", lambda g, x: g.param("", (2,))),
    (ShapeError, "input: 'y' has extent -1 on axis 1; extents are nonnegative integers or Dims",
     lambda g, x: g.input("y", (2, -1))),
    (ShapeError, "input: 'y' has extent True on axis 0", lambda g, x: g.input("y", (True,))),
    (DTypeError, "constant: constant 300 does not fit i8", lambda g, x: g.constant(300, "i8")),
    (DTypeError, "constant: constant [[1], [2, 3]] is not an array of numbers",
     lambda g, x: g.constant([[1], [2, 3]])),
    (DTypeError, "constant: unknown dtype dtype('<U2')", lambda g, x: g.constant("hi")),
    (GraphError, "softmax: needs attribute 'axis'", lambda g, x: ops.softmax(x)),
    (GraphError, "softmax: has no attribute 'axes' (has: axis)",
     lambda g, x: ops.softmax(x, axes=1)),
    (GraphError, "softmax: attribute axis is 1.5; it must be int",
     lambda g, x: ops.softmax(x, axis=1.5)),
    (GraphError, "softmax: attribute axis is True; it must be int",
     lambda g, x: ops.softmax(x, axis=True)),
    (GraphError, "transpose: attribute perm is ('a',); it must be tuple[int, ...]",
     lambda g, x: ops.transpose(x, perm=("a",))),
    (GraphError, "cast: attribute to is 'f8'; it must be DType (f16, bf16, f32",
     lambda g, x: ops.cast(x, to="f8")),
    (ShapeError, "softmax: axis 2 is out of range for rank 2", lambda g, x: g.softmax(x, axis=2)),
    (ShapeError, "add: shapes (2, 3) and (4,) do not broadcast: extents 3 and 4 differ on axis -1",
     lambda g, x: x + g.input("y", (4,))),
    (GraphError, "matmul: takes 2 operands and was given 1", lambda g, x: ops.matmul(x)),
    (GraphError, "add: operand 'a' is a str; operands are values of this graph, numbers or arrays",
     lambda g, x: ops.add(x, "a")),  # type: ignore[arg-type]  # the fault
    (GraphError, "add: operand %0 belongs to graph 'other', not to 'g'",
     lambda g, x: x + other_value()),
    (GraphError, "add: no operand is a Value", lambda g, x: ops.add(1, 2)),
    (GraphError, "%0 has no truth value while the graph is built", lambda g, x: bool(x)),
    (GraphError, "graph 'g' has no input or param 'y' (has: x)", lambda g, x: g.leaf("y")),
    (GraphError, "output %0 belongs to graph 'other', not to 'g'",
     lambda g, x: g.set_outputs([other_value()])),
    (GraphError, "donated value %1 is not an output",
     lambda g, x: g.set_outputs([x], donated={x: g.tanh(x)})),
    (GraphError, "%1 (tanh) cannot be replaced in place",
     lambda g, x: g.set_outputs([x], donated={g.tanh(x): x})),
    (GraphError, "output %1 of type f32[3, 2] cannot replace 'x' of type f32[2, 3]",
     lambda g, x: g.set_outputs([y := g.transpose(x, perm=(1, 0))], donated={x: y})),
    (GraphError, "output %0 replaces two leaves, the second is 'w'", twice),
    (GraphError, "body 'other' takes 1 inputs and was given 0",
     lambda g, x: g.inline(other_value().graph, [])),
    (ShapeError, "'f32' cannot name an extent", lambda g, x: Dim("f32")),
    (ShapeError, "extent n has bounds 3..2; they must satisfy 0 <= min <= max",
     lambda g, x: Dim("n", min=3, max=2)),
    (ShapeError, "linear: weight has shape (4, 5); it must be (3, any)",
     lambda g, x: blocks.linear(x, g.param("w", (4, 5)))),
    (ShapeError, "linear: bias has shape (4,); it must be (5)",
     lambda g, x: blocks.linear(x, g.param("w", (3, 5)), g.param("b", (4,)))),
    (GraphError, "linear: 'tan h' is not an activation",
     lambda g, x: blocks.linear(x, g.param("w", (3, 5)), activation="tan h")),
    (GraphError, "linear: 'add' is not an activation",
     lambda g, x: blocks.linear(x, g.param("w", (3, 5)), activation="add")),
    (ShapeError, "swiglu_ffn: gate has shape (3, 5); it must be (3, 4)",
     lambda g, x: blocks.swiglu_ffn(x, g.param("u", (3, 4)), g.param("v", (3, 5)), x)),
    (ShapeError, "residual_layer_norm: residual has shape (3,); it must be (2, 3)",
     lambda g, x: blocks.residual_layer_norm(x, g.param("r", (3,)), x, x, eps=1e-5)),
    (ShapeError, "depthwise_conv1d_causal: x has shape (2, 3); its rank must be 3",
     lambda g, x: blocks.depthwise_conv1d_causal(x, x, x)),
    (GraphError, "multi_head_attention: key_bias, value_bias, output_bias missing: "
     "either all biases are given or none", some_biases),
    (ShapeError, "multi_head_attention: width 3 does not divide into 2 heads", uneven_heads),
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "message", "program"), WRONG_PROGRAMS, ids=[entry[1] for entry in WRONG_PROGRAMS]
)
def test_a_wrong_program_says_what_is_wrong(
    kind: type[RlxError], message: str, program: Build
) -> None:
    graph = Graph("g")
    x = graph.input("x", (2, 3))
    with pytest.raises(kind) as caught:
        program(graph, x)
    assert caught.value.message.startswith(message)


def test_an_error_shows_message_source_and_remedy_in_this_order() -> None:
    graph = Graph("g")
    graph.input("x", (2,))
    with pytest.raises(GraphError) as caught:
        graph.input("x", (2,))
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]  # CPython has frames
    function = "test_an_error_shows_message_source_and_remedy_in_this_order"
    assert str(caught.value).splitlines() == [
        "input: graph 'g' already has an input or param named 'x'",
        f"  at {__file__}:{line} in {function}",
        "  names of inputs and params are unique in a graph",
    ]


def test_an_error_inside_a_composite_names_it_and_the_users_line() -> None:
    graph = Graph("g")
    with pytest.raises(DTypeError) as caught:
        graph.gelu(graph.input("i", (2,), "i32"))
    assert caught.value.message.startswith("gelu: ")
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_an_error_inside_a_block_names_it_and_the_users_line() -> None:
    graph = Graph("g")
    with pytest.raises(ShapeError) as caught:
        blocks.feed_forward(
            graph.input("x", (2, 3)), graph.param("u", (3, 4)), graph.param("d", (3, 3))
        )
    assert caught.value.message.startswith("feed_forward: linear: weight has shape (3, 3)")
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_errors_are_also_the_builtins_that_a_user_would_catch() -> None:
    graph = Graph("g")
    x = graph.input("x", (2, 3))
    with pytest.raises(ValueError, match="do not broadcast"):
        _ = x + np.ones(4, np.float32)
    with pytest.raises(TypeError, match="constant"):
        graph.constant("text")

"""What ops refuse, and in which words: the op, both values and the rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from rlx.errors import DTypeError, RlxError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value

Build = Callable[[Graph, Callable[..., Value]], object]

_HEADS: dict[str, Any] = {"num_heads": 2, "head_dim": 4}

_REFUSALS: list[tuple[str, type[RlxError], str, Build]] = [
    ("float-only", DTypeError, "tanh: operand has dtype i32; it must be one of: float",
     lambda g, t: g.tanh(t(3, dtype="i32"))),
    ("composite", DTypeError, "gelu: operand has dtype i32; it must be one of: float",
     lambda g, t: g.gelu(t(3, dtype="i32"))),
    ("bool-arithmetic", DTypeError, "add: operand has dtype bool",
     lambda g, t: g.add(t(3, dtype="bool"), t(3, dtype="bool"))),
    ("broadcast", ShapeError, "mul: shapes (2, 3) and (4,) do not broadcast",
     lambda g, t: g.mul(t(2, 3), t(4))),
    ("complex-cast", DTypeError, "cast: c64 does not convert to i32",
     lambda g, t: g.cast(t(3, dtype="c64"), to="i32")),
    ("rounding", DTypeError, "rounding is 'up'; it must be 'trunc' or 'away'",
     lambda g, t: g.cast(t(3), to="i32", rounding="up")),
    ("index-dtype", DTypeError, "gather: indices has dtype f64; it must be one of: i32, i64, f32",
     lambda g, t: g.gather(t(3), t(2, dtype="f64"))),
    ("scatter-shape", ShapeError,
     "scatter_add: updates has shape (2, 3); it must begin with the shape of indices, (3,)",
     lambda g, t: g.scatter_add(t(2, 3), t(3, dtype="i32"), size=4)),
    ("starts", ShapeError, "dynamic_slice: starts has shape (1,); it must be (2,)",
     lambda g, t: g.dynamic_slice(t(3, 4), t(1, dtype="i32"), sizes=(1, 1))),
    ("block", ShapeError, "dynamic_slice: block of shape (4, 1) does not fit into (3, 4)",
     lambda g, t: g.dynamic_slice(t(3, 4), t(2, dtype="i32"), sizes=(4, 1))),
    ("gamma", ShapeError, "layer_norm: gamma has shape (3,); it must be (4,)",
     lambda g, t: g.layer_norm(t(3, 4), t(3), t(4), axis=-1, eps=1e-5)),
    ("empty-norm", ShapeError, "rms_norm: axis -1 of shape (3, 0) is empty",
     lambda g, t: g.rms_norm(t(3, 0), t(0), axis=-1, eps=1e-5)),
    ("labels", ShapeError, "labels has shape (4,); it must be (3,)",
     lambda g, t: g.softmax_cross_entropy_with_logits(t(3, 5), t(4, dtype="i32"))),
    ("contracting", ShapeError, "contracting axes (1,) of a, (3, 4), and (0,) of b, (5, 6)",
     lambda g, t: g.dot_general(t(3, 4), t(5, 6), lhs_contracting=(1,), rhs_contracting=(0,))),
    ("repeated-axis", ShapeError, "must be distinct and in [0, 2)",
     lambda g, t: g.dot_general(t(3, 3), t(3, 3), lhs_contracting=(1, 1), rhs_contracting=(0, 1))),
    ("mask-kind", ShapeError, "attention: mask_kind is 'triangle'; it must be one of none, causal",
     lambda g, t: g.attention(t(5, 8), t(5, 8), t(5, 8), mask_kind="triangle", **_HEADS)),
    ("no-mask", ShapeError, "mask_kind 'custom' needs mask operand",
     lambda g, t: g.attention(t(5, 8), t(5, 8), t(5, 8), mask_kind="custom", **_HEADS)),
    ("a-mask", ShapeError, "mask_kind 'none' takes no mask operand",
     lambda g, t: g.attention(t(5, 8), t(5, 8), t(5, 8), t(1, 5), **_HEADS)),
    ("window", ShapeError, "window is None with mask_kind 'sliding_window'",
     lambda g, t: g.attention(t(5, 8), t(5, 8), t(5, 8), mask_kind="sliding_window", **_HEADS)),
    ("mask-shape", ShapeError, "mask has shape (2, 5); it must broadcast as [B, Sk]",
     lambda g, t: g.attention(t(5, 8), t(5, 8), t(5, 8), t(2, 5), mask_kind="custom", **_HEADS)),
    ("kv-heads", ShapeError, "k and v have 3 heads; that must divide num_heads 2",
     lambda g, t: g.attention(t(5, 8), t(5, 12), t(5, 12), **_HEADS)),
    ("q-heads", ShapeError, "q of shape (5, 12) has 3 heads of 4, and num_heads is 2",
     lambda g, t: g.attention(t(5, 12), t(5, 8), t(5, 8), **_HEADS)),
    ("no-layout", ShapeError, "has 3 heads of 4, and num_heads is 2",
     lambda g, t: g.attention(*[t(1, 5, 3, 4)] * 3, **_HEADS)),
    ("rank", ShapeError, "q has shape (1, 1, 5, 2, 4); its rank must be 2, 3 or 4",
     lambda g, t: g.attention(*[t(1, 1, 5, 2, 4)] * 3, **_HEADS)),
    ("layout", ShapeError, "layout is 'sbhd'; it must be 'auto', 'bshd' or 'bhsd'",
     lambda g, t: g.attention(*[t(5, 8)] * 3, layout="sbhd", **_HEADS)),
    ("head-dim", ShapeError, "head_dim 3 and n_rot 3 must be even",
     lambda g, t: g.rope(t(5, 6), t(5, 1), t(5, 1), head_dim=3)),
    ("tables", ShapeError, "both must be [rows, 2]",
     lambda g, t: g.rope(t(5, 8), t(5, 4), t(5, 4), head_dim=4)),
]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(
    ("error", "message", "build"),
    [refusal[1:] for refusal in _REFUSALS],
    ids=[refusal[0] for refusal in _REFUSALS],
)
def test_an_op_refuses_with_its_name_both_values_and_the_rule(
    error: type[RlxError], message: str, build: Build
) -> None:
    graph = Graph("wrong")
    names = iter("abcdefgh")

    def tensor(*shape: int, dtype: str = "f32") -> Value:
        return graph.input(next(names), shape, dtype)

    with pytest.raises(error, match=re.escape(message)) as raised:
        build(graph, tensor)
    assert raised.value.source is not None
    assert raised.value.source.file == __file__


def test_binary_operands_are_cast_to_their_promoted_dtype() -> None:
    graph = Graph("g")
    total = graph.input("a", (2,), "f16") + graph.input("b", (2,), "bf16")
    assert str(total.type) == "f32[2]"


def test_an_op_itself_never_promotes() -> None:
    graph = Graph("g")
    f32, f64 = graph.input("a", (2,), "f32"), graph.input("b", (2,), "f64")
    with pytest.raises(DTypeError, match="operand 1 has dtype f64 and operand 0 has f32"):
        graph.append(ops.add, (f32, f64), ops.add.attrs())

"""Slices of one projection are read in place by attention, rope and gates: no copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.blocks import packed_swiglu
from rlx.codegen.schedule import Thunk
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim

HEADS, DEPTH, LENGTH = 4, 8, 6
Array = NDArray[Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def parts(g: Graph, groups: int, length: Any = LENGTH) -> tuple[Value, Value, Value]:
    """Return queries, keys and values: slices of one packed projection."""
    inner, narrow = HEADS * DEPTH, groups * DEPTH
    packed = g.input("packed", (2, length, inner + 2 * narrow), "f32")
    cuts = (0, inner), (inner, narrow), (inner + narrow, narrow)
    q, k, v = (g.narrow(packed, axis=2, start=start, length=size) for start, size in cuts)
    return q, k, v


def kinds(g: Graph, inputs: dict[str, Array]) -> list[str]:
    """Return what runs, after a comparison with the reference in both back ends."""
    expected = evaluate(g, inputs)
    for backend in ("llvm", "c"):
        f = rlx.compile(g, backend=backend)
        for result, exact in zip(f.run(inputs), expected, strict=True):
            np.testing.assert_allclose(result, exact, rtol=3e-5, atol=3e-6)
    return [thunk.kind for thunk in f.schedule.thunks if isinstance(thunk, Thunk)]


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("mask_kind", ["none", "causal", "sliding_window"])
def test_attention_reads_slices(mask_kind: str, groups: int) -> None:
    window: dict[str, Any] = {"window": 2} if mask_kind == "sliding_window" else {}
    for length in (LENGTH, Dim("s", max=9)):
        g = Graph("attend")
        q, k, v = parts(g, groups, length)
        g.set_outputs(
            [g.attention(q, k, v, num_heads=HEADS, head_dim=DEPTH, mask_kind=mask_kind, **window)]
        )
        packed = normal(2, 7 if isinstance(length, Dim) else length, (HEADS + 2 * groups) * DEPTH)
        assert kinds(g, {"packed": packed}) == ["fused"]


@pytest.mark.parametrize(("queries", "fused"), [(1, True), (5, False)])
def test_attention_of_few_queries_widens_keys_as_it_reads_them(queries: int, fused: bool) -> None:
    g = Graph("attend")
    q, state = g.input("q", (queries, 16)), g.input("state", (12, 16), "f16")
    keys = g.cast(g.narrow(state, axis=0, start=0, length=9), to="f32")
    g.set_outputs([g.attention(q, keys, keys, num_heads=2, head_dim=8, mask_kind="causal")])
    feeds = {"q": normal(queries, 16), "state": normal(12, 16).astype(np.float16)}
    assert kinds(g, feeds) == (["fused"] if fused else ["fused", "attention"])


def test_attention_reads_heads_of_slices() -> None:
    g = Graph("attend")
    split = [g.reshape(x, shape=(2, LENGTH, -1, DEPTH)) for x in parts(g, HEADS)]
    g.set_outputs([g.attention(*split, num_heads=HEADS, head_dim=DEPTH)])
    assert kinds(g, {"packed": normal(2, LENGTH, 3 * HEADS * DEPTH)}) == ["fused"]


def test_attention_reads_parts_of_heads() -> None:
    """A row of heads is then no single run of memory."""
    g = Graph("attend")
    x = g.input("x", (2, LENGTH, HEADS, 3 * DEPTH), "f32")
    cut = [g.narrow(x, axis=3, start=i * DEPTH, length=DEPTH) for i in range(3)]
    g.set_outputs([g.attention(*cut, num_heads=HEADS, head_dim=DEPTH)])
    assert kinds(g, {"x": normal(2, LENGTH, HEADS, 3 * DEPTH)}) == ["fused"]


def test_rope_reads_its_slice() -> None:
    g = Graph("rotate")
    q, k, v = parts(g, 2)
    cos, sin = (g.input(name, (9, DEPTH // 2), "f32") for name in ("cos", "sin"))
    q, k = (g.rope(x, cos, sin, head_dim=DEPTH) for x in (q, k))
    g.set_outputs([g.attention(q, k, v, num_heads=HEADS, head_dim=DEPTH, mask_kind="causal")])
    inputs = {"packed": normal(2, LENGTH, 8 * DEPTH), "cos": normal(9, 4), "sin": normal(9, 4)}
    assert kinds(g, inputs) == ["fused"] * 3


def test_a_gated_network_reads_both_halves() -> None:
    g = Graph("gate")
    g.set_outputs([packed_swiglu(g.input("x", (3, 16), "f32"))])
    assert kinds(g, {"x": normal(3, 16)}) == ["fused"]


def test_what_is_computed_is_not_computed_for_every_query() -> None:
    g = Graph("attend")
    q, _, v = parts(g, HEADS)
    packed = g.tanh(q.node.operands[0])
    keys = g.narrow(packed, axis=2, start=0, length=HEADS * DEPTH)
    g.set_outputs([g.attention(q, keys, v, num_heads=HEADS, head_dim=DEPTH)])
    assert kinds(g, {"packed": normal(2, LENGTH, 3 * HEADS * DEPTH)}) == ["tanh", "fused"]


def test_a_slice_with_other_readers_is_stored_once() -> None:
    g = Graph("attend")
    q, k, v = parts(g, HEADS)
    g.set_outputs([g.attention(q, k, v, num_heads=HEADS, head_dim=DEPTH), k])
    found = kinds(g, {"packed": normal(2, LENGTH, 3 * HEADS * DEPTH)})
    assert sorted(found) == ["fused", "narrow"]

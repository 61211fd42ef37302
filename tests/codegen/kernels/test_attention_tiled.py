"""One-pass attention against the reference: masks, layouts, head groups, lengths, extremes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.nn
import rlx.runtime.compile as runtime
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import Schedule
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Extent
from rlx.passes.layout.tile_attention import attention_tile
from rlx.passes.rewrite import with_lowering
from rlx.target import detect_target

BACKENDS = ("c", "llvm")
HEADS, DEPTH = 3, 16
Array = NDArray[Any]


def check(
    backend: str,
    *,
    queries: int,
    keys: int,
    shape: str = "b s hd",
    heads: int = HEADS,
    kv_heads: int | None = None,
    dtype: str = "f32",
    mask: tuple[int, ...] | Array | None = None,
    symbolic: bool = False,
    most_queries: int = 40,
    q_scale: float = 1.0,
    last_value: float | None = None,
    **attributes: Any,
) -> Array:
    """Compare `attention` with the reference on random operands; return its result."""
    random = np.random.default_rng(3)
    g = Graph("attention")
    feeds: dict[str, Array] = {}

    def operand(name: str, positions: int, heads: int) -> Value:
        extent: Extent = positions
        if symbolic:
            extent = Dim("q", max=most_queries) if name == "q" else Dim("k", max=40)
        layouts: dict[str, tuple[Extent, ...]] = {
            "s hd": (extent, heads * DEPTH),
            "b s hd": (2, extent, heads * DEPTH),
            "b s h d": (2, extent, heads, DEPTH),
            "b h s d": (2, heads, extent, DEPTH),
        }
        value = g.input(name, layouts[shape], dtype)
        sizes = [positions if isinstance(e, Dim) else e for e in value.shape]
        feeds[name] = random.standard_normal(sizes).astype(value.dtype.numpy)
        return value

    kv_heads = kv_heads or heads
    operands = [operand("q", queries, heads), operand("k", keys, kv_heads)]
    operands.append(operand("v", keys, kv_heads))
    feeds["q"] = feeds["q"] * feeds["q"].dtype.type(q_scale)
    if mask is not None:
        data = mask if isinstance(mask, np.ndarray) else random.standard_normal(mask)
        operands.append(g.input("mask", data.shape, dtype))
        feeds["mask"] = data.astype(operands[0].dtype.numpy)
    if last_value is not None:
        feeds["v"][0, -1, 1] = last_value
    g.set_outputs([ops.attention(*operands, num_heads=heads, head_dim=DEPTH, **attributes)])
    compiled = runtime.compile(g, backend=backend, threads=1)
    assert any(isinstance(node.lowering, Schedule) for node in compiled.plan.graph.nodes)  # type: ignore[union-attr]
    (expected,) = evaluate(g, feeds)
    (got,) = compiled.run(feeds)
    np.testing.assert_allclose(got, expected, atol=2e-5 if dtype == "f32" else 1e-12)
    return got


def cases() -> dict[str, dict[str, Any]]:
    """Return arguments of `check`, by what they are an example of."""
    layouts = {"s hd": "auto", "b s hd": "bshd", "b s h d": "bshd", "b h s d": "bhsd"}
    shared: dict[str, Any] = {"heads": 6, "kv_heads": 2}  # three heads are one item
    lengths = [(1, 1), (1, 40), (3, 5), (4, 4), (13, 64), (33, 7)]
    found: dict[str, dict[str, Any]] = {}

    def add(name: str, queries: int, keys: int, **how: Any) -> None:
        found[f"{name}-{queries}-{keys}"] = {"queries": queries, "keys": keys, **how}

    for shape, layout in layouts.items():
        add(f"layout {shape}", 14, 37, shape=shape, layout=layout)
        for queries, kind in ((1, "causal"), (3, "causal"), (2, "none")):
            for keys in (queries, 37, 300):
                how = {"shape": shape, "layout": layout, "mask_kind": kind, **shared}
                add(f"shared keys {shape} {kind}", queries, keys, **how)
    for kind in ("none", "causal"):
        for queries, keys in lengths:
            add(f"length {kind}", queries, keys, mask_kind=kind)
    for queries, keys in ((9, 9), (20, 33), (33, 7)):  # also where rows see nothing
        add("window", queries, keys, mask_kind="sliding_window", window=4)
    for kind in ("custom", "bias"):
        for mask in ((2, 20), (2, 14, 20), (1, HEADS, 14, 20), (2, 1, 1, 20)):
            add(f"{kind} {mask}", 14, 20, mask=mask, mask_kind=kind)
        for mask in ((2, 20), (2, 2, 20), (1, 6, 2, 20), (2, 1, 1, 20)):
            add(f"{kind} {mask} shared keys", 2, 20, mask=mask, mask_kind=kind, **shared)
    for queries, keys in ((1, 1), (7, 40), (40, 40)):
        add("symbolic", queries, keys, symbolic=True, mask_kind="causal")
    for queries, keys in ((1, 1), (2, 40), (3, 17)):
        how = {"symbolic": True, "most_queries": 3, "mask_kind": "causal", **shared}
        add("symbolic shared keys", queries, keys, **how)
    bias = np.zeros((2, 5, 300))
    bias[:, :, :290] = -np.inf
    add("leading blocks of minus infinity", 5, 300, mask=bias, mask_kind="bias")
    add("a row without a visible key", 14, 20, mask=np.zeros((2, 20)), mask_kind="custom")
    add("large scores", 14, 70, q_scale=40.0)
    add("scale and softcap", 14, 20, kv_heads=1, score_scale=0.5, softcap=2.0)
    add("f64", 14, 20, dtype="f64", mask_kind="causal")
    return found


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_reference(name: str) -> None:
    got = check("llvm", **CASES[name])
    assert np.isfinite(got).all()


@pytest.mark.parametrize(
    "name",
    [
        "layout b h s d-14-37", "shared keys b s hd causal-3-37", "length causal-13-64",
        "window-20-33", "bias (1, 3, 14, 20)-14-20", "custom (2, 1, 1, 20) shared keys-2-20",
        "symbolic-7-40", "leading blocks of minus infinity-5-300", "scale and softcap-14-20",
        "f64-14-20",
    ],
)  # fmt: skip
def test_c_computes_what_llvm_does(name: str) -> None:
    np.testing.assert_allclose(check("c", **CASES[name]), check("llvm", **CASES[name]), atol=2e-6)


def test_heads_that_share_keys_are_rows_of_one_tile() -> None:
    """Rows of a tile are the queries of as many heads of a group as registers hold."""
    g = Graph("attention")
    q, k, v = (g.input(name, (1, heads * 64)) for name, heads in (("q", 9), ("k", 3), ("v", 3)))
    node = ops.attention(q, k, v, num_heads=9, head_dim=64).node
    wide = replace(detect_target(), architecture="x86_64", features=frozenset({"avx512f"}))
    tile = attention_tile(node, wide)
    assert tile is not None
    assert tile.rows == 3
    wrong = replace(tile, rows=2)
    with pytest.raises(ShapeError, match="do not fit"):
        with_lowering(node, wrong)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("queries", "keys"), [(70, 70), (2, 9)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_reaches_its_column_of_all_rows(
    backend: str, queries: int, keys: int, value: float
) -> None:
    got = check(backend, queries=queries, keys=keys, mask_kind="causal", last_value=value)
    assert not np.isfinite(got[0, :, 1]).any()
    assert np.isnan(got[0, :-1, 1]).all()
    assert np.isfinite(np.delete(got[0], 1, axis=-1)).all()
    assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_weight_below_the_normal_numbers_is_zero_also_in_the_reference(
    backend: str, dtype: type[np.floating[Any]]
) -> None:
    """Times an infinity it is NaN, where a subnormal weight would leave the infinity."""
    score = -90.0 if dtype is np.float32 else -710.0
    q, k = np.zeros((1, 1, 8), dtype), np.zeros((2, 1, 8), dtype)
    q[..., 0], k[1, ..., 0] = score, 1.0
    v = np.ones((2, 1, 8), dtype)
    v[1] = -np.inf

    def attended(q: Array, k: Array, v: Array) -> Any:
        return rlx.nn.dot_product_attention(q, k, v, scale=1.0)

    weights = np.array([0.0, score], dtype)
    for name in (backend, "reference"):
        assert np.isnan(rlx.jit(attended, backend=name)(q, k, v)).all()
        softmax = rlx.jit(lambda x: rlx.nn.softmax(x), backend=name)
        np.testing.assert_array_equal(softmax(weights), [1.0, 0.0])

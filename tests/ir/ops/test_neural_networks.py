"""Neural-network ops at their edges: empty extents, equal rows, masks, slices of projections."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.schedule import Thunk
from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.decompose import decompose
from tests.ir.reference.running import run

RANDOM = np.random.default_rng(31)
Array = Any


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape)


# Empty extents


EMPTY: dict[str, Callable[[Graph, Value], Value]] = {
    "layer_norm": lambda g, x: g.layer_norm(x, *_vectors(g, 0), axis=-1, eps=1e-5),
    "rms_norm": lambda g, x: g.rms_norm(x, *_vectors(g, 0), axis=-1, eps=1e-5),
    "layer_norm2d": lambda g, x: g.layer_norm2d(
        g.reshape(x, shape=(2, 0, 3)), *_vectors(g, 0), eps=1e-5
    ),
    "group_norm": lambda g, x: g.group_norm(
        g.reshape(x, shape=(2, 3, 0)), *_vectors(g, 3), num_groups=1, eps=1e-5
    ),
    "softmax_cross_entropy_with_logits": lambda g, x: g.softmax_cross_entropy_with_logits(
        g.reshape(x, shape=(6, 0)), g.input("labels", (6,))
    ),
    "attention": lambda g, x: g.attention(
        g.input("q", (2, 3, 4)), *(g.reshape(x, shape=(2, 0, 4)),) * 2, num_heads=1, head_dim=4
    ),
}


def _vectors(g: Graph, extent: int) -> list[Value]:
    return [g.input(name, (extent,)) for name in ("gamma", "beta")]


@pytest.mark.parametrize("name", EMPTY)
def test_what_has_no_element_to_normalize_is_a_typed_error(name: str) -> None:
    g = Graph("empty")
    with pytest.raises(ShapeError, match=name):
        EMPTY[name](g, g.input("x", (2, 3, 0)))


def test_the_softmax_of_nothing_is_nothing() -> None:
    """It divides by no sum: an axis may turn out empty at the call."""
    assert run(ops.softmax, np.ones((2, 3, 0)), axis=-1).shape == (2, 3, 0)


def test_a_batch_of_nothing_is_nothing() -> None:
    vector = np.ones(4)
    cases: list[tuple[Any, tuple[Array, ...], dict[str, Any]]] = [
        (ops.layer_norm2d, (vector, vector), {"eps": 1e-5}),
        (ops.group_norm, (vector, vector), {"num_groups": 2, "eps": 1e-5}),
        (ops.conv, (np.ones((2, 4, 1, 1)),), {}),
        (ops.max_pool, (), {"kernel_size": (2, 2)}),
        (ops.resize, (), {"size": (3, 9), "mode": "linear"}),
    ]
    for op, operands, attributes in cases:
        assert run(op, np.ones((0, 4, 5, 5)), *operands, **attributes).size == 0


def test_entries_left_out_are_ones_and_zeros() -> None:
    x, w = normal(1, 2, 5, 4), normal(3, 2, 2, 2)
    written: dict[str, Any] = {
        "stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1,
    }  # fmt: skip
    np.testing.assert_array_equal(run(ops.conv, x, w), run(ops.conv, x, w, **written))
    pooled = run(ops.sum_pool, x, kernel_size=(2, 2), stride=(1, 1), padding=(0, 0))
    np.testing.assert_array_equal(run(ops.sum_pool, x, kernel_size=(2, 2)), pooled)


# Norms


# Losses


# Attention


def test_attention_of_three_axes_under_a_mask_of_keys() -> None:
    q = normal(1, 3, 8)
    y = run(ops.attention, q, q, q, np.array([[1.0, 0, 1]]), num_heads=2, head_dim=4,
            mask_kind="custom")  # fmt: skip
    assert y.shape == q.shape
    assert np.isfinite(y).all()
    kept = q[:, [0, 2]]
    np.testing.assert_allclose(y, run(ops.attention, q, kept, kept, num_heads=2, head_dim=4))


def test_a_shape_that_fits_both_layouts_or_none() -> None:
    """Heads in front where both axes are their number; a typed error where neither is."""
    q = normal(1, 2, 2, 3)
    heads: dict[str, Any] = {"num_heads": 2, "head_dim": 3}
    front = run(ops.attention, q, q, q, **heads, layout="bhsd")
    np.testing.assert_array_equal(run(ops.attention, q, q, q, **heads), front)
    assert not np.allclose(run(ops.attention, q, q, q, **heads, layout="bshd"), front)
    for shape, message in {
        (1, 3, 5, 3): "5 heads of 3, and num_heads is 2",
        (1, 2, 5, 4): "axis 3 must have extent 3",
        (1, 1, 2, 5, 3): "its rank must be 2, 3 or 4",
    }.items():
        with pytest.raises(ShapeError, match=message):
            run(ops.attention, *(np.ones(shape),) * 3, **heads)


# Slices of a projection


def _schedule(g: Graph, arrays: dict[str, Array]) -> list[str]:
    """Return the kinds of what runs, after a comparison with the reference."""
    compiled = rlx.compile(g)
    for found, expected in zip(compiled(**arrays), evaluate(g, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return [thunk.kind for thunk in compiled.schedule.thunks if isinstance(thunk, Thunk)]


@pytest.mark.parametrize("is_read_twice", [False, True])
def test_rope_reads_its_slice_of_a_projection(is_read_twice: bool) -> None:
    g = Graph("rope")
    part = g.narrow(g.input("qkv", (16, 8, 192)), axis=2, start=0, length=64)
    cos, sin = g.input("cos", (8, 8)), g.input("sin", (8, 8))
    g.set_outputs([g.rope(part, cos, sin, head_dim=16), *([part] if is_read_twice else [])])
    arrays = {"qkv": normal(16, 8, 192), "cos": normal(8, 8), "sin": normal(8, 8)}
    kinds = _schedule(g, {name: array.astype("f4") for name, array in arrays.items()})
    assert kinds.count("narrow") == is_read_twice
    assert len(kinds) == 1 + is_read_twice


@pytest.mark.parametrize("rows", [2, 3, 9])
@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_rope_starts_its_table_over_at_symbolic_positions(backend: str, rows: int) -> None:
    """By its kernel, and by the formula that rules take."""
    n = rlx.Dim("n", max=9)
    g = Graph("rope")
    x, cos, sin = g.input("x", (n, 4)), g.input("cos", (rows, 2)), g.input("sin", (rows, 2))
    g.set_outputs([g.rope(x, cos, sin, head_dim=4)])
    by_formula = decompose()(g)
    assert all(node.op is not ops.rope for node in by_formula.nodes)
    values, angles = normal(8, 4), normal(rows, 2)
    turned = np.exp(1j * angles)[np.arange(8) % rows] * (values[:, :2] + 1j * values[:, 2:])
    expected = np.concatenate([turned.real, turned.imag], axis=1)
    arrays = {"x": values, "cos": np.cos(angles), "sin": np.sin(angles)}
    for graph in (g, by_formula):
        run_it = rlx.compile(graph, backend=backend)
        (found,) = run_it(**{name: array.astype("f4") for name, array in arrays.items()})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_attention_reads_three_slices_under_a_mask_of_keys() -> None:
    g = Graph("attend")
    qkv, mask = g.input("qkv", (8, 16, 192)), g.input("mask", (8, 16))
    q, k, v = (g.narrow(qkv, axis=2, start=start, length=64) for start in (0, 64, 128))
    g.set_outputs([g.attention(q, k, v, mask, num_heads=4, head_dim=16, mask_kind="custom")])
    visible = (normal(8, 16) > 0).astype("f4")
    kinds = _schedule(g, {"qkv": normal(8, 16, 192).astype("f4"), "mask": visible})
    assert kinds == ["fused"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    x = normal(2, 3, 4)
    moved = np.moveaxis(x, axis, -1)
    ones, zeros = np.ones(x.shape[axis]), np.zeros(x.shape[axis])
    for op, operands, attributes in [
        (ops.softmax, (), {}),
        (ops.layer_norm, (ones, zeros), {"eps": 1e-5}),
        (ops.rms_norm, (ones, zeros), {"eps": 1e-5}),
    ]:
        expected = run(op, moved, *operands, axis=-1, **attributes)
        y = run(op, x, *operands, axis=axis, **attributes)
        np.testing.assert_allclose(np.moveaxis(y, axis, -1), expected)


def test_the_formula_of_the_cross_entropy_is_it_at_infinite_logits_too() -> None:
    inf = np.inf
    rows = [
        [1, 2, -inf],
        [-inf, -inf, 0],
        [inf, 0, -inf],
        [-inf, 0, inf],
        [-inf] * 3,
        [np.nan, 1, 2],
    ]
    g = Graph("masked")
    logits, labels = g.input("x", (6, 3)), g.input("k", (6,), "i32")
    g.set_outputs([g.softmax_cross_entropy_with_logits(logits, labels)])
    formula = decompose(OPS.keys() - {"softmax_cross_entropy_with_logits"})(g)
    for label in range(3):
        feeds = {"x": np.array(rows, np.float32), "k": np.full(6, label, np.int32)}
        found, expected = evaluate(formula, feeds)[0], evaluate(g, feeds)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_means_of_windows_too_many_to_count_are_divided_at_run_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(5).standard_normal((1, 2, 7, 6))
    window: dict[str, Any] = {
        "kernel_size": (3, 2), "stride": (2, 1), "padding": ((2, 1), (1, 0)), "divisor": "inside"
    }  # fmt: skip
    counted = run(ops.mean_pool, x, **window)
    monkeypatch.setattr(importlib.import_module("rlx.ir.ops.pool"), "_MOST_COUNTED", 1)
    np.testing.assert_allclose(run(ops.mean_pool, x, **window), counted, rtol=1e-13)


NATIVE = ("llvm", "c")


def agree(g: Graph, arrays: dict[str, Any], backend: str) -> list[Any]:
    """Return the compiled results, which must be those of the reference."""
    found = rlx.compile(g, backend=backend)(**arrays)
    for given, wanted in zip(found, evaluate(g, arrays), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
    return list(found)


@pytest.mark.parametrize("backend", NATIVE)
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_parts_that_feed_attention_keep_their_axis_and_other_readers(
    backend: str, layout: str
) -> None:
    """Cut along the last axis or along heads, and one part is a result of its own."""
    g = Graph("parts")
    shape = (1, 6, 5, 4) if layout == "bhsd" else (1, 5, 24)
    axis, width = (1, 2) if layout == "bhsd" else (2, 8)
    qkv = g.input("qkv", shape)
    q, k, v = (g.narrow(qkv, axis=axis, start=n * width, length=width) for n in range(3))
    y = g.attention(q, k, v, num_heads=2, head_dim=4, mask_kind="causal", layout=layout)
    g.set_outputs([y, k])
    given = normal(*shape).astype("f4")
    found = agree(g, {"qkv": given}, backend)
    np.testing.assert_array_equal(found[1], np.split(given, 3, axis)[1])


@pytest.mark.parametrize("backend", [*NATIVE, "reference"])
@pytest.mark.parametrize("label", [-1.0, 3.0, np.nan])
@pytest.mark.parametrize("backward", [False, True])
def test_labels_out_of_range_are_faults_in_both_directions(
    backend: str, label: float, backward: bool
) -> None:
    g = Graph("labels")
    logits, labels = g.input("logits", (2, 3)), g.input("labels", (2,))
    if backward:
        y = g.softmax_cross_entropy_backward(logits, labels, g.input("d_loss", (2,)))
    else:
        y = g.softmax_cross_entropy_with_logits(logits, labels)
    g.set_outputs([y])
    arrays = {"logits": normal(2, 3).astype("f4"), "labels": np.array([0, label], np.float32)}
    if backward:
        arrays["d_loss"] = normal(2).astype("f4")
    with pytest.raises(IndexOutOfRangeError):
        rlx.compile(g, backend=backend)(**arrays)
    arrays["labels"][1] = 2.9
    (found,) = rlx.compile(g, backend=backend)(**arrays)
    arrays["labels"][1] = 2
    np.testing.assert_array_equal(found, rlx.compile(g, backend=backend)(**arrays)[0])

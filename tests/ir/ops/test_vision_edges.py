"""Neural-network ops at their edges: empty extents, equal rows, masks, slices of projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import blocks
from rlx.codegen.schedule import Thunk
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
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


def test_gradients_of_layer_norm_are_finite_differences() -> None:
    arrays = [normal(3, 6), np.abs(normal(6)) + 0.5, normal(6)]
    weights = normal(3, 6)

    def loss(x: Array, gamma: Array, beta: Array) -> Any:
        return (weights * rlx.nn.layer_norm(x, gamma, beta, eps=1e-5)).sum()

    _agree_with_differences(loss, arrays)


def test_gradients_of_layer_norm2d_are_finite_differences() -> None:
    arrays = [normal(2, 4, 3, 2), np.abs(normal(4)) + 0.5, normal(4)]
    weights = normal(2, 4, 3, 2)
    g = Graph("loss")
    shapes = zip(("x", "gamma", "beta"), arrays, strict=True)
    operands = [g.input(name, array.shape, "f64") for name, array in shapes]
    y = g.layer_norm2d(*operands, eps=1e-5) * g.constant(weights, "f64")
    g.set_outputs([g.reduce_sum(y, axes=(0, 1, 2, 3))])
    made = rlx.passes.grad_with_loss(g, wrt=["x", "gamma", "beta"])
    feeds = dict(zip(("x", "gamma", "beta"), arrays, strict=True))
    found = evaluate(made, {**feeds, "d_output": np.array(1.0)})[-3:]
    for number, name in enumerate(feeds):

        def of(moved: Array, name: str = name) -> Any:
            return evaluate(g, {**feeds, name: moved})[0]

        expected = _differences(of, feeds[name])
        np.testing.assert_allclose(found[number], expected, rtol=1e-6, atol=1e-8)


def test_two_rows_that_are_the_same_sum_have_the_same_norm() -> None:
    x, residual = np.array([[1.0, 2, 3, 4], [0, 1, 2, 3]]), np.repeat([[0.0], [1.0]], 4, axis=1)
    g = Graph("residual")
    a, b = (g.input(name, (2, 4), "f64") for name in ("x", "residual"))
    one, zero = (g.constant(np.full(4, value), "f64") for value in (1.0, 0.0))
    layer = blocks.residual_layer_norm(a, b, one, zero, eps=1e-5)
    g.set_outputs([layer, blocks.residual_rms_norm(a, b, one, zero, eps=1e-6)])
    layer_norm, rms_norm = evaluate(g, {"x": x, "residual": residual})
    centered = [-1.3416354, -0.4472118, 0.4472118, 1.3416354]
    np.testing.assert_allclose(layer_norm, [centered, centered], atol=1e-6)
    scaled = [0.3651483, 0.7302967, 1.095445, 1.4605934]
    np.testing.assert_allclose(rms_norm, [scaled, scaled], atol=1e-6)


# Losses


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 4)])
def test_a_dense_layer_with_a_loss_of_classes_has_its_gradients(shape: tuple[int, ...]) -> None:
    x, classes = normal(*shape), 5
    labels = np.arange(x[..., 0].size).reshape(shape[:-1]) % classes
    arrays = [normal(shape[-1], classes), normal(classes)]

    def loss(w: Array, bias: Array) -> Any:
        losses = rlx.nn.softmax_cross_entropy(x @ w + bias, labels)
        return losses.sum() if len(shape) == 2 else losses.mean()

    _agree_with_differences(loss, arrays)
    value, _ = rlx.value_and_grad(loss)(*arrays)
    np.testing.assert_allclose(value, loss(*arrays), atol=1e-12)


def test_each_row_s_own_upstream_scales_its_gradient() -> None:
    logits, labels, upstream = normal(4, 5), np.arange(4) % 5, normal(4)
    given = run(ops.softmax_cross_entropy_backward, logits, labels, upstream)

    def loss(z: Array) -> Any:
        return float(run(ops.softmax_cross_entropy_with_logits, z, labels) @ upstream)

    np.testing.assert_allclose(given, _differences(loss, logits), atol=1e-8)


# Attention


def test_attention_of_three_axes_under_a_mask_of_keys() -> None:
    q = normal(1, 3, 8)
    y = run(ops.attention, q, q, q, np.array([[1.0, 0, 1]]), num_heads=2, head_dim=4,
            mask_kind="custom")  # fmt: skip
    assert y.shape == q.shape
    assert np.isfinite(y).all()
    kept = q[:, [0, 2]]
    np.testing.assert_allclose(y, run(ops.attention, q, kept, kept, num_heads=2, head_dim=4))


def test_the_gradient_by_queries_of_a_sum_of_attended_values() -> None:
    i = np.arange(24.0).reshape(1, 2, 4, 3)
    q, k, v = 0.07 * i - 0.5, 0.05 * i - 0.3, 0.03 * i - 0.2
    g = Graph("attend")
    operands = [g.input(name, (1, 2, 4, 3), "f64") for name in "qkv"]
    y = g.attention(*operands, num_heads=2, head_dim=3)
    g.set_outputs([g.reduce_sum(y, axes=(0, 1, 2, 3))])
    made = rlx.passes.grad_with_loss(g, wrt=["q"])
    loss, dq = evaluate(made, {"q": q, "k": k, "v": v, "d_output": np.array(1.0)})
    assert float(loss) == pytest.approx(3.6908005, abs=1e-6)
    rows = [0.0289207, 0.0291474, 0.0292282, 0.0291614, 0.0289485, 0.0285942, 0.0281065, 0.0274956]
    np.testing.assert_allclose(dq.ravel(), np.repeat(rows, 3), atol=1e-6)
    assert sum(node.op is ops.attention_backward for node in made.nodes) == 1


def test_a_shape_that_fits_both_layouts_or_none() -> None:
    """Heads in front where both axes are their number; a typed error where neither is."""
    q = normal(1, 2, 2, 3)
    heads: dict[str, Any] = {"num_heads": 2, "head_dim": 3}
    front = run(ops.attention, q, q, q, **heads, layout="bhsd")
    np.testing.assert_array_equal(run(ops.attention, q, q, q, **heads), front)
    assert not np.allclose(run(ops.attention, q, q, q, **heads, layout="bshd"), front)
    for shape, message in {
        (1, 3, 5, 3): "5 heads of 3, and num_heads is 2",
        (1, 2, 5, 4): "axis 3 must be 3",
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


def test_attention_reads_three_slices_under_a_mask_of_keys() -> None:
    g = Graph("attend")
    qkv, mask = g.input("qkv", (8, 16, 192)), g.input("mask", (8, 16))
    q, k, v = (g.narrow(qkv, axis=2, start=start, length=64) for start in (0, 64, 128))
    g.set_outputs([g.attention(q, k, v, mask, num_heads=4, head_dim=16, mask_kind="custom")])
    visible = (normal(8, 16) > 0).astype("f4")
    kinds = _schedule(g, {"qkv": normal(8, 16, 192).astype("f4"), "mask": visible})
    assert kinds == ["fused"]


def _differences(function: Callable[[Array], Any], at: Array) -> Array:
    """Return central differences of a scalar function."""
    slopes = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = at.copy()
            moved[place] += step
            ends.append(float(function(moved)))
        slopes[place] = (ends[0] - ends[1]) / 2e-5
    return slopes


def _agree_with_differences(loss: Callable[..., Any], arrays: list[Array]) -> None:
    compiled = rlx.jit(loss)
    found = rlx.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)
    for number, given in enumerate(found):

        def of(moved: Array, number: int = number) -> Any:
            return compiled(*(moved if i == number else a for i, a in enumerate(arrays)))

        np.testing.assert_allclose(given, _differences(of, arrays[number]), rtol=1e-6, atol=1e-8)

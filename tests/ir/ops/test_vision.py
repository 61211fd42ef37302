"""Neural-network ops other than convolution: known values and gradients of whole blocks."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx import blocks
from rlx.errors import GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.rewrites.decompose import decompose
from tests.ir.reference.running import f64, run, run_all

Array = NDArray[Any]
RANDOM = np.random.default_rng(3)
EYE = np.eye(2).reshape(1, 1, 2, 2)
ONE_HEAD: dict[str, Any] = {"num_heads": 1, "head_dim": 2}


class Feeds:
    """A graph under construction, and the arrays of its inputs."""

    def __init__(self) -> None:
        self.graph = Graph("facts")
        self.arrays: dict[str, Array] = {}

    def give(self, array: Any, name: str = "") -> Value:
        given = np.asarray(array)
        name = name or f"x{len(self.arrays)}"
        self.arrays[name] = given
        return self.graph.input(name, given.shape, as_dtype(given.dtype))

    def value(self, *results: Value) -> Array:
        self.graph.set_outputs(results)
        return evaluate(self.graph, self.arrays)[0]

    def gradients(self, loss: Value) -> list[Array]:
        """Return the gradients by all floating inputs."""
        self.graph.set_outputs([loss])
        wrt = [name for name, array in self.arrays.items() if array.dtype.kind == "f"]
        made = grad_with_loss(self.graph, wrt)
        return evaluate(made, {**self.arrays, "d_output": np.array(1.0)})[-len(wrt) :]


# Operands of every rank, dtype and mask


def test_scale_and_cap_act_before_the_mask_in_both_directions() -> None:
    v = np.array([[10.0, 20], [30, 40]]).reshape(1, 1, 2, 2)
    for options, first in [
        ({}, [16.604769, 26.604769]),
        ({"score_scale": 1.0}, [15.3788284, 25.3788284]),
        ({"softcap": 0.5}, [17.8148474, 27.8148474]),
        ({"score_scale": 1.0, "softcap": 0.5}, [17.6355342, 27.6355342]),
    ]:
        y = run(ops.attention, EYE, EYE, v, **ONE_HEAD, **options)
        np.testing.assert_allclose(y[0, 0, 0], first, atol=1e-6)
    hidden = run(ops.attention, EYE, EYE, v, **ONE_HEAD, softcap=0.5, mask_kind="causal")
    np.testing.assert_allclose(hidden[0, 0, 0], [10, 20])
    dq, _, _ = run_all(
        ops.attention_backward, EYE, EYE, v, np.ones_like(v), **ONE_HEAD, score_scale=0.0
    )
    np.testing.assert_array_equal(dq, 0)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(
    "options", [{"score_scale": 0.7}, {"softcap": 0.5}, {"score_scale": 1.5, "softcap": 0.8}]
)
def test_gradients_through_scale_and_cap_are_differences(mask: str, options: Any) -> None:
    feeds = Feeds()
    q, k, v = (feeds.give(RANDOM.standard_normal((1, 2, 3, 2))) for _ in range(3))
    heads: dict[str, Any] = {"num_heads": 2, "head_dim": 2, "mask_kind": mask}
    y = feeds.graph.attention(q, k, v, **heads, **options)
    loss = feeds.graph.reduce_sum(y * y, axes=(0, 1, 2, 3))
    for name, gradient in zip(feeds.arrays, feeds.gradients(loss), strict=True):
        np.testing.assert_allclose(gradient, _differences(feeds, loss, name), atol=1e-6)


def test_rms_norm_gradients() -> None:
    feeds = Feeds()
    x = feeds.give(0.1 * (np.arange(12.0) - 3).reshape(3, 4))
    gamma, beta = feeds.give(f64(0.5, 0.7, 0.9, 1.1)), feeds.give(np.zeros(4))
    dy = 1 + 0.05 * np.arange(12.0).reshape(3, 4)
    y = feeds.graph.rms_norm(x, gamma, beta, axis=-1, eps=1e-5)
    weighted = y * feeds.graph.constant(dy, "f64")
    dx, dgamma, dbeta = feeds.gradients(feeds.graph.reduce_sum(weighted, axes=(0, 1)))
    rows = [
        [-1.8616312, 0.9056046, 3.7797295, 6.7607437],
        [0.7547811, 0.3229092, -0.035938, -0.3217604],
        [-0.362456, -0.1696159, 0.0535478, 0.307035],
    ]
    np.testing.assert_allclose(dx, rows, atol=1e-6)
    np.testing.assert_allclose(dgamma, [-0.1038645, 1.1095486, 2.4280806, 3.8517313], atol=1e-6)
    np.testing.assert_allclose(dbeta, [3.6, 3.75, 3.9, 4.05])


def test_every_example_of_a_batch_is_computed() -> None:
    x, vector = RANDOM.standard_normal((3, 4, 2, 2)), np.ones(4)
    for op, operands, attributes in [
        (ops.group_norm, (vector, vector), {"num_groups": 2, "eps": 1e-5}),
        (ops.resize_nearest_2x, (), {}),
    ]:
        whole = run(op, x, *operands, **attributes)
        apart = [run(op, x[n : n + 1], *operands, **attributes) for n in range(3)]
        np.testing.assert_allclose(whole, np.concatenate(apart))
    tokens = RANDOM.standard_normal((2, 4, 4))
    grid: dict[str, Any] = {"end_x": 2, "end_y": 2, "head_dim": 4, "num_heads": 1}
    turned = run(ops.axial_rope2d, tokens, **grid)
    np.testing.assert_allclose(turned[1:], run(ops.axial_rope2d, tokens[1:], **grid))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    x = RANDOM.standard_normal((2, 3, 4))
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


def test_pools_of_every_kind_and_losses_of_every_rank() -> None:
    x = f64(1, 2, 3, 4).reshape(1, 1, 2, 2)
    kinds = {"max_pool": 4, "min_pool": 1, "sum_pool": 10, "mean_pool": 2.5, "prod_pool": 24}
    for name, expected in kinds.items():
        assert run(getattr(ops, name), x, kernel_size=(2, 2)).item() == expected
    logits, labels = RANDOM.standard_normal((2, 3, 5)), np.arange(6).reshape(2, 3) % 5
    loss = run(ops.softmax_cross_entropy_with_logits, logits, labels)
    flat = run(ops.softmax_cross_entropy_with_logits, logits.reshape(6, 5), labels.ravel())
    np.testing.assert_allclose(loss.ravel(), flat)


def test_fused_blocks_refuse_what_would_be_misread() -> None:
    feeds = Feeds()
    hidden, narrow = feeds.give(np.ones((1, 2, 4))), feeds.give(np.ones((1, 1, 4)))
    qkv, out = feeds.give(np.ones((4, 12))), feeds.give(np.ones((4, 4)))
    mask, vector = feeds.give(np.ones((1, 2))), feeds.give(np.ones(4))
    heads: dict[str, Any] = {"num_heads": 2, "head_dim": 2}
    with pytest.raises(GraphError, match="out_bias missing"):
        blocks.packed_attention(hidden, qkv, out, mask, feeds.give(np.ones(12)), **heads)
    with pytest.raises(ShapeError, match="residual has shape"):
        blocks.residual_layer_norm(hidden, narrow, vector, vector, eps=1e-5)
    with pytest.raises(ShapeError, match="bias has shape"):
        blocks.linear(hidden, out, feeds.give(np.ones((1,))))


def test_gate_first_and_cast_are_honored() -> None:
    feeds = Feeds()
    packed = feeds.give(np.array([[1, 2, 0.5, 1.5], [3, 4, 1, 2]]))
    cast = blocks.packed_swiglu(packed, cast_to="f16")
    assert cast.dtype is as_dtype("f16")
    first = feeds.value(blocks.packed_swiglu(packed, gate_first=True))
    np.testing.assert_allclose(first, [[0.3655293, 2.6423912], [2.8577224, 7.8561103]], atol=1e-6)


def test_custom_masks_of_every_shape_that_broadcasts() -> None:
    q = RANDOM.standard_normal((2, 2, 3, 4))
    visible = np.array([[1.0, 0, 1], [1, 1, 0]])
    attributes: dict[str, Any] = {"num_heads": 2, "head_dim": 4, "mask_kind": "custom"}
    expected = run(ops.attention, q, q, q, visible, **attributes)
    for shape in [(2, 1, 3), (2, 1, 1, 3)]:
        y = run(ops.attention, q, q, q, visible.reshape(shape), **attributes)
        np.testing.assert_array_equal(y, expected)
    with pytest.raises(ShapeError, match="it must broadcast"):
        run(ops.attention, q, q, q, np.ones((2, 5)), **attributes)


def test_gradients_by_a_bias_and_fewer_key_heads() -> None:
    feeds = Feeds()
    q = feeds.give(RANDOM.standard_normal((1, 4, 3, 2)))
    k, v = (feeds.give(RANDOM.standard_normal((1, 2, 3, 2))) for _ in range(2))
    bias = feeds.give(RANDOM.standard_normal((1, 1, 3, 3)))
    y = feeds.graph.attention(q, k, v, bias, num_heads=4, head_dim=2, mask_kind="bias")
    loss = feeds.graph.reduce_sum(y * y, axes=(0, 1, 2, 3))
    found = feeds.gradients(loss)
    for name, gradient in zip(feeds.arrays, found, strict=True):
        np.testing.assert_allclose(gradient, _differences(feeds, loss, name), atol=1e-6)


def test_group_norm_of_one_spatial_axis_has_its_gradient() -> None:
    feeds = Feeds()
    x = feeds.give(RANDOM.standard_normal((2, 4, 3)))
    gamma, beta = (feeds.give(RANDOM.standard_normal(4)) for _ in range(2))
    y = feeds.graph.group_norm(x, gamma, beta, num_groups=2, eps=1e-5)
    loss = feeds.graph.reduce_sum(y * y * y, axes=(0, 1, 2))
    for name, gradient in zip(feeds.arrays, feeds.gradients(loss), strict=True):
        np.testing.assert_allclose(gradient, _differences(feeds, loss, name), rtol=1e-5, atol=1e-5)


# Known values


def test_attention_masks() -> None:
    v = np.array([[1.0, 2], [3, 4]]).reshape(1, 1, 2, 2)
    causal = run(ops.attention, EYE, EYE, v, **ONE_HEAD, mask_kind="causal")
    np.testing.assert_allclose(causal[0, 0], [[1.0, 2.0], [2.3395231, 3.3395231]], atol=1e-6)
    alone = run(ops.attention, EYE, EYE, v, **ONE_HEAD, mask_kind="sliding_window", window=0)
    np.testing.assert_array_equal(alone, v)
    none = run(ops.attention, EYE, EYE, v, np.zeros((1, 2)), **ONE_HEAD, mask_kind="custom")
    np.testing.assert_allclose(none[0, 0], [[2, 3], [2, 3]])


def test_a_decoding_step_is_the_last_row_of_the_whole() -> None:
    q, k, v = RANDOM.standard_normal((3, 1, 2, 5, 4))
    attributes: dict[str, Any] = {"num_heads": 2, "head_dim": 4, "mask_kind": "causal"}
    whole = run(ops.attention, q, k, v, **attributes)
    step = run(ops.attention, q[:, :, -1:], k, v, **attributes)
    np.testing.assert_allclose(step, whole[:, :, -1:])
    sides = (np.swapaxes(x, 1, 2) for x in (q, k, v))
    other = run(ops.attention, *sides, **attributes, layout="bshd")
    np.testing.assert_allclose(np.swapaxes(other, 1, 2), whole)


def test_attention_gradients() -> None:
    i = np.arange(24.0).reshape(1, 2, 4, 3)
    q, k, v, dy = 0.07 * i - 0.5, 0.05 * i - 0.3, 0.03 * i - 0.2, 0.02 * i - 0.1
    attributes: dict[str, Any] = {"num_heads": 2, "head_dim": 3, "mask_kind": "causal"}
    dq, dk, dv = run_all(ops.attention_backward, q, k, v, dy, **attributes)
    rows = [0, -0.0001168, 0.0006235, 0.0029161, 0, 0.0012777, 0.004265, 0.0093485]
    np.testing.assert_allclose(dq.ravel(), np.repeat(rows, 3), atol=1e-6)
    np.testing.assert_allclose(dk.ravel()[:3], [-0.0007916, -0.0012769, -0.0017622], atol=1e-6)
    first = [-0.0954183, -0.0538313, -0.0122443, 0.0066923, 0.0279368, 0.0491813,
             0.0271412, 0.0389135, 0.0506858, 0.0215848, 0.026981, 0.0323771]  # fmt: skip
    second = [0.351735, 0.3894091, 0.4270833, 0.2601792, 0.2817227, 0.3032661,
              0.1934042, 0.207019, 0.2206338, 0.1146816, 0.1218492, 0.1290168]  # fmt: skip
    np.testing.assert_allclose(dv.ravel(), [*first, *second], atol=1e-6)


def test_rope() -> None:
    x = np.array([[1.0, 0, 0, 1], [1, 1, 0, 0]])
    cos, sin = np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 1], [1, 0]])
    y = run(ops.rope, x, cos, sin, head_dim=4)
    np.testing.assert_array_equal(y, [[1, -1, 0, 0], [0, 1, 1, 0]])
    dy, angle = 0.1 * np.arange(16.0).reshape(1, 2, 8), 0.3 * np.arange(8.0).reshape(2, 4)
    dx = run(ops.rope, dy, np.cos(angle), -np.sin(angle), head_dim=8, n_rot=6)
    first = [0, 0.2137417, 0.4473884, 0.3, 0.3525826, 0.2997393, 0.6, 0.7]
    second = [1.3151292, 1.2606575, 1.0387998, -0.3470377, -0.8128608, -1.2692104, 1.4, 1.5]
    np.testing.assert_allclose(dx[0], [first, second], atol=1e-6)
    one_head = 10.0 * np.arange(1, 5) * np.ones((1, 1, 2, 1))
    cos, sin = np.array([[1.0, 1], [0, 0]]), np.array([[0.0, 0], [1, 1]])
    y = run(ops.rope, one_head, cos, sin, head_dim=4)
    np.testing.assert_array_equal(y[0, 0], [[10, 20, 30, 40], [-30, -40, 10, 20]])


def test_softmax_sums_to_one_and_has_no_gradient() -> None:
    for axis in range(3):
        feeds = Feeds()
        y = feeds.graph.softmax(feeds.give(RANDOM.standard_normal((3, 5, 2))), axis=axis)
        (gradient,) = feeds.gradients(feeds.graph.reduce_sum(y, axes=(0, 1, 2)))
        np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_cross_entropy() -> None:
    logits = np.array([[1.0, 2, 3], [-1, 0, 4], [5, 5, 5]])
    labels = np.array([2, 0, 1])
    loss = run(ops.softmax_cross_entropy_with_logits, logits, labels)
    np.testing.assert_allclose(loss, [0.407606, 5.0247449, 1.0986123], atol=1e-6)
    d = run(ops.softmax_cross_entropy_backward, logits, labels, np.ones(3))
    rows = [
        [0.0900306, 0.2447285, -0.334759],
        [-0.9934267, 0.017868, 0.9755588],
        [0.3333333, -0.6666667, 0.3333333],
    ]
    np.testing.assert_allclose(d, rows, atol=1e-6)


def test_tiny_network_with_pooling() -> None:
    feeds = Feeds()
    g, image = feeds.graph, RANDOM.standard_normal((1, 1, 6, 6))
    w, bias = feeds.give(0.2 * RANDOM.standard_normal((2, 1, 3, 3))), feeds.give(f64(5, 5.1))
    dense, last = feeds.give(0.5 * RANDOM.standard_normal((8, 3))), feeds.give(np.zeros(3))
    y = g.conv(g.constant(image, "f64"), w) + g.reshape(bias, shape=(1, 2, 1, 1))
    y = g.max_pool(g.relu(y), kernel_size=(2, 2), stride=(2, 2))
    logits = g.matmul(g.reshape(y, shape=(1, 8)), dense) + last
    losses = g.softmax_cross_entropy_with_logits(logits, g.constant(np.array([1])))
    loss = g.reduce_mean(losses, axes=(0,))
    for name, gradient in zip(feeds.arrays, feeds.gradients(loss), strict=True):
        np.testing.assert_allclose(gradient, _differences(feeds, loss, name), atol=1e-6)


def test_fused_forms() -> None:
    feeds = Feeds()
    x, w = feeds.give(f64(1, 2, 3)[None]), feeds.give(np.array([[1.0, 0], [0, 1], [0, 0]]))
    a, b = feeds.give(f64(1, 0, 1)[:, None]), feeds.give(f64(2, 4)[None])
    np.testing.assert_allclose(feeds.value(blocks.lora_matmul(x, w, a, b, scale=0.5)), [[5, 10]])
    feeds = Feeds()
    x = feeds.give(np.array([[1, 0.5, -0.5], [0, 1, 1]]))
    w = feeds.give(np.array([[1.0, 0], [0, -1], [2, 1]]))
    y = blocks.linear(x, w, feeds.give(np.zeros(2)), activation="relu")
    np.testing.assert_array_equal(feeds.value(y), [[0, 0], [2, 0]])
    feeds = Feeds()
    packed = feeds.give(np.array([[1, 2, 0.5, 1.5], [3, 4, 1, 2]]))
    y = blocks.packed_swiglu(packed)
    np.testing.assert_allclose(
        feeds.value(y), [[0.3112297, 2.4527234], [2.1931757, 7.0463766]], atol=1e-6
    )


@pytest.mark.parametrize(
    ("hidden", "key", "expected"),
    [
        (np.arange(1.0, 9).reshape(1, 2, 4), 0.0, [[3, 4, 5, 6], [3, 4, 5, 6]]),
        (
            np.array([[[1.0, 0, 0, 1], [0, 1, 1, 0]]]), 1.0,
            [[0.6697615, 0.3302385, 0.3302385, 0.6697615],
             [0.3302385, 0.6697615, 0.6697615, 0.3302385]],
        ),
    ],
)  # fmt: skip
def test_attention_block(hidden: Array, key: float, expected: Any) -> None:
    feeds, eye = Feeds(), np.eye(4)
    qkv = np.concatenate([eye, key * eye, eye], axis=1)
    operands = (feeds.give(each) for each in (hidden, qkv, eye, np.ones((1, 2))))
    y = feeds.value(blocks.packed_attention(*operands, num_heads=2, head_dim=2))
    np.testing.assert_allclose(y[0], expected, atol=1e-6)


@pytest.mark.parametrize("has_bias", [True, False])
def test_transformer_layer(has_bias: bool) -> None:
    feeds = Feeds()
    hidden = feeds.give((0.1 + 0.1 * np.arange(8.0)).reshape(1, 2, 4))
    qkv, out, up, down = (
        feeds.give(np.full(shape, 0.1)) for shape in ((4, 12), (4, 4), (4, 8), (8, 4))
    )
    norms = [(feeds.give(np.ones(4)), feeds.give(np.zeros(4)) if has_bias else None) for _ in "12"]
    biases = None
    if has_bias:
        first, second, third, fourth = (feeds.give(np.full(n, 0.1)) for n in (12, 4, 8, 4))
        biases = first, second, third, fourth
    mask = feeds.graph.constant(np.ones((1, 2, 2, 2)), "f64")
    y = blocks.packed_transformer_layer(
        hidden, qkv, out, norms[0], up, down, norms[1], mask, biases, num_heads=2, head_dim=2,
        eps=(1e-5, 1e-5),
    )  # fmt: skip
    counts = [node.op.name for node in feeds.graph.nodes]
    expected = {"matmul": 4, "attention": 1, "layer_norm": 2, "narrow": 3, "gelu": 1}
    assert {name: counts.count(name) for name in expected} == expected
    assert np.isfinite(feeds.value(y)).all()
    gradients = feeds.gradients(feeds.graph.reduce_sum(y * y, axes=(0, 1, 2)))
    assert len(gradients) == 1 + (12 if has_bias else 6)


def _differences(feeds: Feeds, loss: Value, name: str) -> Array:
    """Return central differences of `loss` by one input."""
    feeds.graph.set_outputs([loss])
    at = feeds.arrays[name]
    slopes = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = at.copy()
            moved[place] += step
            values.append(float(evaluate(feeds.graph, {**feeds.arrays, name: moved})[0]))
        slopes[place] = (values[0] - values[1]) / 2e-5
    return slopes


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

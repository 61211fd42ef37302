"""Attention and rotary embedding: known values, PyTorch, and invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.ir import ops
from tests.ir.reference.running import f64, run, run_all

_EYE = np.eye(2)[None]
_VALUES = np.array([[[10.0, 20], [30, 40]]])
_ONE_HEAD = {"num_heads": 1, "head_dim": 2}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, [[16.604769, 26.604769], [23.395231, 33.395231]]),
        ({"score_scale": 1.0}, [[15.3788284, 25.3788284], [24.6211716, 34.6211716]]),
        ({"softcap": 0.5}, [[17.8148474, 27.8148474], [22.1851526, 32.1851526]]),
        (
            {"softcap": 0.5, "score_scale": 1.0},
            [[17.6355342, 27.6355342], [22.3644658, 32.3644658]],
        ),
        ({"softcap": 0.0}, [[16.604769, 26.604769], [23.395231, 33.395231]]),
        ({"mask_kind": "sliding_window", "window": 0}, [[10, 20], [30, 40]]),
        ({"mask_kind": "causal"}, [[10, 20], [23.395231, 33.395231]]),
    ],
)
def test_attention_has_known_values(
    attributes: dict[str, Any], expected: list[list[float]]
) -> None:
    y = run(ops.attention, _EYE, _EYE, _VALUES, **_ONE_HEAD, **attributes)
    np.testing.assert_allclose(y, [expected], atol=1e-6)


def test_a_query_that_sees_no_key_gets_the_mean_of_the_values() -> None:
    hidden = np.zeros((1, 2))
    y = run(ops.attention, _EYE, _EYE, _VALUES, hidden, **_ONE_HEAD, mask_kind="custom")
    np.testing.assert_allclose(y, [[[20, 30], [20, 30]]])


def test_a_nan_in_a_custom_mask_is_visible() -> None:
    mask = np.array([[np.nan, 0.0]])
    y = run(ops.attention, _EYE, _EYE, _VALUES, mask, **_ONE_HEAD, mask_kind="custom")
    np.testing.assert_allclose(y, [[[10, 20], [10, 20]]])


def test_a_bias_row_of_minus_infinity_is_nan() -> None:
    bias = np.array([[[-np.inf, -np.inf], [0, 0]]])
    y = run(ops.attention, _EYE, _EYE, _VALUES, bias, **_ONE_HEAD, mask_kind="bias")
    assert np.isnan(y[0, 0]).all()
    np.testing.assert_allclose(y[0, 1], [23.395231, 33.395231], atol=1e-6)


def _qkv(shape: tuple[int, ...], seed: int = 8) -> list[NDArray[np.float64]]:
    return list(np.random.default_rng(seed).standard_normal((3, *shape)))


@pytest.mark.parametrize(
    "attributes", [{"mask_kind": "causal"}, {"mask_kind": "sliding_window", "window": 2}]
)
def test_a_decode_step_equals_the_last_row_of_the_full_run(attributes: dict[str, Any]) -> None:
    q, k, v = _qkv((2, 5, 8))
    heads = {"num_heads": 2, "head_dim": 4, **attributes}
    full = run(ops.attention, q, k, v, **heads)
    step = run(ops.attention, q[:, -1:], k, v, **heads)
    np.testing.assert_allclose(step, full[:, -1:], rtol=1e-13)


def test_both_layouts_agree_after_a_transpose() -> None:
    q, k, v = _qkv((2, 3, 5, 4))
    heads = {"num_heads": 3, "head_dim": 4, "mask_kind": "causal"}
    first = run(ops.attention, q, k, v, **heads)
    swapped = [np.swapaxes(x, 1, 2) for x in (q, k, v)]
    third = run(ops.attention, *swapped, **heads)
    np.testing.assert_allclose(np.swapaxes(third, 1, 2), first, rtol=1e-13)


def test_an_explicit_layout_decides_where_the_shape_is_ambiguous() -> None:
    q, k, v = _qkv((1, 3, 3, 4))
    heads = {"num_heads": 3, "head_dim": 4, "mask_kind": "causal"}
    auto = run(ops.attention, q, k, v, **heads)
    np.testing.assert_array_equal(auto, run(ops.attention, q, k, v, layout="bhsd", **heads))
    assert not np.allclose(auto, run(ops.attention, q, k, v, layout="bshd", **heads))


def test_grouped_heads_equal_repeated_ones() -> None:
    q = _qkv((2, 5, 16))[0]
    _, k, v = _qkv((2, 5, 8))
    heads = {"num_heads": 4, "head_dim": 4}
    grouped = run(ops.attention, q, k, v, **heads)
    repeated = [np.repeat(x.reshape(2, 5, 2, 4), 2, axis=2).reshape(2, 5, 16) for x in (k, v)]
    np.testing.assert_allclose(grouped, run(ops.attention, q, *repeated, **heads), rtol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradient_agree_with_pytorch(causal: bool) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = _qkv((2, 3, 5, 4))
    dy = _qkv((2, 3, 5, 4), seed=9)[0]
    bias = np.random.default_rng(10).standard_normal((2, 3, 5, 5))
    theirs = [torch.tensor(x, requires_grad=True) for x in (q, k, v, bias)]
    attend = torch.nn.functional.scaled_dot_product_attention
    options = {"is_causal": True} if causal else {"attn_mask": theirs[3]}
    expected = attend(*theirs[:3], **options)
    expected.backward(torch.tensor(dy))
    heads = {"num_heads": 3, "head_dim": 4, "mask_kind": "causal" if causal else "bias"}
    mask = [] if causal else [bias]
    y = run(ops.attention, q, k, v, *mask, **heads)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12)
    gradients = run_all(ops.attention_backward, q, k, v, dy, *mask, **heads)
    for ours, other in zip(gradients, theirs, strict=False):
        np.testing.assert_allclose(ours, other.grad.numpy(), atol=1e-12)


def _ramp(scale: float, offset: float, shape: tuple[int, ...]) -> NDArray[np.floating[Any]]:
    return (scale * np.arange(np.prod(shape)) + offset).reshape(shape)


def test_attention_backward_has_known_values() -> None:
    shape = (1, 2, 4, 3)
    q, k, v = _ramp(0.07, -0.5, shape), _ramp(0.05, -0.3, shape), _ramp(0.03, -0.2, shape)
    dy = _ramp(0.02, -0.1, shape)
    heads = {"num_heads": 2, "head_dim": 3, "mask_kind": "causal"}
    dq, dk, dv = run_all(ops.attention_backward, q, k, v, dy, **heads)
    rows = [[0, -0.0001168, 0.0006235, 0.0029161], [0, 0.0012777, 0.004265, 0.0093485]]
    np.testing.assert_allclose(dq, np.repeat(np.array(rows)[None, ..., None], 3, -1), atol=1e-7)
    first = [-0.0007916, -0.0012769, -0.0017622, -0.0000528, -0.000257, -0.0004611]
    np.testing.assert_allclose(dk[0, 0].ravel()[:6], first, atol=1e-7)
    second = [0.1934042, 0.207019, 0.2206338, 0.1146816, 0.1218492, 0.1290168]
    np.testing.assert_allclose(dv[0, 1].ravel()[6:], second, atol=1e-7)


def test_no_gradient_passes_through_a_hidden_score() -> None:
    q, k, v = _qkv((1, 3, 4))
    heads = {"num_heads": 1, "head_dim": 4, "mask_kind": "custom"}
    hidden = np.zeros((1, 3))
    dq, dk, dv = run_all(ops.attention_backward, q, k, v, q, hidden, **heads)
    np.testing.assert_array_equal(dq, 0 * q)
    np.testing.assert_array_equal(dk, 0 * k)
    np.testing.assert_allclose(dv, np.broadcast_to(q.mean(axis=1, keepdims=True), v.shape))


def test_f16_attention_hides_scores_without_overflow() -> None:
    q, k, v = (x.astype(np.float16) for x in _qkv((1, 3, 4)))
    hidden = np.zeros((1, 3), np.float16)
    y = run(ops.attention, q, k, v, hidden, num_heads=1, head_dim=4, mask_kind="custom")
    mean = v.astype(np.float32).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(y, np.broadcast_to(mean, y.shape), rtol=1e-3)


def test_rope_has_known_values() -> None:
    x = np.array([[1.0, 0, 0, 1], [1, 1, 0, 0]])
    cos, sin = np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 1], [1, 0]])
    y = run(ops.rope, x, cos, sin, head_dim=4)
    np.testing.assert_array_equal(y, [[1, -1, 0, 0], [0, 1, 1, 0]])
    heads_first = np.array([1.0, 2, 3, 4, 10, 20, 30, 40]).reshape(1, 1, 2, 4)
    quarter = np.array([[1.0, 1], [0, 0]]), np.array([[0.0, 0], [1, 1]])
    turned = run(ops.rope, heads_first, *quarter, head_dim=4)
    np.testing.assert_array_equal(turned[0, 0], [[1, 2, 3, 4], [-30, -40, 10, 20]])


def test_the_gradient_of_rope_is_rope_with_the_angles_negated() -> None:
    angles = 0.3 * np.arange(8).reshape(2, 4)
    dy = 0.1 * np.arange(16).reshape(1, 2, 8)
    dx = run(ops.rope, dy, np.cos(angles), -np.sin(angles), head_dim=8, n_rot=6)
    expected = [0, 0.2137417, 0.4473884, 0.3, 0.3525826, 0.2997393, 0.6, 0.7]
    expected += [1.3151292, 1.2606575, 1.0387998, -0.3470377, -0.8128608, -1.2692104, 1.4, 1.5]
    np.testing.assert_allclose(dx.ravel(), expected, atol=1e-7)


def test_rope_copies_elements_beyond_the_last_whole_head() -> None:
    x = np.arange(12.0).reshape(1, 2, 6)
    y = run(ops.rope, x, np.ones((2, 2)), np.zeros((2, 2)), head_dim=4)
    np.testing.assert_array_equal(y, x)


def test_rope_starts_its_table_over() -> None:
    x, angles = np.ones((1, 3, 2)), f64(0.1, 0.2).reshape(2, 1)
    y = run(ops.rope, x, np.cos(angles), np.sin(angles), head_dim=2)
    np.testing.assert_array_equal(y[0, 2], y[0, 0])

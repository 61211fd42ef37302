"""Conventions of derivatives: ties, kinks, complex values, integer operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad, grad_with_loss, jvp
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from tests.passes.autodiff.checking import (
    Array,
    Case,
    check_first_order,
    gradients,
    hessian_product_forward,
    pairing,
    tangents,
    tensors,
)

SHAPES_OF_A_LAYER = {"x": (1, 5), "w": (5, 3), "b": (3,)}


def gradient_of(build: Any, *arrays: Any) -> Array:
    """Return the gradient of the sum of `build` by its first operand."""
    case = Case("gradient", build, tuple(np.asarray(array, float) for array in arrays))
    return gradients(case.graph(), case.feeds, case.wrt)[0]


# Ties, zeros, infinities


def test_extrema_split_ties_over_all_reduced_axes() -> None:
    halves = gradient_of(lambda x: ops.reduce_max(x, axes=(0,)), [1, 3, 3, 2])
    np.testing.assert_allclose(halves, np.array([0, 0.5, 0.5, 0]))
    thirds = gradient_of(lambda x: ops.reduce_max(x, axes=(0, 1)), [[3, 3], [3, 2]])
    np.testing.assert_allclose(thirds, np.array([[1, 1], [1, 0]]) / 3)
    smallest = gradient_of(lambda x: ops.reduce_min(x, axes=(1,)), [[1, 1], [0, 1]])
    np.testing.assert_allclose(smallest, np.array([[0.5, 0.5], [1, 0]]))


@pytest.mark.parametrize("reduction", [ops.reduce_max, ops.reduce_min])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_more_ties_than_16_bits_count_share_the_derivative(reduction: Any, dtype: str) -> None:
    count = 70000
    graph = Graph("ties")
    x = graph.input("x", (count,), dtype)
    graph.set_outputs([reduction(x, axes=(0,), keepdims=True)])
    feeds = {"x": np.ones(count, x.dtype.numpy), "d_output": np.ones(1, x.dtype.numpy)}
    (slope,) = evaluate(grad(graph, ["x"]), feeds)
    np.testing.assert_array_equal(slope, np.full(count, 1 / count, np.float32).astype(slope.dtype))


@pytest.mark.parametrize("x", [[-np.inf, -np.inf], [-np.inf, 1.0], [np.inf, 0.0], [np.nan, 0.0]])
def test_logsumexp_of_nothing_but_impossible_terms_has_derivative_zero(x: list[float]) -> None:
    slope = gradient_of(lambda x: ops.logsumexp(x, axes=(0,)), x)
    expected = {-np.inf: [0, 0], 1.0: [0, 1], np.inf: [np.nan, 0]}.get(max(x), [np.nan, np.nan])
    np.testing.assert_array_equal(slope, expected)


def test_extremum_of_a_nan_has_no_derivative() -> None:
    result = gradient_of(lambda x: ops.reduce_max(x, axes=(0,)), [1, np.nan])
    np.testing.assert_array_equal(result, [0, 0])


def test_tangent_of_a_tied_maximum_is_the_mean_of_the_tied_tangents() -> None:
    case = Case("max", lambda x: ops.reduce_max(x, axes=(0,)), (np.array([2.0, 2.0, 1.0]),))
    (pushed,) = tangents(case.graph(), case.feeds, {"x0": np.array([1.0, 5.0, 7.0])})
    np.testing.assert_allclose(pushed, 3.0)


def test_gradients_of_a_batch_of_one_add_no_zero() -> None:
    """One row through a layer: no axis of one element is summed, no product begins with 0.0."""
    graph = Graph("layer")
    x, w, b = (graph.input(name, shape, "f32") for name, shape in SHAPES_OF_A_LAYER.items())
    graph.set_outputs([ops.reduce_sum(ops.tanh(ops.matmul(x, w) + b), axes=(0, 1))])
    used = [node.op for node in grad_with_loss(graph, ("w", "b")).nodes]
    assert used.count(ops.reduce_sum) == used.count(ops.matmul) == 1  # those of the loss itself


@pytest.mark.parametrize(
    ("x", "expected"), [([2, 0, 3], [0, 6, 0]), ([2, 0, 0], [0, 0, 0]), ([2, 3, 4], [12, 8, 6])]
)
def test_product_is_differentiated_without_division(x: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(gradient_of(lambda v: ops.reduce_prod(v, axes=(0,)), x), expected)


def test_hessian_of_a_product_is_exact_at_zeros() -> None:
    case = Case("prod", lambda v: ops.reduce_prod(v, axes=(0,)), (np.array([2.0, 0.0, 0.0]),))
    unit = [{"x0": row} for row in np.eye(3)]
    rows = [hessian_product_forward(case.graph(), case.feeds, moving)[0] for moving in unit]
    np.testing.assert_array_equal(rows, [[0, 0, 0], [0, 0, 2], [0, 2, 0]])


@pytest.mark.parametrize(
    ("name", "build", "x", "expected"),
    [
        ("sqrt", ops.sqrt, 0.0, -np.inf),
        ("rsqrt", ops.rsqrt, 0.0, np.inf),
        ("norm", lambda x: ops.sqrt(ops.reduce_sum(x * x, axes=(0,))), [0.0, 0.0], np.nan),
        ("square by pow", lambda x: x**2.0, 0.0, 2.0),
        ("abs", ops.abs, 0.0, 0.0),
        ("relu", ops.relu, 0.0, 0.0),
    ],
)
def test_second_derivative_at_a_singular_point(
    name: str, build: Any, x: Any, expected: float
) -> None:
    """That of both sides of a kink; else what IEEE arithmetic makes of the formula."""
    case = Case(name, build, (np.asarray(x),))
    moving = {"x0": np.ones_like(case.arrays[0])}
    (product,) = hessian_product_forward(case.graph(), case.feeds, moving)
    np.testing.assert_array_equal(product, np.full_like(case.arrays[0], expected))


def test_mixed_second_derivative_of_a_power_is_right_where_the_exponent_is_zero() -> None:
    """d/db (d/da a^b) = a^(b-1) (1 + b log a), which is 1/a at b = 0."""
    case = Case("pow", ops.pow, (np.array(4.0), np.array(0.0)))
    moving = {"x0": np.array(0.0), "x1": np.array(1.0)}
    by_a, _ = hessian_product_forward(case.graph(), case.feeds, moving)
    np.testing.assert_allclose(by_a, 0.25)


def test_sharp_softplus_has_a_sigmoid_for_a_derivative() -> None:
    x = np.array([0.005, 0.01, 0.02, 0.05, -0.005, -0.01, -0.02, -0.05])
    result = gradient_of(lambda v: ops.log(1.0 + ops.exp(200.0 * v)) / 200.0, x)
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-200 * x)), rtol=1e-12)


# Embeddings


def test_indices_in_f32_get_no_derivative_and_stop_none() -> None:
    g = Graph()
    table, index = g.input("table", (3, 2), "f32"), g.input("index", (2,), "f32")
    g.set_outputs([ops.gather(table, index)])
    step = grad_with_loss(g, [table, index], missing="zero")
    feeds = {"table": np.ones((3, 2), np.float32), "index": np.array([2, 0], np.float32)}
    _, d_table, d_index = evaluate(step, {**feeds, "d_output": np.ones((2, 2), np.float32)})
    np.testing.assert_array_equal(d_table[:, 0], [1, 0, 1])
    np.testing.assert_array_equal(d_index, [0, 0])


# Complex numbers: df/dx - i df/dy


def complex_gradient(build: Any, *arrays: Any, seed: Any = None) -> list[Array]:
    case = Case("complex", build, tuple(map(np.asarray, arrays)))
    return gradients(case.graph(), case.feeds, case.wrt, seed)


Z = np.array([2 + 1j, -1 + 3j], np.complex64)


def test_norm_square_pulls_back_to_the_cotangent_times_twice_the_conjugate() -> None:
    seed = np.array([0.5, -2], np.float32)
    (dz,) = complex_gradient(ops.complex_norm_sq, Z, seed=seed)
    np.testing.assert_array_equal(dz, [2 - 1j, 4 + 12j])


def test_real_cast_to_complex_counts_twice_the_real_part() -> None:
    """|x (1+2i)|^2 = 5 x^2: 30 at x = 3."""

    def build(x: Value) -> Any:
        z = ops.cast(x, to=DType.C64)
        return ops.complex_norm_sq(z * x.graph.constant(np.complex64(1 + 2j)))

    (dx,) = complex_gradient(build, np.array(3, np.float32))
    np.testing.assert_allclose(dx, 30, rtol=1e-6)


def test_complex_parts_have_gradients_by_parts() -> None:
    (dz,) = complex_gradient(lambda z: ops.real(z), Z)
    np.testing.assert_array_equal(dz, [1, 1])
    (dz,) = complex_gradient(lambda z: ops.imag(z), Z)
    np.testing.assert_array_equal(dz, [-1j, -1j])
    (dz,) = complex_gradient(lambda z: ops.cast(z, to=DType.F32), Z)
    np.testing.assert_array_equal(dz, [1, 1])


def one_complex(*shape: int) -> Array:
    real, imaginary = tensors(9, shape, shape)
    return np.asarray(real + 1j * imaginary, np.complex64)


COMPLEX = [
    ("neg", lambda z: -z, 1), ("exp", ops.exp, 1), ("log", ops.log, 1), ("sqrt", ops.sqrt, 1),
    ("square", ops.square, 1), ("reciprocal", ops.reciprocal, 1), ("conj", ops.conj, 1),
    ("real", ops.real, 1), ("imag", ops.imag, 1), ("norm", ops.complex_norm_sq, 1),
    ("mul", lambda a, b: a * b, 2), ("div", lambda a, b: a / b, 2),
    ("matmul", lambda a, b: a @ b, 2), ("sum", lambda z: ops.reduce_sum(z * z, axes=(0,)), 1),
    ("mean", lambda z: ops.reduce_mean(z * z, axes=(1,)), 1),
    ("prod", lambda z: ops.reduce_prod(z, axes=(1,)), 1),
    ("parts", lambda z: ops.complex(ops.real(z) * ops.imag(z), ops.real(z)), 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "build", "count"), COMPLEX, ids=lambda v: v if isinstance(v, str) else ""
)
def test_complex_tangents_and_cotangents_pair_and_match_differences(
    name: str, build: Any, count: int
) -> None:
    arrays = tuple(one_complex(2, 2) + np.complex64(i) for i in range(count))
    case = Case(name, build, arrays, smooth=False)
    graph, feeds = case.graph(), case.feeds
    moving = {key: one_complex(2, 2) * np.complex64(0.3 + 0.1j) for key in feeds}
    (pushed,) = tangents(graph, feeds, moving)
    step = np.float32(1e-2)
    after, before = (
        evaluate(graph, {k: a + side * step * moving[k] for k, a in feeds.items()})[0]
        for side in (np.float32(1), np.float32(-1))
    )
    np.testing.assert_allclose(pushed, (after - before) / (2 * step), rtol=2e-2, atol=2e-2)
    check_complex_pairing(case, moving, pushed)


def check_complex_pairing(case: Case, moving: dict[str, Array], pushed: Array) -> None:
    seed = np.asarray(np.ones(pushed.shape) * (0.7 - 0.2j if pushed.dtype.kind == "c" else 0.7))
    pulled = gradients(case.graph(), case.feeds, case.wrt, seed.astype(pushed.dtype))
    right = pairing(pulled, list(moving.values()))
    np.testing.assert_allclose(pairing([seed], [pushed]), right, rtol=1e-4, atol=1e-4)


# Dtypes


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_every_derivative_has_the_dtype_of_its_primal(dtype: str) -> None:
    g = Graph()
    x, gamma = g.input("x", (2, 3), dtype), g.param("gamma", (3,), dtype)
    y = ops.rms_norm(ops.gelu(x), gamma, axis=-1, eps=1e-3)
    y = ops.reduce_mean(ops.sqrt(ops.maximum(y, 0.1)) ** 2.0 + ops.softmax(y, axis=0), axes=(0, 1))
    g.set_outputs([y])
    inside = {DType(dtype)} if dtype == "f64" else {DType(dtype), DType.F32}
    for graph in (grad(g, [x, gamma]), jvp(g, [x, gamma])):
        assert {output.dtype for output in graph.outputs} == {DType(dtype)}
        made = {result.dtype for node in graph.nodes for result in node.results}
        assert {each for each in made if each.is_differentiable} <= inside


def test_cast_between_floats_casts_the_cotangent_back_and_integers_stop_it() -> None:
    g = Graph()
    x = g.input("x", (2,), "f32")
    whole = ops.cast(ops.cast(x, to=DType.I32), to=DType.F64)
    g.set_outputs([ops.cast(x, to=DType.F64) * 3.0 + whole])
    feeds = {"x": np.array([1.5, 2.5], np.float32)}
    _, dx = evaluate(grad_with_loss(g, [x]), {**feeds, "d_output": np.ones(2)})
    np.testing.assert_array_equal(dx, np.array([3, 3], np.float32))
    assert dx.dtype == np.float32
    _, t = evaluate(jvp(g, [x]), {**feeds, "tangent_x": feeds["x"]})
    np.testing.assert_array_equal(t, [4.5, 7.5])


# Whole programs


def test_attention_emits_one_backward_op_that_keeps_scale_and_softcap() -> None:
    g = Graph()
    q, k, v = (g.input(name, (1, 2, 4, 3), "f64") for name in "qkv")
    settings: dict[str, Any] = {"num_heads": 2, "head_dim": 3, "score_scale": 0.9, "softcap": 2.0}
    g.set_outputs([ops.attention(q, k, v, mask_kind="causal", **settings)])
    step = grad(g, [q, k, v])
    (backward,) = [node for node in step.nodes if node.op is ops.attention_backward]
    given = backward.attrs.as_dict()
    assert {name: given[name] for name in settings} == settings
    assert given["mask_kind"] == "causal"


def test_branch_that_is_not_taken_gives_no_nan() -> None:
    build = lambda x: ops.where(x > 0.0, ops.log(ops.where(x > 0.0, x, 1.0)), 0.0)  # noqa: E731
    np.testing.assert_array_equal(gradient_of(build, [-1.0, 2.0]), [0.0, 0.5])


# Forward mode by transposing twice


def test_a_quotient_and_both_of_its_derivatives_take_two_divisions() -> None:
    """The derivative by the divisor is that by the dividend times the quotient."""

    def loss(x: Value, scale: Value) -> Value:
        away = ops.div(x, scale)
        return ops.reduce_sum(ops.mul(away, away), axes=(0,))

    case = Case("div", loss, (np.array([1.0, -3.0, 2.0]), np.array([0.5, 4.0, -1.0])))
    derived = common_subexpressions(grad(case.graph(), case.wrt))
    assert [node.op.name for node in derived.nodes].count("div") == 2
    check_first_order(case)

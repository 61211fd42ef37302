"""Semantics of array functions: dtypes, axes, batches, known values, wrong uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
import rlx.random as rr
from rlx import blocks, nn
from rlx.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError, SingularMatrixError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.fusion.fuse import fuse
from rlx.passes.rewrites.simplify import simplify
from rlx.tracing.apply import emit

Array = NDArray[Any]
RANDOM = np.random.default_rng(2)


def built(build: Callable[..., Any], *arrays: Array) -> tuple[Graph, dict[str, Array]]:
    graph = Graph("fact")
    values = [graph.input(f"x{i}", x.shape, as_dtype(x.dtype)) for i, x in enumerate(arrays)]
    made = build(*values)
    graph.set_outputs([made] if isinstance(made, Value) else [*made])
    return graph, {f"x{i}": x for i, x in enumerate(arrays)}


def run(build: Callable[..., Any], *arrays: Array) -> list[Array]:
    """Return what compiled code gives, after comparing it with the reference interpreter."""
    graph, feeds = built(build, *arrays)
    expected = evaluate(graph, feeds)
    found = rlx.compile(graph, backend="llvm").run(feeds)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)
    return [np.asarray(each) for each in found]


def normals(seed: int, *shape: int) -> Array:
    """Normal numbers of `Philox(seed)`."""
    return np.asarray(rr.philox.normal(seed, 0, shape))


def c64(*numbers: complex) -> Array:
    return np.array(numbers, np.complex64)


def slope_by_differences(f: Callable[[Any], Any], x: Array, eps: float) -> Array:
    """Central differences of a sum, element by element."""
    steps = eps * np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    total = rlx.vmap(lambda step: f(x + step) - f(x - step))
    return np.asarray(total(steps)).reshape(x.shape) / (2 * eps)


# Operands of every dtype, axis and batch


def test_random_numbers_products_and_windows_are_lowered() -> None:
    a, b = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((4, 5, 2))
    batched = {"lhs_contracting": (2,), "rhs_contracting": (0,)}
    (found,) = run(lambda x, y: ops.dot_general(
        x, y, lhs_batch=(0,), rhs_batch=(2,), **batched), a, b)  # fmt: skip
    np.testing.assert_allclose(found, np.einsum("bik,kjb->bij", a, b), rtol=1e-12)
    drawn = rlx.jit(lambda: rr.philox.normal(42, 0, (4,)))()
    np.testing.assert_allclose(drawn, [0.1663436, 0.3978269, 0.957598, -0.6915805], rtol=1e-6)


def test_wrong_permutations_and_ranks_are_errors() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(ShapeError):
        built(lambda v: ops.transpose(v, perm=(0, 0, 1)), x)
    with pytest.raises(ShapeError):
        built(lambda v: ops.im2col(v, kernel_size=(2, 2)), x)


ANCHORS = [
    (ops.gelu, 0.8413447461, -0.1586552539),
    (ops.gelu_approx, 0.8411919906, -0.1588080094),
    (ops.silu, 0.7310585786, -0.2689414214),
]


@pytest.mark.parametrize(("op", "at_one", "below"), ANCHORS, ids=lambda x: str(x)[:20])
def test_f64_activations_are_those_of_the_one_table(op: Any, at_one: float, below: float) -> None:
    (found,) = run(op, np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, [at_one, below], atol=6e-11)
    graph = Graph("folded")
    graph.set_outputs([op(graph.constant(np.array([1.0, -1.0])))])
    np.testing.assert_allclose(evaluate(simplify(graph), {})[0], found, rtol=4e-16)


def test_the_slopes_of_activations_are_those_stated() -> None:
    ends = np.array([1.0, -1.0])
    stated = [
        (lambda x: nn.gelu(x, approximate=False), [1.0833154706, -0.0833154706]),
        (nn.silu, [0.9276705119, 0.0723294881]),
    ]
    for f, expected in stated:
        found = rlx.jit(rlx.grad(lambda x, f=f: rnp.sum(f(x))))(ends)
        np.testing.assert_allclose(found, expected, atol=6e-11)
    found = rlx.grad(nn.gelu)(np.float64(1.0))
    np.testing.assert_allclose(found, 1.0829640838, atol=6e-11)


@pytest.mark.parametrize("name", ["negative", "exp", "log", "sqrt"])
def test_complex_activations_have_derivatives(name: str) -> None:
    """The gradient of sum |f(z)|^2 is 2 conj(f) f'."""
    z = c64(1 + 0.5j, 0.5 - 1j, -2 + 0.1j)
    f: Any = getattr(rnp, name)
    found = rlx.jit(rlx.grad(lambda z: rnp.sum(rnp.abs(f(z)) ** 2)))(z)
    y = getattr(np, name)(z)
    slope = {"negative": -1 + 0 * z, "exp": y, "log": 1 / z, "sqrt": 0.5 / y}[name]
    np.testing.assert_allclose(found, 2 * np.conj(y) * slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int64", "complex64", "float64"])
def test_movement_copies_elements_of_every_size(dtype: str) -> None:
    x = (RANDOM.integers(0, 2 if dtype == "bool" else 100, (2, 3, 4))).astype(dtype)
    ids, mask = np.array([2, 0], np.int64), np.array([True, False, True, False])
    found = run(
        lambda v, i, m: [
            ops.concat(v, v, axis=1),
            ops.transpose(v, perm=(2, 0, 1)),
            ops.gather(v, i, axis=1),
            ops.where(m, v, ops.narrow(ops.concat(v, v, axis=0), axis=0, start=1, length=2)),
        ],
        *(x, ids, mask),
    )
    expected = [
        np.concatenate([x, x], 1),
        x.transpose(2, 0, 1),
        x[:, ids],
        np.where(mask, x, np.concatenate([x, x])[1:3]),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_the_larger_go_where_it_came_from() -> None:
    a, b = np.array([1, 5, 2], np.float32), np.array([4, 3, 9], np.float32)
    da, db = rlx.jit(rlx.grad(lambda a, b: rnp.sum(rnp.maximum(a, b)), argnums=(0, 1)))(a, b)
    np.testing.assert_array_equal(da, [0, 1, 0])
    np.testing.assert_array_equal(db, [1, 0, 1])


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint32"])
def test_a_trailing_operand_is_no_bias_of_a_smaller_one(dtype: str) -> None:
    x, y = np.arange(6).reshape(2, 3, 1).astype(dtype), np.arange(4).astype(dtype)
    (found,) = run(ops.add, x, y)
    np.testing.assert_array_equal(found, x + y)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "int64"])
def test_comparisons_and_choices_broadcast_in_their_own_arithmetic(dtype: str) -> None:
    x, y = np.array([[-1], [3]]).astype(dtype), np.array([-2, 3, 7]).astype(dtype)
    mask = np.array([0.0, -0.0, np.nan], np.float32)
    found = run(lambda x, y, m: [ops.lt(x, y), ops.eq(x, y), ops.where(m, x, y)], x, y, mask)
    for one, other in zip(found, (x < y, x == y, np.where(mask, x, y)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_any_axes_are_reduced_in_any_dtype(dtype: str) -> None:
    x = RANDOM.integers(1, 5, (2, 3, 4)).astype(dtype)
    folds: list[Any] = [ops.reduce_sum, ops.reduce_max, ops.reduce_min, ops.reduce_prod]
    found = run(lambda v: [fold(v, axes=(0, 2)) for fold in folds], x)
    numpys: list[Any] = [np.sum, np.max, np.min, np.prod]
    for one, numpys_fold in zip(found, numpys, strict=True):
        np.testing.assert_array_equal(one, numpys_fold(x, axis=(0, 2)))


def test_softmax_and_running_sums_go_along_any_axis() -> None:
    x = RANDOM.standard_normal((3, 4))
    soft, running = run(lambda v: [ops.softmax(v, axis=0), ops.cumsum(v, axis=0)], x)
    np.testing.assert_allclose(soft, np.exp(x) / np.exp(x).sum(0), rtol=1e-13)
    np.testing.assert_allclose(running, np.cumsum(x, 0), rtol=1e-13)
    weights = RANDOM.standard_normal((3, 4))
    slope = rlx.jit(rlx.grad(lambda v: rnp.sum(rnp.cumsum(v, 0) * weights)))(x)
    np.testing.assert_allclose(slope, np.cumsum(weights[::-1], 0)[::-1], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
def test_batches_of_products_broadcast(dtype: str) -> None:
    def some(*shape: int) -> Array:
        return RANDOM.integers(-4, 5, shape).astype(dtype)

    pairs = [
        (some(1, 2, 3), some(4, 3, 5)),
        (some(2, 3), some(4, 3, 5)),
        (some(4, 2, 3), some(3, 5)),
    ]
    for a, b in pairs:
        (found,) = run(ops.matmul, a, b)
        np.testing.assert_array_equal(found, a @ b)


@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.parametrize("kind", ["gather", "scatter_add"])
def test_indices_out_of_range_are_errors(kind: str, index: int) -> None:
    ids, x = np.array([0, index], np.int64), np.ones((2 if kind != "gather" else 3, 2), np.float32)

    def build(x: Any, i: Any) -> Any:
        return ops.gather(x, i, axis=0) if kind == "gather" else ops.scatter_add(x, i, size=3)

    graph, feeds = built(build, x, ids)
    with pytest.raises(IndexOutOfRangeError):
        rlx.compile(graph, backend="llvm").run(feeds)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_indices_of_every_dtype_are_read_as_numbers(dtype: str) -> None:
    table = RANDOM.standard_normal((5, 2))
    ids = np.array([[3, 0], [4, 1]])
    (found,) = run(lambda t, i: ops.gather(t, i, axis=0), table, ids.astype(dtype))
    np.testing.assert_array_equal(found, table[ids])


def test_inputs_of_a_region_are_read_by_their_strides() -> None:
    columns = [RANDOM.standard_normal((2, 1)).astype(np.float32) for _ in range(20)]
    whole = RANDOM.standard_normal((2, 3)).astype(np.float32)

    def build(x: Any, *rest: Any) -> Any:
        for each in rest:
            x = ops.tanh(x + each)
        return x

    (found,) = run(build, whole, *columns)
    expected = whole
    for column in columns:
        expected = np.tanh(expected + column)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_singular_system_is_an_error() -> None:
    graph, feeds = built(
        lambda a, b: ops.solve(a, b, vector=True), np.ones((3, 2, 2)), np.ones((3, 2))
    )
    with pytest.raises(SingularMatrixError):
        rlx.compile(graph, backend="llvm").run(feeds)


# Known values

DIFFERENCES: list[tuple[str, Any, str, float, float]] = [
    ("sigmoid", nn.sigmoid, "any", 1e-3, 5e-3),
    ("tanh", nn.tanh, "any", 1e-3, 5e-3),
    ("silu", nn.silu, "any", 1e-3, 5e-3),
    ("gelu", lambda x: nn.gelu(x, approximate=False), "any", 1e-3, 5e-3),
    ("gelu approx", nn.gelu, "any", 1e-3, 5e-3),
    ("exp", rnp.exp, "any", 1e-4, 5e-3),
    ("log", rnp.log, "positive", 1e-4, 5e-3),
    ("sqrt", rnp.sqrt, "positive", 1e-4, 5e-3),
    ("rsqrt", lambda x: 1 / rnp.sqrt(x), "positive", 1e-4, 5e-3),
    ("neg", rnp.negative, "any", 1e-3, 5e-4),
]


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: case[0])
def test_activations_against_differences(case: tuple[str, Any, str, float, float]) -> None:
    """Differences are taken in f64: in f32 a step of 1e-4 leaves three digits."""
    _, f, data, eps, tolerance = case
    draws = normals(91, 96).astype(np.float64).reshape(3, 32)
    x, dy = (np.abs(draws[0]) + 0.5 if data == "positive" else draws[1]), draws[2]
    found = rlx.grad(lambda x: rnp.sum(f(x) * dy.astype(np.float32)))(x.astype(np.float32))
    differences = dy * np.asarray(f(x + eps) - f(x - eps)) / (2 * eps)
    np.testing.assert_allclose(found, differences, atol=tolerance)


def test_relu_backward() -> None:
    x = np.array([-2, -0.1, 0, 0.1, 1, 3, -5], np.float32)
    dy = np.array([0.5, 1.5, 2.5, -0.7, 4, -1, 9], np.float32)
    found = rlx.jit(rlx.grad(lambda x: rnp.sum(nn.relu(x) * dy)))(x)
    np.testing.assert_array_equal(found, np.array([0, 0, 0, -0.7, 4, -1, 0], np.float32))


def test_binary_ops_combine_rows_and_columns() -> None:
    a, b = np.array([[1.5], [-2], [0.25], [4]]), np.array([[3, -1.5, 2.5]])
    found = run(lambda a, b: [a + b, a - b, a * b, a / b], a, b)
    for one, other in zip(found, (a + b, a - b, a * b, a / b), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    da, db = rlx.jit(rlx.grad(lambda a, b: rnp.sum(a * b), argnums=(0, 1)))(a, b)
    np.testing.assert_allclose(da, np.full((4, 1), 4.0), atol=1e-10)
    np.testing.assert_allclose(db, np.full((1, 3), 3.75), atol=1e-10)


def test_binary_ops_broadcast_in_the_middle_and_per_channel() -> None:
    shape, narrow = (2, 3, 4, 3, 4), (2, 3, 4, 1, 4)
    wide = (0.01 * np.arange(288)).reshape(shape).astype(np.float32)
    thin = (0.01 * (np.arange(96) + 100)).reshape(narrow).astype(np.float32)
    image, channels = (
        wide.reshape(-1)[:18].reshape(1, 2, 3, 3),
        np.array([[[[1]], [[5]]]], np.float32),
    )
    rows, row = np.arange(1.0, 13).reshape(4, 3), np.array([10.0, 20, 30])
    found = run(lambda a, b, c, d, e, f: [a + b, c + d, e + f],
                wide, thin, image, channels, rows, row)  # fmt: skip
    np.testing.assert_allclose(found[0], wide + thin, atol=1e-6)
    np.testing.assert_allclose(found[1], image + channels, atol=1e-6)
    np.testing.assert_allclose(found[2], rows + row, atol=1e-12)


def test_two_complex_numbers_have_sixteen_bytes() -> None:
    assert rnp.zeros(2, "complex64").nbytes == 16
    with pytest.raises(DTypeError):
        rnp.zeros(2, "complex64") > 1  # noqa: B015  # what is refused


def test_norm_square_and_its_gradient() -> None:
    z, g = c64(2 + 1j, -1 + 3j), np.array([0.5, -2], np.float32)
    (squares,) = run(ops.complex_norm_sq, c64(3 + 4j, 1, 0))
    np.testing.assert_array_equal(squares, [25, 1, 0])
    found = rlx.jit(rlx.grad(lambda z: rnp.sum(g * (rnp.real(z) ** 2 + rnp.imag(z) ** 2))))(z)
    np.testing.assert_allclose(found, c64(2 - 1j, 4 + 12j), atol=1e-6)


def test_wirtinger_quotients_sums_and_conjugates() -> None:
    a, b = c64(1 + 0.5j, 0.5 - 1j, -2), c64(0.7 - 0.2j, -0.3 + 0.6j, 1.5 - 0.8j)

    def slopes(f: Any) -> Any:
        return rlx.jit(rlx.grad(lambda a, b: rnp.sum(rnp.abs(f(a, b)) ** 2), argnums=(0, 1)))(a, b)

    da, db = slopes(lambda a, b: a / b)
    np.testing.assert_allclose(da, 2 * a.conj() / np.abs(b) ** 2, atol=1e-4)
    expected = -2 * b.conj() * np.abs(a) ** 2 / np.abs(b) ** 4
    np.testing.assert_allclose(db, expected, rtol=1e-5, atol=1e-4)
    for slope in slopes(lambda a, b: a + b):
        np.testing.assert_allclose(slope, 2 * (a + b).conj(), atol=1e-5)
    np.testing.assert_array_equal(rlx.jit(lambda a: rnp.conj(rnp.conj(a)))(a), a)


def test_reductions_softmax_of_equal_weights_has_no_slope() -> None:
    x = normals(57, 3, 5)
    found = rlx.jit(rlx.grad(lambda x: rnp.sum(nn.softmax(x))))(x)
    np.testing.assert_allclose(found, np.zeros((3, 5)), atol=1e-6)
    differences = slope_by_differences(lambda x: rnp.sum(nn.softmax(x)), x, 1e-3)
    np.testing.assert_allclose(found, differences, atol=5e-3)


def test_matmul_of_batches_against_differences() -> None:
    draws = normals(101, 64)
    a, b = draws[:24].reshape(2, 3, 4), draws[24:].reshape(2, 4, 5)
    found = rlx.jit(rlx.grad(lambda b: rnp.sum(a @ b)))(b)
    differences = slope_by_differences(lambda b: rnp.sum(a @ b), b, 1e-3)
    np.testing.assert_allclose(found, differences, atol=5e-3)


def test_matmul_of_a_batch_is_that_of_its_rows() -> None:
    x, w, b = (RANDOM.standard_normal(s) for s in ((4, 3), (3, 3), (3,)))
    found = rlx.jit(rlx.vmap(lambda x: x @ w + b))(x)
    np.testing.assert_allclose(found, [row @ w + b for row in x], atol=1e-12)


def test_region_of_trailing_and_single_operands() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    bias, scale = np.array([10, 20, 30, 40], np.float32), np.array([1, 2, 3, 4], np.float32)
    (found,) = run(lambda x, b, s: (x + b) * s, x, bias, scale)
    np.testing.assert_array_equal(found, (x + bias) * scale)
    y, half, two = (
        np.arange(1, 7, dtype=np.float32),
        np.array([0.5], np.float32),
        np.array([2], np.float32),
    )
    (found,) = run(lambda x, b, s: (x + b) * s, y, half, two)
    np.testing.assert_array_equal(found, (y + half) * two)


def test_region_compare_where_add_is_one_chain() -> None:
    x = np.zeros(8, np.float32)
    graph, _ = built(lambda a, b, c: ops.where(ops.gt(a, b), a, b) + c, x, x, x)
    (node,) = [n for n in fuse()(simplify(graph)).nodes if n.op is ops.fused]
    body = [n.op.name for n in node.attribute("body").nodes]
    assert [name for name in body if name in ("gt", "where", "add")] == ["gt", "where", "add"]


def test_fft_norms_axes_and_batches() -> None:
    x = RANDOM.standard_normal((8, 3)) + 1j * RANDOM.standard_normal((8, 3))
    np.testing.assert_allclose(rnp.fft.fft(x, axis=0), np.fft.fft(x, axis=0), atol=1e-9)
    np.testing.assert_array_equal(rnp.fft.fft(x, axis=-1), rnp.fft.fft(x))
    for norm in ("backward", "ortho", "forward"):
        back = rnp.fft.ifft(rnp.fft.fft(x, norm=norm), norm=norm)
        np.testing.assert_allclose(back, x, atol=1e-9)
    square = c64(1, 2j, 3, 4 - 1j).reshape(2, 2)
    twice = rnp.fft.ifftn(rnp.fft.fftn(square), norm="forward")
    np.testing.assert_allclose(twice, 4 * square, atol=1e-4)
    rows = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]])
    single = [np.asarray(rnp.fft.fft(row)) for row in rows]
    np.testing.assert_allclose(rnp.fft.fft(rows), single, atol=1e-12)


def test_fft_helpers_of_real_signals() -> None:
    signal, four = np.array([1, 2, 3], np.float32), np.array([1, 2, 3, 0.5], np.float32)
    re, im = run(blocks.fft_real, signal)
    np.testing.assert_allclose(re + 1j * im, [6, -2 - 2j, 2, -2 + 2j], atol=1e-5)
    re, im = run(blocks.rfft, four)
    np.testing.assert_allclose(re + 1j * im, [6.5, -2 - 1.5j, 1.5], atol=1e-5)
    (power,) = run(
        blocks.psd, np.array([3, 0, 4, 0], np.float32), np.array([0, 1, 0, 2], np.float32)
    )
    np.testing.assert_allclose(power, [9 / 4, 1 / 4, 4, 1], atol=1e-6)
    (power,) = run(blocks.psd_real, four)
    np.testing.assert_allclose(power, np.abs([6.5, -2 - 1.5j, 1.5]) ** 2 / 3, rtol=1e-5)
    (frames,) = run(lambda x: blocks.stft(x, 4, 4), four)
    np.testing.assert_allclose(frames, [[6.5, -2, 1.5, 0, -1.5, 0]], atol=1e-5)
    (frames,) = run(lambda x: blocks.stft(x, 4, 3), RANDOM.standard_normal((2, 10)))
    assert frames.shape == (3, 2, 6)


@pytest.mark.parametrize("n", [1, 2, 8, 13])
def test_fft_real_round_trips_of_batches(n: int) -> None:
    x = RANDOM.standard_normal((2, 3, n)).astype(np.float32)
    (back,) = run(lambda v: blocks.irfft(*blocks.rfft(v, "forward"), n, "forward"), x)
    np.testing.assert_allclose(back, x, atol=1e-4)


@pytest.mark.parametrize("n_fft", [1, 12, 16, 64])
def test_convolutions_by_transforms_take_any_larger_length(n_fft: int) -> None:
    a, b = RANDOM.standard_normal(5), RANDOM.standard_normal(4)
    (found,) = run(lambda a, b: blocks.fft_conv1d(a, b, n_fft), a, b)
    np.testing.assert_allclose(found, np.convolve(a, b), atol=1e-12)


def test_helpers_refuse_what_does_not_fit() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(ShapeError, match="must have 5"):
        built(lambda v: blocks.irfft(v, v, 8), x)
    with pytest.raises(ShapeError, match="do not fit into 4"):
        built(lambda v: blocks.stft(v, 5, 1), x)
    with pytest.raises(InputError, match="norm is 'both'"):
        built(lambda v: blocks.rfft(v, "both"), x)
    assert [blocks.next_pow2(n) for n in (0, 1, 5, 8)] == [1, 1, 8, 8]
    assert blocks.bit_reverse(0b0011, 4) == 0b1100


def test_fft_tangent_is_the_transform_of_the_tangent() -> None:
    x, t = (RANDOM.standard_normal(8) + 1j * RANDOM.standard_normal(8) for _ in range(2))
    _, found = rlx.jit(lambda x, t: rlx.jvp(rnp.fft.fft, (x,), (t,)))(x, t)
    np.testing.assert_allclose(found, np.fft.fft(t), atol=1e-9)


def test_log_mel_slopes_against_differences() -> None:
    filters = ((np.arange(4 * 17) % 5) * 0.05 + 0.02).reshape(4, 17).astype(np.float32)
    spec, k = np.zeros(64, np.float32), np.arange(17)
    spec[:17], spec[32:49] = 0.2 * (k + 1), -0.1 * k

    def loss(x: Any) -> Any:
        return rnp.sum(emit(ops.log_mel, x, filters))

    found = rlx.jit(rlx.grad(loss))(spec)
    differences = slope_by_differences(rlx.jit(loss), spec, 1e-2)
    np.testing.assert_allclose(found, differences, rtol=0.02, atol=2e-4)


def test_rng_streams_repeat_and_keys_differ() -> None:
    first, again = (rr.philox.uniform(42, 1, (1000,)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, rr.philox.uniform(42, 2, (1000,)))
    assert (np.asarray(first) >= 0).all()
    assert (np.asarray(first) < 1).all()

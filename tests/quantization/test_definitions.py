"""Quantization ops against loops over single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.quant import quantized_bits
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad
from rlx.passes.autodiff.errors import NonDifferentiableError
from rlx.quantization import CalibrationEntry, insert_q_dq, quant_propagate
from tests.ir.reference.test_quant import SWEEP, apply, round_away

Array = np.ndarray[Any, Any]
LARGEST = {8: 127, 4: 7, 2: 1}
THROUGH = ("identity", "clipped_identity", "tanh", "hard_tanh")
SHAPED = [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in SWEEP]


def swept(shape: tuple[int, ...], axis: int | None) -> tuple[Array, Array, Array, Array]:
    """Return x, dy, fixed scales, and the channel of each element."""
    index = np.arange(np.prod(shape)).reshape(shape)
    channel = np.zeros(shape, int) if axis is None else np.indices(shape)[axis]
    state = 0.01 + 0.05 * np.arange(channel.max() + 1)
    x, dy, scales = (a.astype(np.float32) for a in (0.07 * index - 1.3, 0.13 * index - 0.4, state))
    return x, dy, scales, channel


def rounded(x: float, scale: float, largest: int) -> float:
    return float(np.clip(round_away(x / scale), -largest, largest)) * scale


def passed(x: float, scale: float, bound: float, through: str) -> float:
    """Return the straight-through derivative."""
    if through == "clipped_identity":
        return float(abs(x) <= bound)
    if through == "tanh":
        return float(1 - np.tanh(x / scale) ** 2)
    return max(0.0, 1 - abs(x / bound)) if through == "hard_tanh" else 1.0


@pytest.mark.parametrize(("shape", "axis"), SHAPED)
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_fixed_scales_are_those_of_a_loop(
    shape: tuple[int, ...], axis: int | None, bits: int
) -> None:
    x, _, scales, channel = swept(shape, axis)
    made = apply(ops.fake_quantize, x, scales, bits=bits, axis=axis)
    expected = [
        rounded(float(np.float32(v)), float(s), LARGEST[bits])
        for v, s in zip(x.ravel(), scales[channel].ravel(), strict=True)
    ]
    np.testing.assert_allclose(made.ravel(), expected, atol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), SHAPED)
@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_estimators_are_those_of_a_loop(
    shape: tuple[int, ...], axis: int | None, through: str, fixed: bool, bits: int
) -> None:
    x, dy, scales, channel = swept(shape, axis)
    largest = np.array([np.abs(x[channel == c]).max() for c in range(len(scales))])
    own = scales if fixed else largest / LARGEST[bits]
    bound = LARGEST[bits] * scales if fixed else largest
    given = (scales,) if fixed else ()
    made = apply(ops.fake_quantize_backward, x, dy, *given, bits=bits, axis=axis,
                 straight_through=through)  # fmt: skip
    expected = [
        float(d) * passed(float(v), float(own[c]), float(bound[c]), through)
        for v, d, c in zip(x.ravel(), dy.ravel(), channel.ravel(), strict=True)
    ]
    np.testing.assert_allclose(made.ravel(), expected, atol=1e-5)


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_the_largest_magnitude_of_a_channel_counts_as_inside(bits: int) -> None:
    """Also where its quotient by the scale is rounded up, beyond the largest code."""
    x = np.random.default_rng(5).normal(size=(64, 7)).astype(np.float32)
    dx = apply(ops.fake_quantize_backward, x, np.ones_like(x), bits=bits, axis=0,
               straight_through="clipped_identity")  # fmt: skip
    np.testing.assert_array_equal(dx, np.ones_like(x))


@pytest.mark.parametrize(("shape", "axis"), SHAPED)
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_learned_steps_are_those_of_a_loop(
    shape: tuple[int, ...], axis: int | None, bits: int
) -> None:
    x, dy, scales, channel = swept(shape, axis)
    largest, options = LARGEST[bits], {"bits": bits, "axis": axis}
    of_x = apply(ops.fake_quantize_lsq_backward_x, x, scales, dy, **options)
    of_scale = apply(ops.fake_quantize_lsq_backward_scale, x, scales, dy, **options)
    wanted_x, wanted_scale = np.zeros_like(x), np.zeros(len(scales))
    for place, value in np.ndenumerate(x):
        z = float(np.float32(value) / scales[channel[place]])
        inside = abs(z) <= largest
        wanted_x[place] = dy[place] if inside else 0
        psi = round_away(z) - z if inside else largest * np.sign(z)
        wanted_scale[channel[place]] += psi * dy[place]
    np.testing.assert_array_equal(of_x, wanted_x)
    np.testing.assert_allclose(of_scale, wanted_scale, rtol=1e-4, atol=1e-4)


def test_learned_steps_of_nan_are_those_below_the_range() -> None:
    x, scale = np.array([np.nan], np.float32), np.array([0.5], np.float32)
    ones = np.ones(1, np.float32)
    assert apply(ops.fake_quantize_lsq_backward_x, x, scale, ones, bits=4).tolist() == [0]
    assert apply(ops.fake_quantize_lsq_backward_scale, x, scale, ones, bits=4).tolist() == [-7]


def test_a_channel_of_nan_alone_has_the_smallest_scale() -> None:
    x = np.array([[np.nan, np.nan], [1.27, 0]], np.float32)
    made = apply(ops.fake_quantize, x, axis=0)
    np.testing.assert_allclose(made, x, rtol=1e-6)
    _, state = apply(ops.fake_quantize_ema, x, np.zeros(2, np.float32), decay=0.5, axis=0)
    np.testing.assert_allclose(state, [1e-12, 0.01], rtol=1e-5)


def test_a_step_keeps_its_moving_average_from_run_to_run() -> None:
    """The new average replaces the old in place; who else reads it sees the old one."""

    def step(state: Any, x: Any) -> Any:
        y, new = rlx.nn.fake_quantize_ema(x, state, decay=0.9)
        return new, state, y

    run, state = rlx.jit(step, donate_argnums=0, backend="c"), np.zeros(1, np.float32)
    found = []
    for largest in (1.27, 2.54, 0.0):
        before = float(state[0])
        state, seen, _ = run(state, np.array([largest], np.float32))
        assert float(seen[0]) == before
        found.append(float(state[0]))
    np.testing.assert_allclose(found, [0.01, 0.011, 0.0099], rtol=1e-5)


def test_the_bits_of_a_rounding_are_known() -> None:
    graph = Graph("bits")
    x, s = graph.input("x", (3,), "f32"), graph.input("s", (1,), "f32")
    assert quantized_bits(graph.fake_quantize(x, bits=4)) == 4
    assert quantized_bits(graph.fake_quantize_lsq(x, s, bits=2)) == 2
    assert quantized_bits(graph.relu(x)) is None


def integer_product(depth: int, multiplier: float) -> Graph:
    graph = Graph("sums")
    x, w = graph.input("x", (2, depth), "i8"), graph.input("w", (depth, 3), "i8")
    bias = graph.input("bias", (3,), "i32")
    graph.set_outputs([graph.qmatmul(x, w, bias, multiplier=(multiplier,))])
    return graph


@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_sums_wrap_at_32_bits(backend: str) -> None:
    """One more than the largest is the least: sanitizers and every machine agree."""
    bias = np.array([2**31 - 1, -(2**31), 2**31 - 5], np.int32)
    x, w = np.ones((2, 4), np.int8), np.array([[1, -1, 1]] * 4, np.int8)
    run = rlx.compile(integer_product(4, 2.0**-25), backend=backend)
    (made,) = run.run({"x": x, "w": w, "bias": bias})
    np.testing.assert_array_equal(made, [[-64, 64, 64]] * 2)


@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_sums_beyond_24_bits_are_rounded_to_even_and_ties_away_from_zero(backend: str) -> None:
    bias = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1], np.int32)
    x, w = np.zeros((2, 4), np.int8), np.zeros((4, 3), np.int8)
    run = rlx.compile(integer_product(4, 2.5 / 2**24), backend=backend)
    (made,) = run.run({"x": x, "w": w, "bias": bias})
    np.testing.assert_array_equal(made, [[3, 3, -3]] * 2)  # 2.5 in f32, 2.5000005, -2.5


@pytest.mark.parametrize("op", [ops.qmatmul, ops.qconv])
def test_gradients_of_codes_are_f32_and_those_of_a_bias_are_refused(op: Any) -> None:
    graph, convolved = Graph("bias"), op is ops.qconv
    x = graph.input("x", (2, 3, 4) if convolved else (5, 3), "i8")
    w = graph.input("w", (4, 3, 1) if convolved else (3, 4), "i8")
    y = op(x, w, graph.input("bias", (4,), "i32"), multiplier=(0.25,))
    total = graph.reduce_sum(graph.dequantize(y, scales=(1.0,)), axes=tuple(range(y.rank)))
    graph.set_outputs([total])
    found = grad(graph, ["x", "w"])
    assert [str(slope.dtype) for slope in found.outputs] == ["f32", "f32"]
    with pytest.raises(NonDifferentiableError, match="'bias' has dtype i32"):
        grad(graph, ["bias"])


def chain(between: Any, *, axis: int | None = None, fixed: bool = False, **choice: Any) -> Graph:
    graph = Graph("chain")
    x = graph.input("x", (4, 8), "f32")
    count = 1 if axis is None else 4
    scales = [graph.input("s", (count,), "f32")] if fixed else []
    first = graph.fake_quantize(x, *scales, axis=axis, **choice)
    graph.set_outputs([graph.fake_quantize(between(graph, first), *scales, axis=axis, **choice)])
    return graph


def transposed(graph: Graph, x: Value) -> Value:
    return graph.transpose(x, perm=(1, 0))


def expanded(graph: Graph, x: Value) -> Value:
    return graph.expand(graph.reshape(x, shape=(1, 4, 8)), shape=(3, 4, 8))


def narrowed(graph: Graph, x: Value) -> Value:
    return graph.narrow(x, axis=1, start=2, length=3)


def clipped(graph: Graph, x: Value) -> Value:
    return graph.relu(x)


def same(_: Graph, x: Value) -> Value:
    return x


@pytest.mark.parametrize(
    ("between", "options", "left"),
    [
        (transposed, {}, 1),
        (expanded, {}, 1),
        (narrowed, {}, 2),  # the batch's scale is another one
        (narrowed, {"fixed": True}, 1),
        (clipped, {"fixed": True, "axis": 0}, 1),
        (transposed, {"fixed": True}, 1),
        (same, {"axis": 0}, 1),
        (same, {"straight_through": "tanh"}, 2),  # two slopes are no one slope
        (same, {"straight_through": "clipped_identity"}, 1),
    ],
)
def test_ops_that_may_be_between_two_roundings(between: Any, options: Any, left: int) -> None:
    found = quant_propagate(chain(between, **options))
    assert [node.op.name for node in found.nodes].count("fake_quantize") == left


def test_moving_averages_are_never_left_out() -> None:
    graph = Graph("averages")
    x, s = graph.input("x", (4,), "f32"), graph.input("s", (1,), "f32")
    y, first = graph.fake_quantize_ema(x, s, decay=0.9)
    graph.set_outputs([*graph.fake_quantize_ema(y, s, decay=0.9), first])
    found = quant_propagate(graph)
    assert [node.op.name for node in found.nodes].count("fake_quantize_ema") == 2


def test_states_that_differ_keep_both_roundings() -> None:
    graph = Graph("states")
    x, s, t = (graph.input(n, (4 if n == "x" else 1,), "f32") for n in "xst")
    graph.set_outputs([graph.fake_quantize(graph.fake_quantize(x, s), t)])
    found = quant_propagate(graph)
    assert [node.op.name for node in found.nodes].count("fake_quantize") == 2


def test_outputs_that_name_a_tap_are_rounded_and_keep_their_names() -> None:
    graph = Graph("named")
    y = graph.relu(graph.input("x", (4,), "f32"))
    graph.set_outputs([y, graph.exp(y)])
    graph.output_names = ("y", "e")
    found = insert_q_dq(graph, {y: CalibrationEntry.per_tensor(0.1)})
    assert found.name == "named"
    assert found.output_names == ("y", "e")
    assert found.outputs[0].op.name == "dequantize"
    (rounded_y, _) = rlx.compile(found, backend="reference").run({"x": [0.04, 0.06, -1, 99]})
    np.testing.assert_allclose(rounded_y, [0, 0.1, 0, 12.7], rtol=1e-6)


def test_gradients_pass_quantize_and_dequantize_as_they_are() -> None:
    def total(x: Any) -> Any:
        return rnp.sum(rlx.nn.fake_quantize(x) * np.arange(3, dtype=np.float32))

    np.testing.assert_array_equal(rlx.grad(total)(np.ones(3, np.float32)), [0, 1, 2])
    graph = Graph("pair")
    x = graph.input("x", (3,), "f32")
    pair = graph.dequantize(graph.quantize(x, scales=(0.1,)), scales=(0.1,))
    graph.set_outputs([graph.reduce_sum(pair, axes=(0,))])
    feeds = {"x": np.array([0.01, 5, 999], np.float32), "d_output": np.array(2, np.float32)}
    (slope,) = evaluate(grad(graph, ["x"]), feeds)
    np.testing.assert_array_equal(slope, [2, 2, 2])


EDGES = np.array(
    [0.0, -0.0, 0.49999997, 0.5, -0.5, 1.5, -1.5, 126.5, 127.49, 127.5, -127.5, -128.5, -129.0,
     300.0, 32766.5, 32767.5, -32768.5, 40000.0, 8388607.5, 2.0**31, -(2.0**31), 3e38, -3e38,
     np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_codes_at_the_ends_of_every_range_are_those_of_a_loop(backend: str) -> None:
    """With and without a zero point, and with one that 16 bits do not hold."""
    points = (0, 3, -128, 127, 300, -20_000, 40_000)
    graph = Graph("edges")
    x = graph.input("x", EDGES.shape, "f32")
    graph.set_outputs([graph.quantize(x, scales=(1.0,), zero_points=(p,)) for p in points])
    found = rlx.compile(graph, backend=backend).run({"x": EDGES})
    for point, codes in zip(points, found, strict=True):
        whole = [0 if np.isnan(v) else round_away(float(np.clip(v, -3e9, 3e9))) for v in EDGES]
        bounded = np.clip(whole, -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(codes, np.clip(bounded + point, -128, 127))


RANDOM = np.random.default_rng(3)


def test_casts_between_floats_and_bytes_convert() -> None:
    graph = Graph("casts")
    x = graph.input("x", (3,), "f32")
    graph.set_outputs([graph.cast(graph.cast(x, to="i8"), to="f32")])
    for backend in ("reference", "c", "llvm"):
        run = rlx.compile(graph, backend=backend)
        (made,) = run.run({"x": np.array([1.7, -3.2, 100], np.float32)})
        np.testing.assert_array_equal(made, [1, -3, 100])


def test_gradients_use_the_scale_that_was_given_or_averaged() -> None:
    x = np.array([-2, -0.4, 0.1, 0.6, 1], np.float32)

    def fixed(x: Any) -> Any:
        scale = np.array([0.1], np.float32)
        return rnp.sum(rlx.nn.fake_quantize(
            x, scale, bits=4, straight_through="clipped_identity"))  # fmt: skip

    def averaged(x: Any) -> Any:
        state = np.array([0.1], np.float32)
        made, _ = rlx.nn.fake_quantize_ema(
            x, state, decay=1.0, bits=4, straight_through="clipped_identity"
        )
        return rnp.sum(made)

    for function in (fixed, averaged):
        np.testing.assert_array_equal(rlx.grad(function)(x), [0, 1, 1, 1, 0])


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolutions_have_one_to_three_dimensions(spatial: int) -> None:
    x = RANDOM.integers(-128, 128, (2, 3, *(5,) * spatial)).astype(np.int8)
    w = RANDOM.integers(-127, 128, (4, 3, *(3,) * spatial)).astype(np.int8)
    bias = RANDOM.integers(-99, 99, 4).astype(np.int32)
    made = apply(ops.qconv, x, w, bias, multiplier=(0.003,), x_zero_point=2, out_zero_point=-3,
                 padding=((1, 1),) * spatial)  # fmt: skip
    graph = Graph("sums")
    wide = graph.input("x", x.shape, "i32") - 2
    total = graph.conv(wide, graph.input("w", w.shape, "i32"), padding=((1, 1),) * spatial)
    graph.set_outputs([total])
    (sums,) = evaluate(graph, {"x": x.astype(np.int32), "w": w.astype(np.int32)})
    sums = sums + bias.reshape(-1, *(1,) * spatial)
    scaled = np.vectorize(round_away)(sums.astype(np.float32) * np.float32(0.003))
    np.testing.assert_array_equal(made, np.clip(scaled - 3, -128, 127))


def test_leading_axes_of_a_product_are_rows() -> None:
    x = RANDOM.integers(-128, 128, (2, 3, 8)).astype(np.int8)
    w, bias = RANDOM.integers(-127, 128, (8, 5)).astype(np.int8), np.zeros(5, np.int32)
    made = apply(ops.qmatmul, x, w, bias, multiplier=(0.01,))
    flat = apply(ops.qmatmul, x.reshape(6, 8), w, bias, multiplier=(0.01,))
    np.testing.assert_array_equal(made, flat.reshape(2, 3, 5))


def test_every_example_of_a_batch_has_its_own_scale() -> None:
    x = (
        RANDOM.normal(size=(4, 3, 6)).astype(np.float32)
        * np.arange(1, 5, dtype=np.float32)[:, None, None]
    )
    for axis in (None, 0, 1):

        def rounded(row: Any, axis: int | None = axis) -> Any:
            return rlx.nn.fake_quantize(row, bits=4, axis=axis)

        expected = np.stack([np.asarray(rounded(row)) for row in x])
        np.testing.assert_array_equal(rlx.vmap(rounded)(x), expected)


def test_learned_scales_have_a_gradient_for_each_example() -> None:
    x = RANDOM.normal(size=(4, 6)).astype(np.float32)
    scales = np.array([[0.1], [0.2], [0.3], [0.4]], np.float32)

    def total(row: Any, scale: Any) -> Any:
        return rnp.sum(rnp.square(rlx.nn.fake_quantize_lsq(row, scale, bits=4)))

    slope = rlx.grad(total, argnums=1)
    expected = np.stack([np.asarray(slope(row, s)) for row, s in zip(x, scales, strict=True)])
    np.testing.assert_allclose(rlx.vmap(slope)(x, scales), expected, rtol=1e-5)


def test_other_floats_are_typed_errors() -> None:
    with pytest.raises(DTypeError, match="f64"):
        rlx.nn.fake_quantize(np.zeros(3))


def test_a_random_product_is_that_of_a_loop() -> None:
    x, w = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 8), (8, 5)))
    bias = RANDOM.integers(-500, 500, 5).astype(np.int32)
    multiplier = float(np.float32(0.05) * np.float32(0.03) / np.float32(0.4))
    made = apply(ops.qmatmul, x, w, bias, multiplier=(multiplier,))
    for (i, j), code in np.ndenumerate(made):
        total = int(bias[j]) + sum(int(a) * int(b) for a, b in zip(x[i], w[:, j], strict=True))
        scaled = round_away(float(np.float32(total) * np.float32(multiplier)))
        assert code == np.clip(scaled, -128, 127)

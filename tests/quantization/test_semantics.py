"""Quantization: casts, gradients, convolutions, batches and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from tests.ir.reference.test_quant import apply, round_away

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

"""Quantization against known values and scalar loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import DTypeError, GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate

X = np.array([-2, -0.4, 0.1, 0.6, 1], np.float32)
SWEEP: list[tuple[tuple[int, ...], int | None]] = [
    ((6,), None), ((8,), None), ((3, 4), 0), ((2, 5, 3), 1), ((2, 3, 5), 1),
]  # fmt: skip


def apply(op: OpDef, *arrays: Any, **attributes: Any) -> Any:
    graph = Graph("one")
    given = [np.asarray(array) for array in arrays]
    inputs = [graph.input(f"x{i}", a.shape, as_dtype(a.dtype)) for i, a in enumerate(given)]
    result = graph.apply(op, inputs, **attributes)
    graph.set_outputs(result if isinstance(result, tuple) else (result,))
    outputs = evaluate(graph, {f"x{i}": a for i, a in enumerate(given)})
    return outputs[0] if len(outputs) == 1 else outputs


def round_away(x: float) -> float:
    whole = np.trunc(x)
    return float(whole + np.copysign(1, x) if abs(x - whole) >= 0.5 else whole)


def test_quantize_rounds_halves_away_and_saturates() -> None:
    x = np.array([0.025, 0.075, -0.025, -0.075, 0.1, 999, -999, np.nan, np.inf], np.float32)
    codes = apply(ops.quantize, x, scales=(0.05,), zero_points=(3,))
    assert codes.dtype == np.int8
    assert codes.tolist() == [4, 5, 2, 1, 5, 127, -128, 3, 127]


def test_dequantize_centers_and_scales() -> None:
    x = np.random.default_rng(2027).normal(size=64).astype(np.float32)
    x[:2] = 999, -999
    codes = apply(ops.quantize, x, scales=(0.05,), zero_points=(3,))
    back = apply(ops.dequantize, codes, scales=(0.05,), zero_points=(3,))
    np.testing.assert_allclose(back[:2], [(127 - 3) * 0.05, (-128 - 3) * 0.05], atol=1e-6)
    assert np.abs(back[2:] - x[2:]).max() <= 0.05 + 1e-5


def test_channels_have_their_own_scales() -> None:
    magnitudes = np.array([0.01, 0.5, 5, 50], np.float32)
    x = magnitudes[:, None] * np.array([-1, 0, 1, 1000, -1000], np.float32)
    scales = magnitudes / 127
    attributes = {"axis": 0, "scales": tuple(scales.tolist())}
    back = apply(ops.dequantize, apply(ops.quantize, x, **attributes), **attributes)
    assert (np.abs(back[:, :3] - x[:, :3]) <= scales[:, None] + 1e-5).all()
    np.testing.assert_allclose(back[:, 3:], scales[:, None] * [127.0, -128.0], rtol=1e-5)


def test_integer_product_has_known_values() -> None:
    x = np.array([[10, -3], [127, -128]], np.int8)
    w = np.array([[5, -7, 2], [4, 100, -50]], np.int8)
    result = apply(ops.qmatmul, x, w, np.array([3, -2, 0], np.int32), multiplier=(0.05,),
                   x_zero_point=1, w_zero_point=-2, out_zero_point=5)  # fmt: skip
    assert result.tolist() == [[7, -18, 16], [11, -128, 127]]


def test_integer_convolution_is_that_of_a_loop() -> None:
    rng = np.random.default_rng(2099)
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in [(1, 4, 5, 5), (6, 2, 3, 3)])
    bias = rng.integers(-500, 500, 6).astype(np.int32)
    points = {"x_zero_point": 3, "w_zero_point": -1, "out_zero_point": 2}
    result = apply(
        ops.qconv, x, w, bias, multiplier=(0.004,), stride=(2, 1), padding=((1, 1), (2, 2)),
        dilation=(1, 2), groups=2, **points,
    )  # fmt: skip
    for (_, channel, i, j), code in np.ndenumerate(result):
        total = int(bias[channel])
        for c in range(2):
            for a in range(3):
                for b in range(3):
                    row, column = 2 * i + a - 1, j + 2 * b - 2
                    if 0 <= row < 5 and 0 <= column < 5:
                        own = int(x[0, channel // 3 * 2 + c, row, column]) - 3
                        total += own * (int(w[channel, c, a, b]) + 1)
        scaled = round_away(float(np.float32(total) * np.float32(0.004)))
        assert code == np.clip(scaled + 2, -128, 127)


@pytest.mark.parametrize(("shape", "axis"), SWEEP)
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_a_sweep_agrees_with_scalar_loops(
    shape: tuple[int, ...], axis: int | None, bits: int
) -> None:
    x = (0.07 * np.arange(np.prod(shape)) - 1.3).astype(np.float32).reshape(shape)
    largest = {8: 127, 4: 7, 2: 1}[bits]
    result = apply(ops.fake_quantize, x, bits=bits, axis=axis)
    for place, value in np.ndenumerate(x):
        channel = x if axis is None else np.take(x, place[axis], axis)
        step = np.float32(np.abs(channel).max()) / np.float32(largest)
        code = np.clip(round_away(float(np.float32(value) / step)), -largest, largest)
        np.testing.assert_allclose(result[place], code * step, rtol=1e-6)


def test_nan_stays_and_does_not_count_for_the_scale() -> None:
    x = np.array([1.27, np.nan, -0.5], np.float32)
    result = apply(ops.fake_quantize, x)
    np.testing.assert_allclose(result, [1.27, np.nan, -0.5], rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan, 1e-60])
def test_a_scale_that_is_not_positive_is_an_error(scale: float) -> None:
    with pytest.raises(GraphError, match="is not finite and above 0"):
        apply(ops.quantize, X, scales=(scale,))


def test_wrong_uses_are_errors_with_both_numbers() -> None:
    with pytest.raises(ShapeError, match="2 scales and 2 zero points for 5 channels"):
        apply(ops.quantize, X, scales=(0.1, 0.2), axis=0)
    with pytest.raises(ShapeError, match="axis"):
        apply(ops.quantize, X, scales=(0.1,), axis=1)
    with pytest.raises(DTypeError, match="x has dtype f64"):
        apply(ops.quantize, X.astype(np.float64), scales=(0.1,))
    with pytest.raises(GraphError, match="bits is 3"):
        apply(ops.fake_quantize, X, bits=3)
    with pytest.raises(GraphError, match="decay is 2"):
        apply(ops.fake_quantize_ema, X, np.ones(1, np.float32), decay=2.0)
    with pytest.raises(ShapeError, match=r"scale has shape \(2,\); it must be \(5,\)"):
        apply(ops.fake_quantize_lsq, X, np.ones(2, np.float32), axis=0)


@pytest.mark.parametrize("shape", [(), (4,), (2, 4, 5)])
def test_weights_of_a_product_are_a_matrix(shape: tuple[int, ...]) -> None:
    codes, bias = np.ones((2, 3, 4), np.int8), np.ones(shape[-1:], np.int32)
    with pytest.raises(ShapeError, match=r"w has shape .* it must be a matrix"):
        apply(ops.qmatmul, codes, np.ones(shape, np.int8), bias, multiplier=(0.1,))


@pytest.mark.parametrize(("x", "w"), [((4,), ()), ((1, 2, 4), (3, 2)), ((4, 4), (4, 4))])
def test_operands_of_a_convolution_have_spatial_axes(
    x: tuple[int, ...], w: tuple[int, ...]
) -> None:
    codes, bias = np.ones(x, np.int8), np.ones(w[:1], np.int32)
    with pytest.raises(ShapeError, match="both must have two axes and the same 1 to 3 spatial"):
        apply(ops.qconv, codes, np.ones(w, np.int8), bias, multiplier=(0.1,))

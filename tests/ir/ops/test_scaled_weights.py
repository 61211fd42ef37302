"""Weights with separate scales: known values, derivatives and wrong uses."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import rlx.runtime.compile as runtime
from rlx.errors import DTypeError, ShapeError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad
from rlx.runtime.executable import Executable

Array = NDArray[Any]
COUNT = np.arange(1, 9, dtype=np.float32).reshape(2, 4)


def weights_graph(weights: dict[str, Array], scheme: str, x: Array) -> Graph:
    g = Graph("product")
    params = [g.param(name, value.shape, value.dtype.name) for name, value in weights.items()]
    g.set_outputs([g.scaled_dequant_matmul(g.input("x", x.shape), *params, scheme=scheme)])
    return g


def check(
    x: Array, scheme: str, expected: Any, weights: dict[str, Array], rel: float = 1e-5
) -> None:
    """By the formula, and compiled with the weights laid out as blocks."""
    graph = weights_graph(weights, scheme, x)
    (formula,) = evaluate(graph, {"x": x, **weights})
    np.testing.assert_allclose(formula, expected, rtol=rel)
    compiled = runtime.compile(graph, backend="llvm", threads=1, params=weights)
    assert isinstance(compiled, Executable)
    assert "dequant_matmul" in str(compiled.schedule)
    np.testing.assert_allclose(compiled.run({"x": x})[0], expected, rtol=rel)


def hexes(text: str) -> Array:
    return np.array([int(byte, 16) for byte in text.split()], np.uint8)


INT8: dict[str, Array] = {
    "codes": np.array([[1, 2, 3], [-1, 0, 4], [5, -2, 1], [2, 3, -1]], np.int8),
    "scale": np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32),
}
ZERO = np.array([[1, 0, -1], [2, 1, 0]], np.float32)
INT4_SCALE = np.arange(1, 9, dtype=np.float32).reshape(2, 4) / 10


def test_int8() -> None:
    check(COUNT, "int8/2", [[9.1, 3.4, 2.7], [20.3, 7.0, 11.1]], INT8)


def test_uint4_by_a_zero_point_of_8_and_by_others() -> None:
    codes = np.array([[9, 10, 11], [7, 8, 12], [13, 6, 9], [10, 11, 7]], np.uint8)
    weights: dict[str, Array] = {"codes": codes, "scale": INT8["scale"]}
    check(COUNT, "uint4/2", [[9.1, 3.4, 2.7], [20.3, 7.0, 11.1]], weights)
    expected = [[3.2, -0.1, 3.6], [7.2, -0.5, 14.4]]
    check(COUNT, "uint4a/2", expected, {**weights, "zero_point": ZERO + 8})


def test_int8_with_zero_points() -> None:
    expected = [[3.2, -0.1, 3.6], [7.2, -0.5, 14.4]]
    check(COUNT, "int8a/2", expected, {**INT8, "zero_point": ZERO}, 2e-4)


def test_int4_is_unsigned_without_zero_points() -> None:
    codes = hexes("21 4D 0F A5 E3 71 6C 2B")
    expected = [[31.6, 40, 39.8, 32.8], [68, 89.6, 95, 84]]
    check(COUNT, "int4/2", expected, {"codes": codes, "scale": INT4_SCALE})


def test_int4_with_zero_points_has_signs() -> None:
    codes, zero = hexes("A9 C5 87 2D 6B F9 E4 A3"), np.full((2, 4), 8, np.float32)
    expected = [[-3.6, 11.2, -9.8, 20], [-5.6, 22.4, -18.6, 45.6]]
    check(COUNT, "int4/2", expected, {"codes": codes, "scale": INT4_SCALE, "zero_point": zero})


def test_fp8_e4m3_is_the_open_compute_projects() -> None:
    """0x7E is 448, and no infinity."""
    codes = hexes("38 40 48 01 C0 44 B8 00 70 30 21 68").reshape(4, 3)
    expected = [[0.00390625, -1.4375, 650], [2.01171875, -0.875, 1446]]
    check(COUNT, "fp8e4m3", expected, {"codes": codes, "scale": np.ones(3, np.float32)})


def test_fp8_e5m2_with_one_scale_for_all_columns() -> None:
    codes = hexes("3C 40 44 BC 00 4C 3C C4 3C 40 44 40").reshape(4, 3)
    expected = [[20, 12, 94], [44, 28, 278]]
    check(COUNT, "fp8e5m2", expected, {"codes": codes, "scale": np.full(1, 2, np.float32)})


def test_nvfp4() -> None:
    x = np.arange(1, 17, dtype=np.float32)[None]
    weights: dict[str, Array] = {
        "codes": np.full(32, 0x42, np.uint8),
        "scale": np.full((1, 4), 0x38, np.uint8),
        "zero_point": np.full(1, 2, np.float32),
    }
    check(x, "nvfp4/16", [[272, 544, 272, 544]], weights)


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [("fp8e4m3", ml_dtypes.float8_e4m3fn), ("fp8e5m2", ml_dtypes.float8_e5m2)],
)
def test_all_floats_of_eight_bits(scheme: str, dtype: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(256, 1)
    g = Graph("floats")
    c, s = g.param("codes", codes.shape, "u8"), g.param("scale", (1,))
    g.set_outputs([g.decode_weights(c, s, scheme=scheme, rows=256)])
    params: dict[str, Array] = {"codes": codes, "scale": np.ones(1, np.float32)}
    expected = codes.view(dtype).astype(np.float32)
    compiled = runtime.compile(g, backend="llvm", threads=1, params=params)
    assert isinstance(compiled, Executable)
    for found in (evaluate(g, params)[0], compiled.run({})[0]):
        np.testing.assert_array_equal(found, expected)


def test_a_last_block_may_be_short() -> None:
    """K = 11 in blocks of 4, random, against a dense product; weights that change are decoded."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (11, 5)).astype(np.int8)
    scale = rng.uniform(0.5, 1, (3, 5)).astype(np.float32)
    x = rng.standard_normal((2, 3, 11)).astype(np.float32)
    expected = x @ (codes * np.repeat(scale, 4, axis=0)[:11])
    g = weights_graph({"codes": codes, "scale": scale}, "int8/4", x)
    np.testing.assert_allclose(
        evaluate(g, {"x": x, "codes": codes, "scale": scale})[0], expected, rtol=1e-4, atol=1e-3
    )
    compiled = runtime.compile(
        g, backend="llvm", threads=1, params={"codes": codes, "scale": scale}
    )
    assert isinstance(compiled, Executable)
    np.testing.assert_allclose(compiled.run({"x": x})[0], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("size", [16, 32, 48, 128])
@pytest.mark.parametrize("family", ["int8", "int8a", "int4", "uint4", "uint4a"])
def test_rows_of_eight_bits(family: str, size: int, rows: int) -> None:
    """Blocks whose elements have one scale of `x` are multiplied as integers; others as floats."""
    rng = np.random.default_rng(size)
    inner, columns = 200, 24
    blocks = -(-inner // size)
    weights: dict[str, Array] = {
        "codes": rng.integers(-127, 128, (inner, columns)).astype(np.int8),
        "scale": rng.uniform(0.5, 1, (blocks, columns)).astype(np.float32),
    }
    if "4" in family:
        count = inner * columns // 2
        shape, most = ((count,), 256) if family == "int4" else ((inner, columns), 16)
        weights["codes"] = rng.integers(0, most, shape).astype(np.uint8)
    if family in ("int8a", "uint4a"):
        weights["zero_point"] = rng.integers(0, 16, (blocks, columns)).astype(np.float32)
    x = rng.standard_normal((rows, inner)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, -inner % 32))).reshape(rows, -1, 32)
    unit = np.abs(padded).max(axis=-1, keepdims=True) / 127
    rounded = (np.round(padded / unit) * unit).reshape(rows, -1)[:, :inner]
    g = Graph("product")
    params = [g.param(name, value.shape, value.dtype.name) for name, value in weights.items()]
    scheme = f"{family}/{size}"
    g.set_outputs([g.decode_weights(*params, scheme=scheme, rows=inner)])
    expected = rounded @ evaluate(g, weights)[0]
    g = Graph("product")
    params = [g.param(name, value.shape, value.dtype.name) for name, value in weights.items()]
    g.set_outputs([g.int8_scaled_dequant_matmul(g.input("x", x.shape), *params, scheme=scheme)])
    most = np.abs(expected).max()
    (formula,) = evaluate(g, {"x": x, **weights})
    np.testing.assert_allclose(formula, expected, rtol=0, atol=1e-5 * most)
    for backend in ("c", "llvm"):
        compiled = runtime.compile(g, backend=backend, threads=1, params=weights)
        assert isinstance(compiled, Executable)
        (found,) = compiled.run({"x": x})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * most)


def test_rounding_of_rows_passes_gradients_on() -> None:
    g = Graph("product")
    params = [g.param(name, value.shape, value.dtype.name) for name, value in INT8.items()]
    g.set_outputs([g.int8_scaled_dequant_matmul(g.input("x", (2, 4)), *params, scheme="int8/2")])
    gradient = grad(g, ["x"])
    seed = np.ones((2, 3), np.float32)
    (found,) = evaluate(gradient, {"x": COUNT, **INT8, "d_output": seed})
    weights = INT8["codes"] * np.repeat(INT8["scale"], 2, axis=0)
    np.testing.assert_allclose(found, seed @ weights.T, rtol=1e-5)


def test_scales_and_zero_points_have_gradients() -> None:
    """dscale = sum (q - zp) G, dzp = -scale sum G over the rows of a block."""
    graph = weights_graph({**INT8, "zero_point": ZERO}, "int8a/2", COUNT)
    gradient = grad(graph, ["x", "scale", "zero_point"])
    seed = np.ones((2, 3), np.float32)
    feeds = {"x": COUNT, **INT8, "zero_point": ZERO, "d_output": seed}
    dx, dscale, dzero = evaluate(gradient, feeds)
    centered = INT8["codes"] - np.repeat(ZERO, 2, axis=0)
    spread = np.repeat(INT8["scale"], 2, axis=0)
    upstream = COUNT.T @ seed
    np.testing.assert_allclose(dx, seed @ (centered * spread).T, rtol=1e-5)
    blocks = (centered * upstream).reshape(2, 2, 3).sum(axis=1)
    np.testing.assert_allclose(dscale, blocks, rtol=1e-5)
    sums = upstream.reshape(2, 2, 3).sum(axis=1)
    np.testing.assert_allclose(dzero, -INT8["scale"] * sums, rtol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "shapes", "error", "message"),
    [
        ("int3/4", ((8, 3), (2, 3)), DTypeError, "unknown scheme 'int3/4'"),
        ("int8/4", ((8, 3), (3, 3)), ShapeError, "scale has shape"),
        ("int8/4", ((8, 2), (2, 3)), ShapeError, "codes have shape"),
        ("int8a/4", ((8, 3), (2, 3)), ShapeError, "int8a needs zero point"),
        ("int8/4", ((8, 3), (2, 3), (2, 3)), ShapeError, "int8 takes no zero point"),
        ("int8a/4", ((8, 3), (2, 3), (3,)), ShapeError, "zero_point has shape"),
    ],
)
def test_what_does_not_fit_is_refused(
    scheme: str, shapes: tuple[tuple[int, ...], ...], error: type[Exception], message: str
) -> None:
    g = Graph("bad")
    x, codes = g.input("x", (2, 8)), g.param("codes", shapes[0], "i8")
    rest = [g.param(f"p{i}", shape) for i, shape in enumerate(shapes[1:])]
    with pytest.raises(error, match=message):
        g.scaled_dequant_matmul(x, codes, *rest, scheme=scheme)

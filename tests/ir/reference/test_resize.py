"""Resizing against ONNX and PyTorch; space-to-depth and axial rope against known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import ShapeError
from rlx.ir import ops
from tests.ir.reference.running import run

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
)  # fmt: skip


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (1.6, 1.0), (0.6, 0.4)])
def test_resize_agrees_with_onnx(coordinates: str, mode: str, scales: tuple[float, float]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 10)).astype(np.float32)
    size = tuple(round(extent * scale) for extent, scale in zip(x.shape[2:], scales, strict=True))
    stored = tuple(float(np.float32(scale)) for scale in scales)  # as a model does
    # Extents times scales are no integers in the evaluator, which shows where corners align.
    roundings = _ROUNDINGS[: 2 if coordinates == "align_corners" else 4]
    for rounding in roundings if mode == "nearest" else roundings[:1]:
        options = {"mode": mode, "nearest_mode": rounding}
        expected = _onnx_resize(x, stored, coordinate_transformation_mode=coordinates, **options)
        y = run(
            ops.resize, x, size=size, scale=stored, mode=mode, rounding=rounding,
            coordinates=coordinates,
        )  # fmt: skip
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_to_a_size_agrees_with_pytorch(mode: str) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 7))
    names = {"linear": "bilinear", "cubic": "bicubic"}
    options: dict[str, Any] = {"mode": names[mode], "align_corners": False}
    theirs = functional.interpolate(torch.tensor(x), (5, 11), **options).numpy()
    np.testing.assert_allclose(run(ops.resize, x, size=(5, 11), mode=mode), theirs, atol=1e-12)
    theirs = functional.interpolate(torch.tensor(x), (4, 5), antialias=True, **options).numpy()
    a = -0.5 if mode == "cubic" else -0.75
    y = run(ops.resize, x, size=(4, 5), mode=mode, antialias=True, cubic_coefficient=a)
    np.testing.assert_allclose(y, theirs, atol=1e-12)


def test_nearest_2x_repeats_elements_of_every_example() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 7))
    y = run(ops.resize_nearest_2x, x)
    np.testing.assert_array_equal(y, x.repeat(2, axis=2).repeat(2, axis=3))
    np.testing.assert_array_equal(run(ops.resize, x, size=(10, 14)), y)


def test_blocks_of_space_agree_with_pytorch_and_onnx() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 12, 3, 5))
    y = run(ops.depth_to_space, x, block=2, order="crd")
    np.testing.assert_array_equal(y, torch.pixel_shuffle(torch.tensor(x), 2).numpy())
    deep = x.reshape(2, 2, 2, 3, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 10)
    np.testing.assert_array_equal(run(ops.depth_to_space, x, block=2), deep)
    for order in ("dcr", "crd"):
        y = run(ops.depth_to_space, x, block=2, order=order)
        np.testing.assert_array_equal(run(ops.space_to_depth, y, block=2, order=order), x)


def test_axial_rope_has_known_values() -> None:
    x = np.tile([1.0, 0, 1, 0], (1, 4, 1))
    y = run(ops.axial_rope2d, x, end_x=2, end_y=2, head_dim=4, num_heads=1)
    c, s = np.cos(1), np.sin(1)
    expected = [[1, 0, 1, 0], [c, s, 1, 0], [1, 0, c, s], [c, s, c, s]]
    np.testing.assert_allclose(y[0], expected, atol=1e-12)
    x = np.tile(np.arange(1.0, 9), (2, 6, 1))
    y = run(ops.axial_rope2d, x, end_x=3, end_y=2, head_dim=8, num_heads=1, theta=100.0)
    fifth = [
        -2.2347417,
        0.0770038,
        2.1455224,
        4.5162743,
        -2.3473144,
        7.4491688,
        6.1663618,
        8.6588672,
    ]
    np.testing.assert_allclose(y[:, 5], [fifth, fifth], atol=1e-6)


def test_what_cannot_be_resized_is_refused() -> None:
    with pytest.raises(ShapeError, match="known extent"):
        run(ops.resize, np.zeros((2, 0)), size=(3,))
    with pytest.raises(ShapeError, match="does not fit shape"):
        run(ops.resize, np.zeros((2, 3)), size=(3, 4, 5))
    with pytest.raises(ShapeError, match=r"it must be \[N, C, H, W\]"):
        run(ops.resize_nearest_2x, np.zeros((2, 3, 4)))
    with pytest.raises(ShapeError, match=r"it must be \[B, 4, 4\]"):
        run(ops.axial_rope2d, np.zeros((1, 5, 4)), end_x=2, end_y=2, head_dim=4, num_heads=1)


_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _onnx_resize(x: Any, scales: tuple[float, ...], **attributes: Any) -> Any:
    """Run one Resize node by the reference evaluator of the `onnx` package."""
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference")
    helper = onnx.helper
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    given = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in ("x", "scales")
    ]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "resize", given, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    feeds = {"x": x, "scales": np.array((1, 1, *scales), np.float32)}
    return evaluator.ReferenceEvaluator(model).run(None, feeds)[0]

"""`rlx.nn.conv` and `conv_transpose` against PyTorch and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.nn as nn
from rlx.errors import ShapeError

Array = Any
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 7, 5), (6, 4, 3, 3), {"strides": 2, "padding": 1}),
    ((1, 6, 8, 9), (6, 1, 3, 2), {"padding": (1, 2), "groups": 6}),
    ((2, 4, 9), (6, 2, 3), {"dilation": 2, "groups": 2, "padding": 3}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 1), {"strides": (1, 2, 3), "padding": (0, 1, 2)}),
    ((0, 3, 5, 5), (2, 3, 3, 3), {"padding": 1}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {"padding": 4, "strides": 3}),
    ((1, 2, 9, 9), (2, 2, 2, 2), {"padding": 0, "strides": 5}),
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 5, 4), (4, 3, 3, 2), {"strides": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 3), (4, 2, 3), {"strides": 3, "padding": 0, "groups": 2, "dilation": 2}),
    ((1, 2, 2, 3, 2), (2, 1, 2, 2, 2), {"strides": (2, 1, 2), "padding": 0}),
]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def normal(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def torch_names(options: dict[str, Any]) -> dict[str, Any]:
    return {"stride" if name == "strides" else name: value for name, value in options.items()}


@pytest.mark.parametrize(("x_shape", "w_shape", "options"), CASES)
def test_conv_and_its_gradients_are_those_of_pytorch(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], options: dict[str, Any], torch: Any
) -> None:
    function = getattr(torch.nn.functional, f"conv{len(x_shape) - 2}d")
    compare(nn.conv, function, (x_shape, w_shape, w_shape[:1]), options, torch)


@pytest.mark.parametrize(("x_shape", "w_shape", "options"), TRANSPOSED)
def test_conv_transpose_and_its_gradients_are_those_of_pytorch(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], options: dict[str, Any], torch: Any
) -> None:
    function = getattr(torch.nn.functional, f"conv_transpose{len(x_shape) - 2}d")
    outputs = (w_shape[1] * options.get("groups", 1),)
    compare(nn.conv_transpose, function, (x_shape, w_shape, outputs), options, torch)


def compare(
    ours: Any, theirs: Any, shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], torch: Any
) -> None:
    """Compare results and, by way of a sum of squares, the gradients by all operands."""
    arrays = [normal(shape, seed) for seed, shape in enumerate(shapes)]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = theirs(*tensors, **torch_names(options))
    (expected**2).sum().backward()

    def result(x: Array, w: Array, bias: Array) -> Array:
        return ours(x, w, bias=bias, **options)

    np.testing.assert_allclose(result(*arrays), expected.detach().numpy(), atol=1e-12)
    gradients = rlx.grad(lambda *a: (result(*a) ** 2).sum(), argnums=(0, 1, 2))(*arrays)
    for given, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(given, tensor.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("strides", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_named_padding_with_channels_last_is_that_of_jax(strides: int, padding: Any) -> None:
    jax = pytest.importorskip("jax")
    x, w = normal((2, 7, 8, 4), 0), normal((3, 2, 2, 5), 1)[..., :4]
    expected = jax.lax.conv_general_dilated(
        x.astype("f4"), w.astype("f4"), (strides, strides), padding, feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    given = nn.conv(x, w, strides, padding, groups=2, layout="NHWC")
    np.testing.assert_allclose(given, np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strides", [1, 2, 5])
def test_transposed_same_padding_is_that_of_jax(strides: int) -> None:
    jax = pytest.importorskip("jax")
    x, w = normal((2, 4, 5, 3), 0), normal((3, 4, 3, 2), 1)
    expected = jax.lax.conv_transpose(
        x.astype("f4"), w.astype("f4")[::-1, ::-1], (strides, strides), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    given = nn.conv_transpose(x, w, strides, "SAME", layout="NHWC")
    np.testing.assert_allclose(given, np.asarray(expected), rtol=1e-5, atol=1e-5)


def test_fans_of_weights_with_channels_first() -> None:
    assert nn.initializers.fans((8, 4, 3, 3), in_axis=1, out_axis=0) == (36, 72)
    drawn = nn.initializers.he_normal(0, (64, 16, 5, 5), in_axis=1, out_axis=0)
    assert drawn.std() == pytest.approx((2 / 400) ** 0.5, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "CHWN"}, "layout is 'CHWN'"),
        ({"padding": "FULL"}, "padding is 'FULL'"),
        ({"strides": (1, 2, 3)}, "has 3 entries for 2 spatial axes"),
        ({"padding": (1,)}, "has 1 entries for 2 spatial axes"),
        ({"strides": 0}, "holds a number below 1"),
        ({"groups": 3}, "groups must be 1 or more and divide"),
        ({"groups": 2}, r"2 \* 2 must be 2"),
        ({"padding": "VALID", "dilation": 4}, "does not fit 4 elements"),
    ],
)
def test_what_does_not_fit_is_a_typed_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        nn.conv(normal((1, 2, 4, 4), 0), normal((4, 2, 3, 3), 1), **options)


def test_images_without_channels_are_a_typed_error() -> None:
    with pytest.raises(ShapeError, match="no channels"):
        nn.conv(normal((1, 0, 4, 4), 0), normal((4, 0, 3, 3), 1))

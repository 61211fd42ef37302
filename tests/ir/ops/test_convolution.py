"""Convolution: known values, windows, and operands of every rank and dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.conv_geometry import geometry
from rlx.ir.ops.conv_transpose import by_input
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.layout.choices import Why
from rlx.passes.layout.tile_convolutions import choose_convolution
from rlx.passes.rewrites.decompose import decompose
from rlx.target import named_target

Array = Any
FACT_F: dict[str, Any] = {
    "stride": (2, 1), "padding": ((1, 1), (2, 2)), "dilation": (2, 1), "groups": 2,
}  # fmt: skip


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def result(definition: Any, *arrays: Array, **attributes: Any) -> Array:
    """Compute one op with the reference."""
    g = Graph("fact")
    inputs = [g.input(f"x{i}", a.shape, str(a.dtype)) for i, a in enumerate(arrays)]
    y = g.apply(definition, inputs, **attributes)
    assert isinstance(y, Value)
    g.set_outputs([y])
    return evaluate(g, {f"x{i}": a for i, a in enumerate(arrays)})[0]


def infer(definition: Any, *shapes: tuple[int | Dim, ...], **attributes: Any) -> Value:
    g = Graph("types")
    inferred = g.apply(
        definition, [g.input(f"x{i}", s) for i, s in enumerate(shapes)], **attributes
    )
    assert isinstance(inferred, Value)
    return inferred


# Known values


def test_a_single_taps_are_a_product() -> None:
    x, w = normal(2, 4, 3, 3), normal(5, 4, 1, 1)
    found = result(ops.conv, x, w)
    np.testing.assert_allclose(found, np.einsum("nchw,oc->nohw", x, w[..., 0, 0]), atol=1e-12)
    node = infer(ops.conv, (2, 4, 3, 3), (5, 4, 1, 1)).node
    assert choose_convolution(node, named_target("x86-64-v4")).why is Why.SINGLE_TAPS


def test_b_shapes() -> None:
    pads = ((1, 1), (1, 1))
    assert infer(ops.conv, (1, 4, 8, 8), (8, 2, 3, 3), padding=pads, groups=2).shape == (1, 8, 8, 8)
    transposed = infer(ops.conv_transpose, (1, 4, 8, 8), (4, 8, 2, 2), stride=(2, 2))
    assert transposed.shape == (1, 8, 16, 16)


def test_c_one_axis() -> None:
    x, w = np.array([[[1.0, 2, 3, 4]]]), np.array([[[1.0, -1]]])
    np.testing.assert_array_equal(result(ops.conv, x, w), [[[-1, -1, -1]]])


def test_f_the_transposed_form_needs_output_padding() -> None:
    weights = normal(6, 2, 2, 3)
    dy = normal(2, 6, 3, 7)
    as_transpose = result(ops.conv_transpose, dy, weights, output_padding=(1, 0), **FACT_F)
    by_input_op = result(ops.conv_backward_input, dy, weights, spatial=(6, 5), **FACT_F)
    np.testing.assert_array_equal(as_transpose, by_input_op)


def test_transposed_convolution() -> None:
    x = np.full((1, 1, 1, 1), 2.0)
    w = np.array([[[[1.0, 0], [0, 1]]]])
    np.testing.assert_array_equal(
        result(ops.conv_transpose, x, w, stride=(2, 2))[0, 0], [[2, 0], [0, 2]]
    )
    x = (0.02 * np.arange(32) - 0.2).reshape(1, 2, 4, 4)
    w = (0.1 + 0.01 * np.arange(24)).reshape(2, 3, 2, 2)
    expected = np.zeros((1, 3, 8, 8))
    for c, i, j, a, b in itertools.product(range(2), range(4), range(4), range(2), range(2)):
        expected[0, :, 2 * i + a, 2 * j + b] += x[0, c, i, j] * w[c, :, a, b]
    np.testing.assert_allclose(
        result(ops.conv_transpose, x, w, stride=(2, 2)), expected, atol=1e-12
    )


# Windows


def test_windows_are_rows_and_a_product_of_them_is_the_convolution() -> None:
    x, w = normal(2, 3, 6, 5), normal(4, 3, 2, 3)
    shape: dict[str, Any] = {k: v for k, v in FACT_F.items() if k != "groups"}
    columns = result(ops.im2col, x, kernel_size=(2, 3), **shape)
    product = columns @ w.reshape(4, 18).T
    expected = result(ops.conv, x, w, **shape)
    assert columns.shape == (2 * 3 * 7, 18)
    np.testing.assert_allclose(
        product.reshape(2, 3, 7, 4).transpose(0, 3, 1, 2), expected, atol=1e-12
    )


WINDOWS = {
    "side-by-side": ((13, 18), (4, 3), (4, 3), (1, 1)),
    "one-axis": ((13, 18), (4, 3), (4, 2), (1, 2)),
    "many-taps": ((25, 22), (9, 8), (3, 5), (1, 2)),
    "few-taps": ((9, 8), (3, 2), (2, 1), (2, 1)),
    "many-and-few": ((25, 8), (20, 3), (1, 1), (1, 1)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_their_sums_are_numpys(name: str) -> None:
    extents, taps, stride, dilation = WINDOWS[name]
    x = normal(2, 3, *extents)
    reach = tuple((k - 1) * d + 1 for k, d in zip(taps, dilation, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    kept = views[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    rows = kept.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 3 * taps[0] * taps[1])
    geometry = {"kernel_size": taps, "stride": stride, "dilation": dilation}
    np.testing.assert_array_equal(result(ops.im2col, x, **geometry), rows)
    sums = np.zeros_like(x)
    seen = np.lib.stride_tricks.sliding_window_view(sums, reach, (2, 3), writeable=True)
    windows = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    for place in np.ndindex(kept.shape[2:4]):
        windows[:, :, *place] += kept[:, :, *place]
    np.testing.assert_allclose(
        result(ops.col2im, rows, shape=x.shape, **geometry), sums, rtol=1e-12
    )


def test_windows_of_many_taps_are_few_nodes() -> None:
    g = Graph("windows")
    g.set_outputs([g.im2col(g.input("x", (1, 3, 64, 70)), kernel_size=(32, 32), stride=(32, 9))])
    assert len(decompose()(g).nodes) < 12


# Ranks, groups and dtypes


def test_one_and_three_axes() -> None:
    assert infer(ops.conv, (2, 3, 9), (4, 3, 2)).shape == (2, 4, 8)
    assert infer(ops.conv, (2, 3, 4, 5, 6), (4, 3, 2, 2, 2)).shape == (2, 4, 3, 4, 5)
    with pytest.raises(ShapeError, match="1 to 3 spatial axes"):
        infer(ops.conv, (2, 3), (4, 3))
    with pytest.raises(ShapeError, match="1 to 3 spatial axes"):
        infer(ops.conv, (2, 3, 4, 4), (4, 3, 2))


def test_what_does_not_fit_is_a_typed_error() -> None:
    shapes = (1, 4, 2, 5), (6, 2, 3, 3)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"groups": 2}, "a window of 3 taps, 1 apart, does not fit 2 elements"),
        ({"groups": 4}, "groups must be 1 or more and divide the channels"),
        ({"groups": 3}, r"2 \* 3 must be 4"),
        ({"groups": 2, "stride": (2,)}, r"stride \(2,\) has 1 entries for 2 spatial axes"),
        ({"groups": 2, "dilation": (0, 1)}, "holds a number below 1"),
    ]
    for attributes, message in cases:
        with pytest.raises(ShapeError, match=message):
            infer(ops.conv, *shapes, **attributes)
    with pytest.raises(ShapeError, match=r"output_padding \(1, 0\) must be less than stride"):
        infer(ops.conv_transpose, (1, 4, 2, 5), (4, 2, 3, 3), output_padding=(1, 0))


def test_windows_of_every_image_of_a_dynamic_batch() -> None:
    n = Dim("n", max=3)
    g = Graph("windows")
    g.set_outputs([g.im2col(g.input("x", (n, 2, 4, 4)), kernel_size=(2, 2))])
    x = normal(2, 2, 4, 4).astype(np.float32)
    np.testing.assert_array_equal(rlx.compile(g)(x=x)[0], result(ops.im2col, x, kernel_size=(2, 2)))


def test_zeros_of_the_input_skip_their_taps() -> None:
    x, w = np.array([[[0.0, 1.0]]]), np.array([[[np.inf, 1.0]]])
    assert np.isnan(result(ops.conv_transpose, x, w)[0, 0, 0])
    apart = result(ops.conv_transpose, x, w, stride=(2,))[0, 0]
    np.testing.assert_array_equal(apart, [np.nan, 0, np.inf, 1])


def test_ceil_mode_positions_beyond_the_padding_are_cut_off() -> None:
    """`dy` whose extents are not those of the convolution's result."""
    g = Graph("ceil")
    dy, w = g.input("dy", (1, 1, 3), "f64"), g.input("w", (1, 1, 2), "f64")
    g.set_outputs([by_input(dy, w, (5,), geometry(1, (2,)), 1)])
    feeds = {"dy": np.array([[[1.0, 2, 3]]]), "w": np.array([[[10.0, 1]]])}
    np.testing.assert_array_equal(evaluate(g, feeds)[0], [[[10, 1, 20, 2, 30]]])


def test_the_gradient_of_a_loss_holds_two_convolutions_more() -> None:
    g = Graph("loss")
    y = g.conv(g.input("x", (2, 3, 6, 6)), g.param("w", (4, 3, 3, 3)))
    g.set_outputs([g.reduce_sum(y * y, axes=(0, 1, 2, 3))])
    step = grad_with_loss(g, wrt=list(g.params))
    assert sum(node.op is ops.conv for node in step.nodes) == 2

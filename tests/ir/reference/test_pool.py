"""Pooling against known values and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from tests.ir.reference.running import f64, run

SIXTEEN = np.arange(1.0, 17).reshape(1, 1, 4, 4)
SQUARE: dict[str, Any] = {"kernel_size": (2, 2), "stride": (2, 2)}


def test_max_pool_has_known_values() -> None:
    np.testing.assert_array_equal(run(ops.max_pool, SIXTEEN, **SQUARE).ravel(), [6, 8, 14, 16])
    dy = np.array([0.5, 1, 2, 4]).reshape(1, 1, 2, 2)
    dx = run(ops.max_pool_backward, SIXTEEN, dy, **SQUARE).ravel()
    np.testing.assert_array_equal(np.nonzero(dx)[0], [5, 7, 13, 15])
    np.testing.assert_array_equal(dx[[5, 7, 13, 15]], [0.5, 1, 2, 4])


def test_mean_pool_counts_padding() -> None:
    x = f64(1, 2, 3, 4).reshape(1, 1, 2, 2)
    y = run(ops.mean_pool, x, kernel_size=(2, 2), padding=(1, 1))
    expected = [0.25, 0.75, 0.5, 1, 2.5, 1.5, 0.75, 1.75, 1]
    np.testing.assert_array_equal(y.ravel(), expected)


def test_pools_of_one_and_three_axes_and_products_have_known_values() -> None:
    line = run(ops.max_pool, f64(1, 3, 2, 4), kernel_size=(2,), stride=(2,))
    np.testing.assert_array_equal(line, [3, 4])
    cube = np.arange(1.0, 9).reshape(1, 1, 2, 2, 2)
    assert run(ops.max_pool, cube, kernel_size=(2, 2, 2)).ravel() == [8]
    four = f64(1, 2, 3, 4).reshape(1, 1, 2, 2)
    assert run(ops.prod_pool, four, kernel_size=(2, 2)).ravel() == [24]


def test_a_gradient_goes_to_the_first_of_equal_elements() -> None:
    x, dy = np.ones((1, 1, 4, 4)), np.array([1.0, 2, 3, 4]).reshape(1, 1, 2, 2)
    dx = run(ops.max_pool_backward, x, dy, **SQUARE)
    np.testing.assert_array_equal(dx[0, 0, ::2, ::2], dy[0, 0])
    assert dx.sum() == dy.sum()


def test_a_window_of_padding_is_the_neutral_element() -> None:
    geometry: dict[str, Any] = {"kernel_size": (1,), "padding": (1,)}
    found = [run(op, f64(5), **geometry)[0] for op in (
        ops.max_pool, ops.min_pool, ops.sum_pool, ops.prod_pool)]  # fmt: skip
    assert found == [-np.inf, np.inf, 0, 1]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 2, 1), (2, 3, 0), (4, 2, 2), (3, 1, 1)]
)
def test_pools_agree_with_pytorch(size: int, stride: int, padding: int, ceil_mode: bool) -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 9))
    geometry: dict[str, Any] = {
        "kernel_size": (size, size), "stride": (stride, stride), "padding": (padding, padding),
        "ceil_mode": ceil_mode,
    }  # fmt: skip
    theirs = torch.tensor(x)
    largest, places = functional.max_pool2d(theirs, **geometry, return_indices=True)
    np.testing.assert_array_equal(run(ops.max_pool, x, **geometry), largest.numpy())
    numbered = np.broadcast_to(np.arange(72).reshape(8, 9), x.shape).copy()
    taken = run(ops.max_pool_take, x, numbered, **geometry)
    np.testing.assert_array_equal(taken, places.numpy())
    for divisor, counts in (("padded", True), ("inside", False)):
        expected = functional.avg_pool2d(theirs, **geometry, count_include_pad=counts)
        mean = run(ops.mean_pool, x, **geometry, divisor=divisor)
        np.testing.assert_allclose(mean, expected.numpy(), rtol=1e-12)


def test_a_window_larger_than_the_padded_operand_is_refused() -> None:
    with pytest.raises(ShapeError, match="window of 5 positions is larger"):
        run(ops.max_pool, SIXTEEN, kernel_size=(3, 3), dilation=(2, 2))


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ({"kernel_size": (2, 2), "stride": (2,)}, "stride .* has 1 entries"),
        ({"kernel_size": (2, 2), "padding": (1, 1, 1)}, "padding .* has 3 entries"),
        ({"kernel_size": (2, 0)}, "kernel_size .* holds a number below 1"),
        ({"kernel_size": (2, 2), "padding": (-1, 0)}, "padding .* holds a number below 0"),
        ({"kernel_size": (1, 1, 1, 1)}, "with 0 inner axes does not fit"),
        ({"kernel_size": (2, 2), "inner": 3}, "with 3 inner axes does not fit"),
    ],
)
def test_geometry_that_fits_no_axes_is_refused(geometry: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        run(ops.sum_pool, SIXTEEN, **geometry)


def test_a_symbolic_extent_is_divided_and_rounded_down() -> None:
    n = Dim("n", max=16)
    graph = Graph("symbolic")
    geometry: dict[str, Any] = {"kernel_size": (3,), "stride": (2,), "padding": (1,)}
    assert graph.max_pool(graph.input("x", (3, 2 * n), "f32"), **geometry).shape == (3, n)
    odd = graph.max_pool(graph.input("odd", (3, n), "f32"), **geometry)
    assert odd.shape == (3, (n + 1) // 2)

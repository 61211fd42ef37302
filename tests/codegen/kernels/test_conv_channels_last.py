"""Convolutions with channels last in register tiles: tails in every direction, epilogues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.kernels.build import find_anchor, thunk_body
from rlx.codegen.schedule import Phase, Thunk
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.op import make_attrs
from rlx.ir.reference import evaluate

Shape = tuple[int, ...]
CASES: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "tails-everywhere": ((2, 11, 17, 9), (3, 3, 9, 37), {"padding": ((1, 1), (1, 1))}),
    "several-rows": ((2, 7, 7, 8), (3, 3, 8, 16), {"padding": ((1, 1), (1, 1))}),
    "few-channels": ((1, 9, 11, 3), (3, 5, 3, 20), {"stride": (2, 2), "padding": ((1, 1), (2, 2))}),
    "strided": ((1, 15, 16, 9), (3, 2, 9, 40), {"stride": (2, 3), "padding": ((0, 2), (1, 0))}),
    "dilated": ((1, 13, 12, 3), (3, 3, 3, 16),
                {"dilation": (2, 3), "padding": ((2, 2), (3, 3))}),
    "one-axis": ((3, 40, 5), (4, 5, 20), {"stride": (2,), "padding": ((3, 0),)}),
    "three-axes": ((1, 5, 6, 7, 3), (2, 3, 2, 3, 17), {"padding": ((1, 0), (1, 1), (0, 1))}),
    "spread": ((1, 5, 4, 8), (3, 3, 8, 16),
               {"input_dilation": (2, 3), "padding": ((1, 2), (2, 0))}),
    "cropped": ((1, 9, 9, 8), (2, 2, 8, 16), {"padding": ((-1, 0), (2, -2))}),
    "grouped": ((2, 5, 6, 12), (3, 3, 4, 27), {"groups": 3}),
    "strided-single-taps": ((2, 5, 7, 16), (1, 1, 16, 24), {"stride": (2, 3)}),
    "many-weights": ((2, 5, 5, 64), (3, 3, 64, 256), {"padding": ((1, 1), (1, 1))}),
    "two-outputs": ((1, 6, 6, 8), (3, 3, 8, 2), {}),
}  # fmt: skip


def graph_of(x: Shape, w: Shape, attributes: dict[str, Any], dtype: str) -> Graph:
    """Return a convolution with bias, activation and residual."""
    g = Graph("convolution")
    image, weights = g.input("x", x, dtype), g.param("w", w, dtype)
    y = g.conv_channels_last(image, weights, **attributes)
    residual = g.input("residual", y.shape, dtype)
    g.set_outputs([g.relu(y + g.param("bias", w[-1:], dtype)) + residual])
    return g


def run(g: Graph, backend: str, threads: int = 1) -> tuple[Any, Any]:
    random = np.random.default_rng(2)
    feeds = {
        str(v.node.name): random.standard_normal(v.type.static_shape).astype(v.dtype.numpy)
        for v in (*g.inputs, *g.params)
    }
    params = {str(v.node.name): feeds[str(v.node.name)] for v in g.params}
    inputs = {name: array for name, array in feeds.items() if name not in params}
    found = rlx.compile(g, backend=backend, params=params, threads=threads)(**inputs)[0]
    return found, evaluate(g, feeds)[0]


@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_reference(name: str) -> None:
    found, expected = run(graph_of(*CASES[name], "f32"), "llvm")
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("name", ["tails-everywhere", "few-channels", "three-axes"])
def test_c_computes_what_llvm_does(name: str) -> None:
    g = graph_of(*CASES[name], "f64")
    found, expected = run(g, "c")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, run(g, "llvm")[0])


def test_integers_take_the_formula() -> None:
    g = Graph("integers")
    x, w = g.input("x", (1, 6, 6, 4), "i32"), g.param("w", (3, 3, 4, 16), "i32")
    g.set_outputs([g.conv_channels_last(x, w)])
    found, expected = run(g, "llvm")
    np.testing.assert_array_equal(found, expected)


def test_bits_are_the_same_on_two_threads() -> None:
    g = graph_of((3, 12, 12, 32), (3, 3, 32, 64), {"padding": ((1, 1), (1, 1))}, "f32")
    np.testing.assert_array_equal(run(g, "llvm", 2)[0], run(g, "llvm", 1)[0])


def test_bias_activation_and_residual_join_the_convolution() -> None:
    g = graph_of((1, 14, 14, 16), (3, 3, 16, 32), {}, "f32")
    (thunk,) = rlx.compile(g, backend="llvm", precision="strict").schedule.phase(Phase.RUN)
    assert isinstance(thunk, Thunk)
    anchor = find_anchor(thunk_body(thunk))
    assert anchor is not None
    assert isinstance(anchor.lowering, Schedule)


def test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c() -> None:
    g = graph_of((1, 58, 58, 64), (3, 3, 64, 64), {}, "f32")
    source = str(rlx.compile(g, backend="c", precision="strict").c_source)
    kernel = source[source.index("static void conv_") :]
    assert kernel[: kernel.index("\n}\n")].count("\n") <= 110


def test_a_tile_that_does_not_fit_is_refused() -> None:
    g = Graph("misfit")
    x, w = g.input("x", (1, 8, 8, 16)), g.param("w", (3, 3, 16, 32))
    attrs = make_attrs(ops.conv_channels_last, {})
    schedule = Schedule(1, 32, 16, 6, ("image", "group", "layer", "rows", "panels"))
    with pytest.raises(ShapeError, match="tiles of 1 by 6 positions and 32 channels"):
        g.append(ops.conv_channels_last, (x, w), attrs, lowering=schedule)

"""Convolutions with channels last, in register tiles or, depthwise, in vectors of channels."""

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
from rlx.target import detect_target

Shape = tuple[int, ...]
PADDED = {"padding": ((1, 1), (1, 1))}
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


DEPTHWISE: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "tails-everywhere": ((2, 11, 17, 37), (3, 3), PADDED),
    "one-tile": ((2, 7, 7, 32), (3, 3), PADDED),
    "every-second": ((1, 15, 16, 48), (3, 3), {"padding": ((1, 1), (0, 1)), "stride": (2, 2)}),
    "steps-beyond-the-window": ((1, 9, 14, 16), (2, 2), {"stride": (3, 4)}),
    "dilated": ((1, 13, 12, 16), (5, 5), {"padding": ((2, 2), (4, 4)), "dilation": (2, 2)}),
    "one-axis": ((3, 40, 21), (4,), {"padding": ((3, 0),), "stride": (2,)}),
    "three-axes": ((1, 5, 6, 7, 19), (2, 3, 2), {"padding": ((1, 0), (1, 1), (0, 1))}),
    "one-pixel": ((1, 1, 1, 16), (3, 3), PADDED),
    "padding-beyond-the-image": ((1, 3, 3, 16), (3, 3), {"padding": ((4, 4), (5, 5))}),
    "no-images": ((0, 5, 5, 16), (3, 3), PADDED),
    "no-padding": ((1, 28, 29, 16), (3, 3), {}),
    "single-taps": ((1, 5, 6, 16), (1, 1), {}),
    "few-channels": ((2, 6, 5, 3), (3, 3), PADDED),
    "overlapping-tiles": ((1, 5, 43, 40), (5, 5), {"padding": ((2, 2), (2, 2))}),
    "nothing-inside": ((1, 4, 20, 16), (3, 25), {"padding": ((1, 1), (12, 12))}),
    "long-sums": ((1, 9, 40, 16), (64, 32), {"padding": ((30, 31), (4, 4))}),
}


def graph_of(x: Shape, w: Shape, attributes: dict[str, Any], dtype: str) -> Graph:
    """Return a convolution with bias, activation and residual."""
    g = Graph("convolution")
    image, weights = g.input("x", x, dtype), g.param("w", w, dtype)
    y = ops.stored_conv(image, weights, channels_last=True, **attributes)
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


def depthwise(name: str, dtype: str) -> Graph:
    x, taps, attributes = DEPTHWISE[name]
    return graph_of(x, (*taps, 1, x[-1]), {**attributes, "groups": x[-1]}, dtype)


def lowering_of(program: Any) -> object:
    (thunk,) = program.schedule.phase(Phase.RUN)
    assert isinstance(thunk, Thunk)
    anchor = find_anchor(thunk_body(thunk))
    assert anchor is not None
    return anchor.lowering


@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_reference(name: str) -> None:
    found, expected = run(graph_of(*CASES[name], "f32"), "llvm")
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("name", DEPTHWISE)
def test_vectors_of_channels_agree_with_the_reference(name: str) -> None:
    g = depthwise(name, "f32")
    assert isinstance(lowering_of(rlx.compile(g, backend="llvm")), Schedule)
    found, expected = run(g, "llvm")
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "g",
    [
        *(
            graph_of(*CASES[name], "f64")
            for name in ("tails-everywhere", "few-channels", "three-axes")
        ),
        *(depthwise(name, "f64") for name in ("tails-everywhere", "every-second", "three-axes")),
    ],
)
def test_c_computes_what_llvm_does(g: Graph) -> None:
    found, expected = run(g, "c")
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, run(g, "llvm")[0])


def test_integers_take_the_formula() -> None:
    g = Graph("integers")
    x, w = g.input("x", (1, 6, 6, 4), "i32"), g.param("w", (3, 3, 4, 16), "i32")
    g.set_outputs([ops.stored_conv(x, w, channels_last=True)])
    found, expected = run(g, "llvm")
    np.testing.assert_array_equal(found, expected)


def test_bits_are_the_same_on_two_threads() -> None:
    for g in (
        graph_of((3, 12, 12, 32), (3, 3, 32, 64), PADDED, "f32"),
        graph_of((3, 30, 31, 64), (3, 3, 1, 64), {**PADDED, "groups": 64}, "f32"),
    ):
        np.testing.assert_array_equal(run(g, "llvm", 2)[0], run(g, "llvm", 1)[0])


def test_bias_activation_and_residual_join_the_convolution() -> None:
    g = graph_of((1, 14, 14, 16), (3, 3, 16, 32), {}, "f32")
    assert isinstance(lowering_of(rlx.compile(g, backend="llvm", precision="strict")), Schedule)


def test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c() -> None:
    g = graph_of((1, 58, 58, 64), (3, 3, 64, 64), {}, "f32")
    source = str(rlx.compile(g, backend="c", precision="strict").c_source)
    kernel = source[source.index("static void stored_conv_") :]
    assert kernel[: kernel.index("\n}\n")].count("\n") <= 110


def test_a_tile_that_does_not_fit_is_refused() -> None:
    g = Graph("misfit")
    x, w = g.input("x", (1, 8, 8, 16)), g.param("w", (3, 3, 16, 32))
    attrs = make_attrs(ops.stored_conv, {"channels_last": True})
    schedule = Schedule(1, 32, 16, 6, ("image", "group", "layer", "rows", "panels"))
    with pytest.raises(ShapeError, match="tiles of 1 by 6 positions and 32 channels"):
        g.append(ops.stored_conv, (x, w), attrs, lowering=schedule)


def test_a_kernel_in_place_computes_no_element_twice() -> None:
    """43 columns and 40 channels end in parts of tiles, which overlap others elsewhere."""
    shapes = {"x": (1, 5, 43, 40), "w": (5, 5, 1, 40), "total": (1, 5, 43, 40)}
    g = Graph("in_place")
    x, w, total = (g.input(name, shape) for name, shape in shapes.items())
    convolved = ops.stored_conv(x, w, channels_last=True, groups=40, padding=((2, 2), (2, 2)))
    g.set_outputs([g.cumsum(total, axis=1) + convolved])
    program = rlx.compile(g)
    lanes = detect_target().lanes(4)
    assert f"lanes = {lanes}, " in str(program.schedule)
    assert "; in place" in str(program.schedule)
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    (expected,) = rlx.ir.reference.evaluate(g, inputs)
    np.testing.assert_allclose(program(**inputs)[0], expected, rtol=2e-4, atol=2e-4)


def test_positions_outside_are_not_multiplied_by_zero() -> None:
    """An infinite weight is not multiplied by padding: the corner is the sum of four taps."""
    g = Graph("borders")
    x, w = g.input("x", (1, 4, 4, 16)), g.input("w", (3, 3, 1, 16))
    g.set_outputs([ops.stored_conv(x, w, channels_last=True, groups=16, padding=PADDED["padding"])])
    taps = np.ones((3, 3, 1, 16), np.float32)
    taps[0, 0] = np.inf
    (y,) = rlx.compile(g)(x=np.ones((1, 4, 4, 16), np.float32), w=taps)
    assert (y[0, 0, 0] == 4).all()
    assert np.isinf(y[0, 1, 1]).all()


def test_a_network_of_depthwise_layers_is_transposed_at_its_edges_alone() -> None:
    g = Graph("inverted_residual")
    x = g.input("x", (1, 16, 28, 28))
    wide = g.relu(g.conv(x, g.param("up", (96, 16, 1, 1))))
    each = g.relu(
        g.conv(wide, g.param("each", (96, 1, 3, 3)), groups=96, padding=PADDED["padding"])
    )
    g.set_outputs([g.conv(each, g.param("down", (16, 96, 1, 1))) + x])
    text = str(rlx.compile(g).schedule)
    assert 'border = "in_place"' in text
    assert "pad(" not in text
    moved = [line for line in text.split("run:")[1].splitlines() if " transpose(" in line]
    assert len(moved) <= 2
    arrays = {
        name: np.random.default_rng(3).standard_normal(shape).astype("f4")
        for name, shape in (("x", (1, 16, 28, 28)), ("up", (96, 16, 1, 1)),
                            ("each", (96, 1, 3, 3)), ("down", (16, 96, 1, 1)))
    }  # fmt: skip
    params = {name: array for name, array in arrays.items() if name != "x"}
    (found,) = rlx.compile(g, params=params)(x=arrays["x"])
    np.testing.assert_allclose(found, rlx.ir.reference.evaluate(g, arrays)[0], rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize(
    ("w", "attributes"),
    [
        ((3, 3, 1, 32), {"groups": 16}),
        ((3, 3, 1, 16), {"groups": 16, "padding": ((-1, 0), (0, 0))}),
    ],
    ids=["multiplied", "cropped"],
)
def test_depthwise_schedules_that_do_not_fit_are_refused(
    w: Shape, attributes: dict[str, Any]
) -> None:
    g = Graph("misfit")
    x, weights = g.input("x", (1, 8, 8, 16)), g.param("w", w)
    attrs = make_attrs(ops.stored_conv, {**attributes, "channels_last": True})
    order = ("image", "layer", "rows", "panels")
    schedule = Schedule(1, 16, 16, 4, order, right="in_place", border="in_place")
    with pytest.raises(ShapeError, match="vectors of 16 channels do not fit"):
        g.append(ops.stored_conv, (x, weights), attrs, lowering=schedule)

"""Winograd's convolutions: within their bound at odd sizes, chosen where they pay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.codegen.kernels.build import find_anchor, thunk_body
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.schedule import Phase, Thunk
from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.layout import Panels, WinogradPanels
from rlx.ir.lowering import Schedule, Winograd
from rlx.ir.op import make_attrs
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.winograd import Matrix, on_both_axes, transforms
from rlx.passes.layout.tile_convolutions import tile_convolutions
from rlx.target import detect_target, named_target
from tests.codegen.kernels.native import case_of, module_of, run_case

Array = NDArray[Any]
Shape = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]

APART = {"apart": (2, 2), "unevenly-apart": (3, 1), "further-apart-than-the-image": (5, 4)}
"""Dilations of the cases that have them."""

CASES: dict[str, tuple[Shape, int, Pads]] = {
    "odd-extents": ((2, 9, 11, 16), 32, ((1, 1), (1, 1))),
    "odd-channels": ((1, 7, 5, 19), 37, ((0, 1), (2, 0))),
    "one-result": ((1, 3, 3, 4), 5, ((0, 0), (0, 0))),
    "one-pixel": ((3, 1, 1, 8), 16, ((1, 1), (1, 1))),
    "wide": ((1, 3, 30, 3), 16, ((2, 2), (0, 0))),
    "no-padding": ((1, 10, 10, 16), 16, ((0, 0), (0, 0))),
    "apart": ((2, 19, 14, 16), 32, ((2, 2), (1, 3))),
    "unevenly-apart": ((1, 13, 9, 19), 20, ((6, 0), (1, 1))),
    "further-apart-than-the-image": ((1, 3, 4, 16), 16, ((10, 9), (8, 5))),
}


def winograd_graph(
    x: Shape, outputs: int, pads: Pads, step: int, dtype: str, apart: tuple[int, int] = (1, 1)
) -> Graph:
    """Return the convolution with bias and activation, whatever a direct one would cost."""
    g = Graph("winograd")
    image, weights = g.input("x", x, dtype), g.param("w", (3, 3, x[-1], outputs), dtype)
    u = ops.pack_panels(weights, layout=WinogradPanels(step, 32))
    attrs = make_attrs(ops.stored_conv, {"padding": pads, "dilation": apart, "channels_last": True})
    record = Winograd(step, 12, 6, 32, 16, 1, 2)
    y = g.append(ops.stored_conv, (image, u), attrs, lowering=record)[0]
    g.set_outputs([g.relu(y + g.param("bias", (outputs,), dtype))])
    return g


def direct_graph(
    x: Shape, outputs: int, pads: Pads, dtype: str = "f32", apart: tuple[int, int] = (1, 1)
) -> Graph:
    g = Graph("direct")
    image, weights = g.input("x", x, dtype), g.param("w", (3, 3, x[-1], outputs), dtype)
    y = ops.stored_conv(image, weights, channels_last=True, padding=pads, dilation=apart)
    g.set_outputs([g.relu(y + g.param("bias", (outputs,), dtype))])
    return g


def numbers(x: Shape, outputs: int, dtype: str) -> dict[str, Array]:
    random = np.random.default_rng(3)
    shapes = {"x": x, "w": (3, 3, x[-1], outputs), "bias": (outputs,)}
    return {name: random.standard_normal(s).astype(dtype) for name, s in shapes.items()}


def magnitudes(*stages: Matrix) -> Array:
    """Return the magnitudes of the stages of a transform, for both axes of a tile."""
    whole = np.eye(len(stages[0][0]))
    for stage in stages:
        whole = np.abs(np.array([[float(each) for each in row] for row in stage])) @ whole
    return np.kron(whole, whole)


def error_bound(
    feeds: dict[str, Array], pads: Pads, step: int, apart: tuple[int, int] = (1, 1)
) -> Array:
    """Return the largest error of each result.

    A result is rounded once per sum over channels, at most 5 times in each of the two stages of
    each of the four transforms of image and result, 5 times for a transformed weight, and twice
    more for bias and the weights' matrix. Each rounding is of a number no larger than the same
    formula gives for magnitudes. Rows and columns that are `apart` are images of their own.
    """
    x, w = (np.abs(feeds[name].astype("f8")) for name in "xw")
    wide = np.pad(x, ((0, 0), *pads, (0, 0)))
    down, across = apart
    height, width = wide.shape[1] - 2 * down, wide.shape[2] - 2 * across
    wide = np.pad(wide, ((0, 0), (0, down), (0, across), (0, 0)))
    bound = np.zeros((len(x), height + down, width + across, w.shape[-1]))
    for i in range(down):
        for j in range(across):
            part = bound[:, i::down, j::across]
            every = magnitude_of_results(wide[:, i::down, j::across], w, step)
            part[:, : every.shape[1], : every.shape[2]] = every
    roundings = x.shape[-1] + 8 * 5 + 5 + 2
    unit = np.finfo(feeds["x"].dtype).eps / 2
    biases: Array = np.abs(feeds["bias"].astype("f8"))
    whole: Array = roundings * unit * (bound[:, :height, :width] + biases) * (1 + 1e-4)
    return whole


def magnitude_of_results(x: Array, w: Array, step: int) -> Array:
    """Return the largest magnitude on the way to each result, without dilation or padding."""
    tile, made = step + 2, transforms(step)
    height, width = x.shape[1] - 2, x.shape[2] - 2
    wide = np.pad(x, ((0, 0), (0, step), (0, step), (0, 0)))
    u = (magnitudes(made.taps) @ w.reshape(9, -1)).reshape(tile * tile, *w.shape[2:])
    bound = np.zeros((len(x), height, width, w.shape[-1]))
    for i in range(0, height, step):
        for j in range(0, width, step):
            image = wide[:, i : i + tile, j : j + tile].reshape(len(x), tile * tile, -1)
            points = np.einsum("pt,ntc->npc", magnitudes(*made.image), image)
            sums = np.einsum("npc,pck->npk", points, u)
            results = np.einsum("rp,npk->nrk", magnitudes(*made.result), sums)
            part = bound[:, i : i + step, j : j + step]
            block = results.reshape(len(x), step, step, -1)
            part[...] = block[:, : part.shape[1], : part.shape[2]]
    return bound


@pytest.mark.parametrize("step", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_results_are_within_the_bound(name: str, step: int) -> None:
    x, outputs, pads = CASES[name]
    feeds = numbers(x, outputs, "f4")
    params = {each: feeds[each] for each in ("w", "bias")}
    wide = {each: array.astype("f8") for each, array in feeds.items()}
    apart = APART.get(name, (1, 1))
    exact = evaluate(direct_graph(x, outputs, pads, "f64", apart), wide)[0]
    bound = error_bound(feeds, pads, step, apart)
    g = winograd_graph(x, outputs, pads, step, "f32", apart)
    found = rlx.compile(g, params=params)(x=feeds["x"])[0]
    assert found.shape == exact.shape
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("name", ["odd-channels", *APART])
@pytest.mark.parametrize("step", [2, 4])
def test_the_transforms_are_exact(step: int, name: str) -> None:
    """In f64 the result is that of the direct convolution to the last digits."""
    (x, outputs, pads), apart = CASES[name], APART.get(name, (1, 1))
    feeds = numbers(x, outputs, "f8")
    params = {each: feeds[each] for each in ("w", "bias")}
    g = winograd_graph(x, outputs, pads, step, "f64", apart)
    found = rlx.compile(g, params=params)(x=feeds["x"])[0]
    exact = evaluate(direct_graph(x, outputs, pads, "f64", apart), feeds)[0]
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_c_computes_what_llvm_does() -> None:
    x, outputs, pads = CASES["odd-channels"]
    feeds = numbers(x, outputs, "f8")
    params = {each: feeds[each] for each in ("w", "bias")}
    g = winograd_graph(x, outputs, pads, 4, "f64")
    c, llvm = (rlx.compile(g, backend=b, params=params)(x=feeds["x"])[0] for b in ("c", "llvm"))
    np.testing.assert_array_equal(c, llvm)


def test_bits_are_the_same_on_two_threads() -> None:
    x, outputs, pads = (3, 12, 13, 32), 64, ((1, 1), (1, 1))
    feeds = numbers(x, outputs, "f4")
    params = {each: feeds[each] for each in ("w", "bias")}
    g = winograd_graph(x, outputs, pads, 4, "f32")
    one, two = (rlx.compile(g, params=params, threads=n)(x=feeds["x"])[0] for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_any_number_of_images() -> None:
    n = Dim("n", max=4)
    g = Graph("images")
    weights = g.param("w", (3, 3, 64, 64))
    y = ops.stored_conv(
        g.input("x", (n, 20, 20, 64)), weights, channels_last=True, padding=((1, 1), (1, 1))
    )
    g.set_outputs([y])
    feeds = numbers((3, 20, 20, 64), 64, "f4")
    program = rlx.compile(g, params={"w": feeds["w"]})
    assert isinstance(lowering_of(program), Winograd)
    for count in (1, 3):
        given = {"x": feeds["x"][:count], "w": feeds["w"]}
        expected = evaluate(g, given)[0]
        np.testing.assert_allclose(program(x=given["x"])[0], expected, atol=2e-3)


def lowering_of(program: Any) -> object:
    """Return the record of the only convolution of a program's run."""
    found = []
    for thunk in program.schedule.phase(Phase.RUN):
        assert isinstance(thunk, Thunk)
        anchor = find_anchor(thunk_body(thunk))
        if anchor is not None and anchor.op.family == "conv":
            found.append(anchor.lowering)
    (record,) = found
    return record


def test_large_layers_are_transformed_unless_precision_is_strict() -> None:
    g = direct_graph((1, 56, 56, 64), 64, ((1, 1), (1, 1)))
    assert isinstance(lowering_of(rlx.compile(g)), Winograd)
    assert isinstance(lowering_of(rlx.compile(g, precision="strict")), Schedule)
    assert "winograd(step = 4" in str(rlx.compile(g).schedule)


def test_a_single_layer_with_channels_in_front_is_transformed() -> None:
    g = Graph("layer")
    x, w = g.input("x", (1, 64, 56, 56)), g.param("w", (64, 64, 3, 3))
    g.set_outputs([g.conv(x, w, padding=((1, 1), (1, 1)))])
    assert isinstance(lowering_of(rlx.compile(g)), Winograd)


def test_taps_that_are_apart_are_transformed() -> None:
    g = Graph("dilated")
    x, w = g.input("x", (1, 256, 28, 28)), g.param("w", (256, 256, 3, 3))
    g.set_outputs([g.conv(x, w, padding=((2, 2), (2, 2)), dilation=(2, 2))])
    assert isinstance(lowering_of(rlx.compile(g)), Winograd)


@pytest.mark.parametrize(
    ("outputs", "attributes"),
    [
        (64, {"stride": (2, 2)}),
        (64, {"padding": ((3, 3), (0, 0))}),
        (8, {}),
    ],
    ids=["strided", "padding-beyond-the-window", "few-channels"],
)
def test_others_stay_direct(outputs: int, attributes: dict[str, Any]) -> None:
    g = Graph("other")
    x, w = g.input("x", (1, 56, 56, 64)), g.param("w", (3, 3, 64, outputs))
    g.set_outputs([ops.stored_conv(x, w, channels_last=True, **attributes)])
    assert not isinstance(lowering_of(rlx.compile(g)), Winograd)


def test_weights_of_the_call_are_not_transformed_at_every_call() -> None:
    g = Graph("call")
    x, w = g.input("x", (1, 56, 56, 64)), g.input("w", (3, 3, 64, 64))
    g.set_outputs([ops.stored_conv(x, w, channels_last=True)])
    assert isinstance(lowering_of(rlx.compile(g)), Schedule)


def test_weights_that_are_computed_take_no_longer_to_choose_for() -> None:
    """Every product reads the one before twice: 2^64 paths lead to the param."""
    g = Graph("computed")
    x, w = g.input("x", (1, 56, 56, 64)), g.param("w", (3, 3, 64, 64))
    for _ in range(64):
        w = w * w
    g.set_outputs([ops.stored_conv(x, w, channels_last=True)])
    (y,) = tile_convolutions(named_target("x86-64-v3"))(g).outputs
    assert isinstance(y.node.lowering, Winograd)


def test_blocks_that_do_not_fit_are_refused() -> None:
    g = Graph("misfit")
    x, w = g.input("x", (1, 8, 8, 16)), g.param("w", (3, 3, 16, 32))
    u = ops.pack_panels(w, layout=WinogradPanels(4, 32))
    for tiles, attributes in (
        (12, {}),
        (10, {"stride": (2, 2)}),
        (10, {"padding": ((-1, 0),) * 2}),
    ):
        attrs = make_attrs(ops.stored_conv, {**attributes, "channels_last": True})
        record = Winograd(4, tiles, 5, 32, 16, 1, 1)
        with pytest.raises(ShapeError, match=f"blocks of {tiles} tiles, 5 rows and 32 columns"):
            g.append(ops.stored_conv, (x, u), attrs, lowering=record)
    with pytest.raises(ShapeError, match="steps be 2 or 4"):
        ops.pack_panels(w, layout=WinogradPanels(3, 32))


@pytest.mark.parametrize("step", [2, 4])
def test_panels_hold_the_weights_at_the_points_and_end_in_zeros(step: int) -> None:
    shape, layout = (3, 3, 5, 19), WinogradPanels(step, 8)
    g = Graph("pack")
    g.set_outputs([ops.pack_panels(g.input("w", shape), layout=layout)])
    case = case_of(g, "pack")
    given = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    module = LlvmBackend().load(module_of([case]), detect_target())
    status, (stored,) = run_case(case, module.address(case.entry.name), [given])
    assert status == 0
    points = on_both_axes(transforms(step).taps) @ given.reshape(9, -1)
    found = Panels(8).elements(stored, (len(points), *shape[2:]))
    np.testing.assert_allclose(found, points.reshape(found.shape), rtol=1e-5, atol=1e-6)
    assert not stored[:, -1, :, 3:].any()
    np.testing.assert_allclose(layout.elements(stored, shape), given, rtol=1e-4, atol=1e-4)


def test_functions_are_strict_if_asked() -> None:
    random = np.random.default_rng(1)
    x, w = (random.standard_normal(s).astype("f4") for s in ((1, 64, 28, 28), (64, 64, 3, 3)))
    by_strict = rlx.jit(lambda x: rlx.nn.conv(x, w, padding="SAME"), precision="strict")(x)
    g = Graph("layer")
    image, weights = g.input("x", x.shape), g.param("w", w.shape)
    g.set_outputs([g.conv(image, weights, padding=((1, 1), (1, 1)))])
    direct = rlx.compile(g, params={"w": w}, precision="strict")(x=x)[0]
    transformed = rlx.compile(g, params={"w": w})(x=x)[0]
    np.testing.assert_allclose(by_strict, direct, atol=1e-4)
    assert not np.array_equal(transformed, direct)
    with pytest.raises(DTypeError, match="unknown precision 'exact'"):
        rlx.jit(lambda x: x, precision="exact")

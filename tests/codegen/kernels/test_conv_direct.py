"""Convolutions in register tiles or rows of vectors: tails in every direction, epilogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.kernels.build import find_anchor, thunk_body
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.schedule import Phase, Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.layout import ChannelPanels
from rlx.ir.lowering import Schedule
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.runtime.executable import Executable
from rlx.target import detect_target
from tests.codegen.kernels.native import case_of, module_of, run_case

Shape = tuple[int, ...]
PADDED = {"padding": ((1, 1), (1, 1))}
CASES: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "tails-everywhere": ((2, 3, 11, 17), (37, 3, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "several-rows": ((2, 8, 7, 7), (16, 8, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "strided": ((1, 6, 15, 16), (40, 6, 3, 2), {"stride": (2, 3), "padding": ((0, 2), (1, 0))}),
    "dilated": ((1, 4, 13, 12), (16, 4, 3, 3), {"dilation": (2, 3), "padding": ((2, 2), (3, 3))}),
    "grouped": ((2, 12, 9, 9), (27, 4, 3, 3), {"groups": 3, "padding": ((1, 1), (1, 1))}),
    "one-axis": ((3, 5, 40), (20, 5, 4), {"stride": (2,), "padding": ((3, 0),)}),
    "three-axes": ((1, 3, 5, 6, 7), (17, 3, 2, 3, 2), {"padding": ((1, 0), (1, 1), (0, 1))}),
    "spread": ((1, 8, 5, 4), (16, 8, 3, 3),
               {"input_dilation": (2, 3), "padding": ((1, 2), (2, 0))}),
    "cropped": ((1, 8, 9, 9), (16, 8, 2, 2), {"padding": ((-1, 0), (2, -2))}),
    "grouped-single-taps": ((2, 16, 5, 7), (32, 8, 1, 1), {"groups": 2}),
    "single-taps": ((2, 16, 5, 7), (24, 16, 1, 1), {}),
    "strided-single-taps": ((2, 16, 5, 7), (24, 16, 1, 1), {"stride": (2, 3)}),
    "single-taps-far-apart": ((2, 64, 33, 40), (40, 64, 1, 1), {}),
    "grouped-taps-far-apart": ((1, 128, 31, 41), (48, 64, 1, 1), {"groups": 2}),
    "strided-taps-far-apart": ((2, 96, 31, 61), (36, 96, 1, 1), {"stride": (3, 2)}),
    "whole-window": ((3, 16, 4, 3), (24, 16, 4, 3), {}),
    "many-weights": ((2, 64, 5, 5), (256, 64, 3, 3), {"padding": ((1, 1), (1, 1))}),
    "depthwise-odd-rows": ((2, 5, 9, 47), (5, 1, 3, 3), {"groups": 5, **PADDED}),
    "depthwise-padded-before": ((1, 2, 70, 66), (2, 1, 3, 3), {"groups": 2, **PADDED}),
    "depthwise-padded-single-taps": ((1, 32, 9, 9), (64, 1, 1, 1), {"groups": 32, **PADDED}),
    "depthwise-padded-layers": ((1, 4, 3, 6, 9), (4, 1, 2, 3, 3),
                      {"groups": 4, "padding": ((0, 1), (1, 1), (2, 0))}),
    "depthwise-cropped": ((1, 4, 20, 20), (4, 1, 3, 3),
                          {"groups": 4, "padding": ((-1, 0), (1, -2))}),
    "depthwise-narrow": ((2, 16, 9, 7), (16, 1, 3, 3), {"groups": 16, **PADDED}),
    "depthwise-four-at-a-time": ((2, 12, 7, 7), (12, 1, 3, 3), {"groups": 12, **PADDED}),
    "depthwise-one-at-a-time": ((3, 13, 5, 6), (13, 1, 3, 2), {"groups": 13, **PADDED}),
    "depthwise-narrow-and-tall": ((1, 8, 62, 31), (8, 1, 3, 3), {"groups": 8, **PADDED}),
    "depthwise-narrow-and-deep": ((1, 8, 5, 20, 20), (8, 1, 5, 3, 3),
                        {"groups": 8, "padding": ((0, 0), (1, 1), (1, 1))}),
    "depthwise-narrow-multiplied": ((3, 4, 5, 1), (16, 1, 3, 3), {"groups": 4, **PADDED}),
    "depthwise-narrow-layers": ((1, 8, 4, 9, 13), (8, 1, 2, 3, 2),
                                {"groups": 8, "stride": (2, 1, 1)}),
    "depthwise-every-second": ((2, 5, 14, 62), (5, 1, 3, 3),
                               {"groups": 5, "stride": (2, 2), **PADDED}),
    "depthwise-multiplied": ((1, 6, 8, 20), (18, 1, 2, 3), {"groups": 6}),
    "depthwise-many-taps": ((1, 4, 20, 19), (4, 1, 7, 7), {"groups": 4, "stride": (1, 2)}),
    "depthwise-dilated": ((1, 7, 16, 18), (7, 1, 3, 3), {"groups": 7, "dilation": (2, 3)}),
    "depthwise-three-axes": ((1, 8, 5, 6, 19), (8, 1, 2, 3, 2), {"groups": 8, "stride": (2, 1, 1)}),
    "depthwise-one-axis": ((3, 8, 150), (8, 1, 4), {"groups": 8, "padding": ((3, 0),)}),
    "depthwise-single-taps": ((2, 16, 9, 9), (32, 1, 1, 1), {"groups": 16}),
    "depthwise-steps-of-three": ((2, 16, 30, 30), (16, 1, 3, 3), {"groups": 16, "stride": (3, 3)}),
}  # fmt: skip


def graph_of(x: tuple[int | Dim, ...], w: Shape, attributes: dict[str, Any], dtype: str) -> Graph:
    """Return a convolution with bias, activation and residual."""
    g = Graph("convolution")
    image, weights = g.input("x", x, dtype), g.param("w", w, dtype)
    bias = g.param("bias", (w[0], *(1,) * (len(w) - 2)), dtype)
    y = g.conv(image, weights, **attributes)
    residual = g.input("residual", y.shape, dtype)
    g.set_outputs([g.relu(y + bias) + residual])
    return g


def feeds_of(g: Graph, binding: dict[str, int] | None = None) -> dict[str, Any]:
    random = np.random.default_rng(2)
    leaves = [*g.inputs, *g.params]
    shapes = [
        [e if isinstance(e, int) else e.evaluate(binding or {}) for e in v.shape] for v in leaves
    ]
    return {
        str(v.node.name): random.standard_normal(shape).astype(v.dtype.numpy)
        for v, shape in zip(leaves, shapes, strict=True)
    }


def run(g: Graph, feeds: dict[str, Any], backend: str, threads: int = 1) -> Any:
    params = {str(v.node.name): feeds[str(v.node.name)] for v in g.params}
    inputs = {name: array for name, array in feeds.items() if name not in params}
    program = rlx.compile(g, backend=backend, params=params, threads=threads)
    assert isinstance(program, Executable)
    assert program.threads == threads, "too little work for threads to share"
    return program(**inputs)[0]


@pytest.mark.parametrize("name", CASES)
def test_tiles_agree_with_the_reference(name: str) -> None:
    g = graph_of(*CASES[name], "f32")
    feeds = feeds_of(g)
    (expected,) = evaluate(g, feeds)
    bound = 2e-5 if name.startswith("depthwise") else 2e-4
    np.testing.assert_allclose(run(g, feeds, "llvm"), expected, rtol=2e-5, atol=bound)


@pytest.mark.parametrize("name", [
    "tails-everywhere", "several-rows", "three-axes", "grouped-taps-far-apart",
    "strided-taps-far-apart", "depthwise-odd-rows", "depthwise-every-second",
    "depthwise-many-taps", "depthwise-narrow", "depthwise-narrow-multiplied",
])  # fmt: skip
def test_c_computes_what_llvm_does(name: str) -> None:
    g = graph_of(*CASES[name], "f64")
    feeds = feeds_of(g)
    (expected,) = evaluate(g, feeds)
    given = run(g, feeds, "c")
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(given, run(g, feeds, "llvm"))


@pytest.mark.parametrize(
    "case",
    [
        ((3, 32, 12, 12), (64, 32, 3, 3), PADDED),
        CASES["strided-taps-far-apart"],
        ((2, 960, 7, 7), (960, 1, 3, 3), {"groups": 960, **PADDED}),
    ],
    ids=["tiles", "copied rows", "small images padded together"],
)
def test_bits_are_the_same_on_two_threads(case: tuple[Shape, Shape, dict[str, Any]]) -> None:
    g = graph_of(*case, "f32")
    feeds = feeds_of(g)
    np.testing.assert_array_equal(run(g, feeds, "llvm", 2), run(g, feeds, "llvm", 1))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_planes_far_apart_are_copied_by_rows(dtype: str, tmp_path: Path) -> None:
    """Panels read the copy; what is close together, or under few weights, is read in place."""
    places = {(1, 64, 56, 56): True, (1, 8, 56, 56): False, (1, 64, 7, 56): False}
    for shape, copies in places.items():
        g = graph_of(shape, (32, shape[1], 1, 1), {}, dtype)
        made = rlx.aot(g, tmp_path, name="conv", target="x86-64-v4", emit_only=True)
        found = "A strip: rows of a tile, copied side by side." in made.source.read_text()
        assert found == copies


def test_the_number_of_images_may_be_symbolic() -> None:
    n = Dim("n", max=4)
    for g in (
        graph_of((n, 8, 6, 6), (16, 8, 3, 3), {}, "f32"),
        graph_of((n, 64, 56, 56), (32, 64, 1, 1), {}, "f32"),
    ):
        for count in (0, 1, 3):
            feeds = feeds_of(g, {"n": count})
            (expected,) = evaluate(g, feeds)
            np.testing.assert_allclose(run(g, feeds, "llvm"), expected, rtol=2e-5, atol=2e-4)


def test_bias_activation_and_residual_join_the_convolution() -> None:
    g = graph_of((1, 16, 14, 14), (32, 16, 3, 3), {}, "f32")
    running = rlx.compile(g, backend="llvm").schedule.phase(Phase.RUN)
    (thunk,) = running
    assert isinstance(thunk, Thunk)
    anchor = find_anchor(thunk_body(thunk))
    assert anchor is not None
    assert isinstance(anchor.lowering, Schedule)


def test_equal_convolutions_share_a_kernel() -> None:
    g = Graph("two")
    x = g.input("x", (1, 16, 8, 8))
    for name in ("w1", "w2", "w3"):
        w = g.param(name, (16, 16, 3, 3))
        x = g.relu(g.conv(x, w, padding=((1, 1), (1, 1))))
    g.set_outputs([x])
    source = str(rlx.compile(g, backend="c").c_source)
    assert source.count("void stored_conv_relu") == 1


def test_a_tiled_convolution_with_its_epilogue_is_two_screens_of_c() -> None:
    g = graph_of((1, 64, 58, 58), (64, 64, 3, 3), {}, "f32")
    source = str(rlx.compile(g, backend="c", precision="strict").c_source)
    kernel = source[source.index("static void conv_") :]
    assert kernel[: kernel.index("\n}\n")].count("\n") <= 110


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
@pytest.mark.parametrize(("shape", "groups"), [((10, 3, 2, 3), 2), ((8, 5, 4), 1), ((6, 1, 3), 6)])
def test_panels_of_channels_hold_the_weights_and_end_in_zeros(
    shape: Shape, groups: int, dtype: str
) -> None:
    g = Graph("pack")
    w = g.input("w", shape, dtype)
    layout = ChannelPanels(4, groups)
    g.set_outputs([ops.pack_panels(w, layout=layout)])
    case = case_of(g, "pack")
    given = (np.random.default_rng(1).standard_normal(shape) * 9).astype(w.dtype.numpy)
    module = LlvmBackend().load(module_of([case]), detect_target())
    status, (stored,) = run_case(case, module.address(case.entry.name), [given])
    assert status == 0
    np.testing.assert_array_equal(layout.elements(stored, shape), given)
    assert stored.shape == layout.stored_shape(shape)
    assert not stored[..., shape[0] // groups % 4 or 4 :][:, -1].astype(np.float64).any()


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("is_param", [False, True])
@pytest.mark.parametrize(("channels", "size", "taps"), [(7000, 3, 1), (4000, 4, 3), (1500, 9, 5)])
def test_rounding_errors_of_equal_terms_do_not_add_up_over_channels_and_taps(
    channels: int, size: int, taps: int, is_param: bool, backend: str
) -> None:
    g = Graph("long")
    x = g.input("x", (1, channels, size, size))
    w = (g.param if is_param else g.input)("w", (16, channels, taps, taps))
    g.set_outputs([ops.conv(x, w)])
    feeds = {"x": np.full(x.type.static_shape, 0.1, "f4"), "w": np.ones(w.type.static_shape, "f4")}
    params = {"w": feeds.pop("w")} if is_param else {}
    compiled = rlx.compile(g, backend=backend, params=params, threads=1, precision="strict")
    (got,) = compiled.run(feeds)
    terms = channels * taps * taps
    expected = terms * float(np.float32(0.1))
    np.testing.assert_allclose(got, expected, rtol=(512 + terms // 256 + taps) * 2.0**-24)

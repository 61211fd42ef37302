"""Resizing where runs decide the extents: as with known extents, in one program for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent, evaluate
from rlx.runtime.compile import compile as compile_graph
from tests.ir.reference.running import run

H, W = Dim("h", min=1, max=12), Dim("w", min=1, max=12)
SIZES = ((1, 1), (2, 5), (5, 2), (7, 11), (12, 12))
TAPS: tuple[dict[str, Any], ...] = (
    {"mode": "nearest"},
    {"mode": "nearest", "rounding": "round_prefer_ceil"},
    {"mode": "nearest", "rounding": "floor", "coordinates": "asymmetric"},
    {"mode": "nearest", "rounding": "ceil", "coordinates": "align_corners"},
    {"mode": "linear"},
    {"mode": "linear", "coordinates": "align_corners"},
    {"mode": "linear", "coordinates": "pytorch_half_pixel"},
    {"mode": "linear", "coordinates": "half_pixel_symmetric"},
    {"mode": "cubic", "cubic_coefficient": -0.5},
    {"mode": "cubic", "exclude_outside": True},
)
EXTENTS: dict[str, tuple[Extent, Extent]] = {
    "whole": (2 * H, 3 * W),
    "known": (5, 9),
    "other": (2 * W + 1, H // 2 + 1),
}


@pytest.mark.whole
@pytest.mark.parametrize("wanted", EXTENTS, ids=str)
@pytest.mark.parametrize("how", TAPS, ids=lambda how: "-".join(map(str, how.values())))
def test_one_program_resizes_images_of_all_extents(how: dict[str, Any], wanted: str) -> None:
    graph = Graph("resize")
    x = graph.input("x", (2, 1, H, W), "f64")
    graph.set_outputs([ops.resize(x, size=EXTENTS[wanted], **how)])
    program = compile_graph(graph, backend="llvm", threads=1)
    rng = np.random.default_rng(0)
    for h, w in SIZES:
        given = rng.standard_normal((2, 1, h, w))
        size = tuple(evaluate(extent, {"h": h, "w": w}) for extent in EXTENTS[wanted])
        expected = run(ops.resize, given, size=size, **how)
        np.testing.assert_allclose(program.run({"x": given})[0], expected, atol=1e-12)


def test_whole_factors_read_no_table_of_positions() -> None:
    for how in ({"mode": "nearest"}, {"mode": "linear"}):
        graph = Graph("resize")
        x = graph.input("x", (1, 1, H, W))
        graph.set_outputs([ops.resize(x, size=(2 * H, 2 * W), scale=(2.0, 2.0), **how)])
        formula = Graph("formula")
        inner = formula.input("x", (1, 1, H, W))
        assert ops.resize.decompose is not None
        ops.resize.decompose(inner, size=(2 * H, 2 * W), scale=(2.0, 2.0), **how)
        assert "gather" not in [node.op.name for node in formula.nodes]


def test_a_factor_given_decides_positions() -> None:
    graph = Graph("resize")
    x = graph.input("x", (1, W), "f64")
    graph.set_outputs([ops.resize(x, size=(W * 3 // 2,), scale=(1.5,), mode="linear")])
    program = compile_graph(graph, backend="llvm", threads=1)
    for w in (2, 3, 11):
        given = np.random.default_rng(w).standard_normal((1, w))
        expected = run(ops.resize, given, size=(w * 3 // 2,), scale=(1.5,), mode="linear")
        np.testing.assert_allclose(program.run({"x": given})[0], expected, atol=1e-12)


@pytest.mark.parametrize("how", [{"antialias": True}, {"coordinates": "tf_crop_and_resize"}])
def test_crops_and_wide_filters_are_for_known_extents(how: dict[str, Any]) -> None:
    graph = Graph("resize")
    x = graph.input("x", (1, W))
    with pytest.raises(ShapeError, match="for known extents"):
        ops.resize(x, size=(5,), mode="linear", **how)

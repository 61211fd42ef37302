"""Depthwise convolutions in rows of vectors, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.ir.reference import evaluate
from tests.codegen.kernels.test_conv_direct import Shape, feeds_of, graph_of, run

PADDED = {"padding": ((1, 1), (1, 1))}
CASES: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "odd-rows": ((2, 5, 9, 47), (5, 1, 3, 3), {"groups": 5, **PADDED}),
    "padded-before": ((1, 2, 70, 66), (2, 1, 3, 3), {"groups": 2, **PADDED}),
    "padded-single-taps": ((1, 32, 9, 9), (64, 1, 1, 1), {"groups": 32, **PADDED}),
    "padded-layers": ((1, 4, 3, 6, 9), (4, 1, 2, 3, 3),
                      {"groups": 4, "padding": ((0, 1), (1, 1), (2, 0))}),
    "cropped": ((1, 4, 20, 20), (4, 1, 3, 3), {"groups": 4, "padding": ((-1, 0), (1, -2))}),
    "narrow": ((2, 16, 9, 7), (16, 1, 3, 3), {"groups": 16, **PADDED}),
    "four-at-a-time": ((2, 12, 7, 7), (12, 1, 3, 3), {"groups": 12, **PADDED}),
    "one-at-a-time": ((3, 13, 5, 6), (13, 1, 3, 2), {"groups": 13, **PADDED}),
    "narrow-and-tall": ((1, 8, 62, 31), (8, 1, 3, 3), {"groups": 8, **PADDED}),
    "narrow-and-deep": ((1, 8, 5, 20, 20), (8, 1, 5, 3, 3),
                        {"groups": 8, "padding": ((0, 0), (1, 1), (1, 1))}),
    "narrow-multiplied": ((3, 4, 5, 1), (16, 1, 3, 3), {"groups": 4, **PADDED}),
    "narrow-layers": ((1, 8, 4, 9, 13), (8, 1, 2, 3, 2), {"groups": 8, "stride": (2, 1, 1)}),
    "every-second": ((2, 5, 14, 62), (5, 1, 3, 3), {"groups": 5, "stride": (2, 2), **PADDED}),
    "multiplied": ((1, 6, 8, 20), (18, 1, 2, 3), {"groups": 6}),
    "many-taps": ((1, 4, 20, 19), (4, 1, 7, 7), {"groups": 4, "stride": (1, 2)}),
    "dilated": ((1, 7, 16, 18), (7, 1, 3, 3), {"groups": 7, "dilation": (2, 3)}),
    "three-axes": ((1, 8, 5, 6, 19), (8, 1, 2, 3, 2), {"groups": 8, "stride": (2, 1, 1)}),
    "one-axis": ((3, 8, 150), (8, 1, 4), {"groups": 8, "padding": ((3, 0),)}),
    "single-taps": ((2, 16, 9, 9), (32, 1, 1, 1), {"groups": 16}),
    "steps-of-three": ((2, 16, 30, 30), (16, 1, 3, 3), {"groups": 16, "stride": (3, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_agree_with_the_reference(name: str) -> None:
    g = graph_of(*CASES[name], "f32")
    feeds = feeds_of(g)
    (expected,) = evaluate(g, feeds)
    np.testing.assert_allclose(run(g, feeds, "llvm"), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "name", ["odd-rows", "every-second", "many-taps", "narrow", "narrow-multiplied"]
)
def test_c_computes_what_llvm_does(name: str) -> None:
    g = graph_of(*CASES[name], "f64")
    feeds = feeds_of(g)
    np.testing.assert_array_equal(run(g, feeds, "c"), run(g, feeds, "llvm"))


def test_bits_are_the_same_on_two_threads() -> None:
    """Small images are padded a few at a time: threads share groups of them."""
    g = graph_of((2, 960, 7, 7), (960, 1, 3, 3), {"groups": 960, **PADDED}, "f32")
    feeds = feeds_of(g)
    np.testing.assert_array_equal(run(g, feeds, "llvm", 2), run(g, feeds, "llvm"))

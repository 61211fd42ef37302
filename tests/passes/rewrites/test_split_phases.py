"""Convolutions of spread inputs, phase by phase, against the reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.ops.conv_geometry import geometry
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.split_phases import split_phases


def spread(x: tuple[int, ...], w: tuple[int, ...], **attributes: Any) -> Graph:
    g = Graph("spread")
    g.set_outputs([g.conv(g.input("x", x, "f64"), g.input("w", w, "f64"), **attributes)])
    return g


def assert_same(g: Graph) -> Graph:
    """Check that nothing is spread any more, and that the results are those of before."""
    split = split_phases(g)
    for node in split.nodes:
        if node.op is ops.conv:
            attributes = node.attrs.as_dict()
            del attributes["groups"]
            assert all(a.input_dilation == 1 for a in geometry(node.result.rank - 2, **attributes))
    random = np.random.default_rng(0)
    feeds = {str(v.node.name): random.standard_normal(v.type.static_shape) for v in g.inputs}
    np.testing.assert_allclose(evaluate(split, feeds)[0], evaluate(g, feeds)[0], atol=1e-12)
    return split


def convolutions(g: Graph) -> int:
    return sum(node.op is ops.conv for node in g.nodes)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("step", "dilation", "taps"), list(itertools.product((2, 3, 4), (1, 2, 3), (1, 2, 3, 5)))
)
def test_every_phase_reads_its_taps(step: int, dilation: int, taps: int) -> None:
    for low, high in ((0, 0), (2, 1), (-1, 3), (5, 6)):
        g = spread(
            (1, 2, 6), (3, 2, taps), input_dilation=(step,), dilation=(dilation,),
            padding=((low + dilation * taps, high),),
        )  # fmt: skip
        assert_same(g)


def test_axes_split_by_themselves() -> None:
    g = spread(
        (2, 4, 3, 5), (6, 2, 3, 2), input_dilation=(2, 1), groups=2, padding=((2, 3), (1, 0)),
        dilation=(1, 2),
    )  # fmt: skip
    assert convolutions(assert_same(g)) == 2
    assert_same(spread((1, 1, 2, 3, 2), (2, 1, 2, 2, 2), input_dilation=(2, 3, 1)))


@pytest.mark.parametrize("groups", [1, 2])
def test_phases_that_read_the_same_elements_are_one_convolution(groups: int) -> None:
    for step, taps, low, high in (
        (2, 2, 1, 1),
        (3, 6, 2, 2),
        (3, 6, 5, 0),
        (4, 4, -1, 3),
        (8, 16, 4, 9),
        (6, 6, 0, 0),
    ):
        g = spread(
            (2, 4, 3, 5), (6, 4 // groups, taps, 2), input_dilation=(step, 1), groups=groups,
            padding=((low, high), (1, 0)), dilation=(1, 2),
        )  # fmt: skip
        assert convolutions(assert_same(g)) == 1
    both = spread((2, 1, 3, 4), (3, 1, 32, 6), input_dilation=(32, 3), padding=((31, 31), (2, 5)))
    assert convolutions(assert_same(both)) == 1


def test_phases_that_no_tap_reaches_are_zeros() -> None:
    g = spread((1, 2, 5, 5), (3, 2, 1, 1), input_dilation=(2, 2))
    assert convolutions(assert_same(g)) == 1


def test_strided_results_of_spread_inputs_stay() -> None:
    g = spread((1, 2, 5), (3, 2, 3), input_dilation=(2,), stride=(2,))
    assert split_phases(g) is g

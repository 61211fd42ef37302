"""Which kernel a convolution gets, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlx.ir.graph import Graph, Node
from rlx.ir.lowering import Lowering, Schedule, Windowed
from rlx.ir.ops.conv_geometry import Planes, geometry
from rlx.ir.shape import Dim
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.convolution_tiles import Vectors, cheapest_tile, cycles_of_step
from rlx.passes.layout.tile_convolutions import choose_convolution, tile_convolutions
from rlx.target import named_target

AVX2, AVX512 = named_target("x86-64-v3"), named_target("x86-64-v4")


def convolution(
    x: tuple[int | Dim, ...], w: tuple[int, ...], dtype: str = "f32", **attributes: Any
) -> Node:
    g = Graph("g")
    return g.conv(g.input("x", x, dtype), g.param("w", w, dtype), **attributes).node


def choice(*given: Any, **attributes: Any) -> Choice:
    return choose_convolution(convolution(*given, **attributes), AVX512)


def tile_of(lowering: Lowering | None) -> tuple[int, int, int, int]:
    """Return positions down and across, channels and lanes."""
    assert isinstance(lowering, Schedule)
    return lowering.rows, lowering.across, lowering.columns, lowering.lanes


def test_single_taps_and_whole_windows_are_products() -> None:
    assert choice((1, 64, 56, 56), (256, 64, 1, 1)).why is Why.SINGLE_TAPS
    assert choice((4, 64, 7, 7), (64, 64, 7, 7)).why is Why.WHOLE_WINDOW
    assert choice((1, 64, 14, 14), (64, 32, 1, 1), groups=2).why is Why.CONVOLVED


def test_single_taps_are_tiles_where_pixels_would_be_packed_for_few_channels() -> None:
    """49 pixels would be 64 columns of a product, and those of 512 channels packed at each call."""
    deep = choice((1, 2048, 7, 7), (512, 2048, 1, 1))
    assert (deep.why, tile_of(deep.lowering)) == (Why.CONVOLVED, (1, 7, 32, 16))
    assert choice((1, 512, 28, 28), (64, 512, 1, 1), stride=(2, 2)).why is Why.CONVOLVED


def test_single_taps_of_weights_of_the_call_stay_a_product() -> None:
    g = Graph("call")
    y = g.conv(g.input("x", (1, 2048, 7, 7)), g.input("w", (512, 2048, 1, 1)))
    assert choose_convolution(y.node, AVX512).why is Why.SINGLE_TAPS


def test_half_as_many_multiply_units_make_loads_cheap() -> None:
    """With one unit a tile of one vector per position costs no more than two: 28 rows are even."""
    node = convolution((1, 64, 30, 30), (16, 64, 3, 3))
    one = replace(AVX512, multiply_units=1)
    planes, size = Planes.of((1, 64, 30, 30), (16, 64, 3, 3), geometry(2)), 4
    for target in (AVX512, one):
        tile = choose_convolution(node, target).lowering
        assert tile_of(tile) == tile_of(cheapest_tile(planes, 16, Vectors.of(target, size)))
    assert cycles_of_step(14, 2, 1) == 2 * cycles_of_step(14, 2, 2) == 28
    assert cycles_of_step(4, 1, 1) == cycles_of_step(4, 1, 2) == 4


def test_tiles_cover_the_result_at_least_cost() -> None:
    """14 positions of 2 vectors fill 32 registers; 7 rows of 7 are covered without waste."""
    assert tile_of(choice((1, 64, 58, 58), (64, 64, 3, 3)).lowering) == (1, 14, 32, 16)
    small = choice((1, 64, 9, 9), (512, 64, 3, 3)).lowering
    assert isinstance(small, Schedule)
    assert (7 % small.rows, 7 % small.across) == (0, 0)
    node = convolution((1, 64, 58, 58), (64, 64, 3, 3))
    assert tile_of(choose_convolution(node, AVX2).lowering) == (1, 4, 16, 8)


def test_few_channels_take_narrower_vectors() -> None:
    few = choice((1, 64, 58, 58), (5, 64, 3, 3)).lowering
    assert isinstance(few, Schedule)
    assert (few.columns, few.lanes) == (8, 8)
    assert choice((1, 64, 58, 58), (2, 64, 3, 3)).why is Why.FEW_CHANNELS


def test_groups_of_one_channel_are_rows_in_vectors() -> None:
    found = choice((1, 64, 16, 16), (128, 1, 3, 3), groups=64)
    assert (found.why, found.lowering) == (Why.DEPTHWISE, Windowed(16))
    assert str(found).endswith("a group has 1 channel and gives 2")
    assert choice((1, 1, 32, 32), (32, 1, 3, 3)).why is Why.CONVOLVED
    thirds = choice((1, 64, 30, 30), (64, 1, 3, 3), groups=64, stride=(1, 3))
    assert thirds.why is Why.FEW_CHANNELS


def test_small_depthwise_images_are_padded_by_their_kernel() -> None:
    for extent, dtype, padded in (
        (14, "f32", 0),
        (112, "f32", 0),
        (112, "f64", 1),
        (127, "f32", 1),
    ):
        g = Graph("g")
        x, w = g.input("x", (1, 8, extent, extent), dtype), g.param("w", (8, 1, 3, 3), dtype)
        g.set_outputs([g.conv(x, w, groups=8, padding=((1, 1), (1, 1)))])
        names = [node.op.name for node in tile_convolutions(AVX512)(g).nodes]
        assert names.count("pad") == padded


def test_what_has_no_tiles_is_plain_loops() -> None:
    assert choice((1, 2, 4, 4), (4, 2, 3, 3)).why is Why.SMALL
    assert choice((1, 64, 14, 14), (64, 64, 3, 3), "i32").why is Why.DTYPE
    assert choice((1, 64, 14, 14), (64, 64, 3, 3), "bf16").why is Why.WIDENED


def test_the_tile_of_a_symbolic_image_fits_its_largest_extent() -> None:
    n = Dim("n", max=15)
    symbolic = choice((1, 64, n, n), (64, 64, 3, 3), stride=(2, 2))
    assert symbolic == choice((1, 64, 15, 15), (64, 64, 3, 3), stride=(2, 2))
    assert symbolic.why is Why.CONVOLVED


def test_the_input_is_padded_and_the_weights_are_packed() -> None:
    g = Graph("g")
    x, w = g.input("x", (1, 16, 8, 8)), g.param("w", (32, 16, 3, 3))
    g.set_outputs([g.conv(x, w, padding=((1, 1), (1, 1)))])
    tiled = tile_convolutions(AVX512)(g)
    assert [node.op.name for node in tiled.nodes[2:]] == ["pack_panels", "pad", "conv"]

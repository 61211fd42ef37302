"""How products are cut: every tile once, even shares, bounded memory."""

from __future__ import annotations

import itertools

import pytest

from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.passes.layout.pack_operands import choose_product
from rlx.passes.layout.split_product import Split, split_product
from rlx.target import named_target

SHAPES = [
    # batch, height, inner, panels, rows, width
    (1, 1024, 1024, 32, 12, 32),
    (1, 256, 256, 8, 12, 32),
    (1, 128, 768, 96, 12, 32),
    (1, 128, 3072, 24, 12, 32),
    (1, 16, 384, 8, 8, 48),
    (1, 1, 4096, 32, 1, 128),
    (12, 512, 64, 2, 12, 32),
]


def split(*shape: int, turned: bool = False) -> Split:
    return split_product(*shape, 4, turned)


def work(split: Split, items: range) -> int:
    """Rows times panels of some items."""
    total = 0
    for item in items:
        block, group = item // split.groups % split.blocks, item % split.groups
        edges = [min((block + i) * split.tiles // split.blocks * split.rows, split.height)
                 for i in (0, 1)]  # fmt: skip
        panels = [(group + i) * split.panels // split.groups for i in (0, 1)]
        total += (edges[1] - edges[0]) * (panels[1] - panels[0])
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_items_cover_the_product_and_two_threads_get_even_shares(shape: tuple[int, ...]) -> None:
    cut = split(*shape)
    items = shape[0] * cut.blocks * cut.groups
    shares = [work(cut, range(items * i // 2, items * (i + 1) // 2)) for i in (0, 1)]
    assert sum(shares) == shape[0] * shape[1] * shape[3]
    assert max(shares) <= 1.05 * sum(shares) / 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_group_of_panels_fits_the_second_level_cache(shape: tuple[int, ...]) -> None:
    cut = split(*shape)
    assert cut.group == 1 or cut.group * cut.depth * shape[5] * 4 <= 512 * 1024


def test_rows_are_copied_only_where_they_crowd_few_sets_of_the_cache() -> None:
    assert split(1, 128, 1024, 32, 12, 32).copies
    assert split(1, 128, 3072, 32, 12, 32).copies
    assert not split(1, 128, 768, 32, 12, 32).copies
    assert not split(1, 128, 1000, 32, 12, 32).copies
    assert not split(1, 1, 4096, 32, 1, 128).copies


def test_columns_of_a_transposed_operand_are_copied_for_all_but_a_few_panels() -> None:
    assert split(1, 784, 128, 16, 12, 32, turned=True).copies
    assert not split(1, 784, 128, 1, 12, 16, turned=True).copies


def test_a_long_inner_extent_is_cut_where_rows_are_copied() -> None:
    for inner, height in itertools.product((1024, 2048, 4096, 11008), (1, 13, 128, 1000)):
        cut = split(1, height, inner, 64, 12, 32)
        waiting = 0 if cut.whole else cut.block * cut.group * 12 * 32 * 4
        strip = 12 * cut.depth * 4 if cut.copies else 0
        assert waiting + strip <= 384 * 1024


def test_small_products_are_one_item() -> None:
    cut = split(1, 16, 16, 1, 8, 16)
    assert cut.blocks * cut.groups == 1


@pytest.mark.parametrize(
    ("height", "inner", "columns", "tile"),
    [
        (1024, 1024, 1024, (6, 64)),
        (64, 4096, 1024, (6, 64)),
        (512, 512, 512, (6, 64)),
        (1024, 768, 768, (12, 32)),
        (1024, 1024, 1056, (12, 32)),
        (16, 2048, 2048, (8, 48)),
    ],
)
def test_tiles_are_lower_and_wider_where_rows_start_in_few_sets_of_the_cache(
    height: int, inner: int, columns: int, tile: tuple[int, int]
) -> None:
    g = Graph("product")
    x, w = g.input("x", (height, inner)), g.param("w", (inner, columns))
    chosen = choose_product(g.matmul(x, w).node, named_target("x86-64-v4")).lowering
    assert isinstance(chosen, Schedule)
    assert (chosen.rows, chosen.columns) == tile

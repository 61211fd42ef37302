"""Packing of buffers by their live ranges."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.passes.memory.placement import Buffer, align_up, maximal_live, place

_buffers = st.lists(
    st.builds(
        lambda size, birth, length: Buffer(size, birth, birth + length),
        st.integers(0, 500),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=25,
)


@given(_buffers)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_live_buffers_never_overlap(buffers: list[Buffer]) -> None:
    placement = place(buffers, 64)
    spans = list(zip(buffers, placement.offsets, strict=True))
    for i, (a, start) in enumerate(spans):
        assert start % 64 == 0
        assert start + a.size <= placement.total
        for b, other in spans[:i]:
            together = a.birth <= b.death and b.birth <= a.death
            apart = start + a.size <= other or other + b.size <= start
            assert apart or not together or 0 in (a.size, b.size)


def test_the_maximal_live_set_counts_both_ends() -> None:
    assert maximal_live([Buffer(10, 0, 2), Buffer(5, 2, 3), Buffer(7, 4, 4)]) == 15


def test_buffers_of_disjoint_lifetimes_share_bytes() -> None:
    assert place([Buffer(100, 0, 1), Buffer(90, 2, 3)], 64).offsets == (0, 0)


def test_another_order_wins_where_the_largest_first_leaves_holes() -> None:
    buffers = [
        Buffer(64 * n, birth, death)
        for n, birth, death in ((3, 0, 1), (2, 1, 2), (3, 2, 3), (2, 3, 4), (1, 0, 4))
    ]
    assert place(buffers, 64).total == maximal_live(buffers)


def test_alignment_rounds_up() -> None:
    assert [align_up(size, 64) for size in (0, 1, 64, 65)] == [0, 64, 64, 128]

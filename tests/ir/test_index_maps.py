"""Index maps say of every movement op what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.index_maps import (
    Box,
    Index,
    Interval,
    Position,
    index_map,
    is_aligned,
    maps,
    moves,
    reach,
)
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, is_at_most
from rlx.ir.shape import evaluate as extent_at

Binding = dict[str, int]
small = st.integers(0, 4)


def element(index: Index, at: tuple[int, ...], binding: Binding) -> int:
    terms = zip(index.coefficients, at, strict=True)
    return extent_at(index.constant, binding) + sum(extent_at(c, binding) * i for c, i in terms)


def inside(box: Box, at: tuple[int, ...], binding: Binding) -> bool:
    pairs = zip(box, at, strict=True)
    return all(extent_at(b.start, binding) <= i < extent_at(b.stop, binding) for b, i in pairs)


def located(position: Position, at: tuple[int, ...], binding: Binding) -> tuple[int, ...]:
    return tuple(element(index, at, binding) for index in position)


def by_map(node: Node, arrays: list[npt.NDArray[Any]], binding: Binding) -> npt.NDArray[Any]:
    """Compute a movement op element by element, from its index map alone."""
    found = index_map(node)
    assert found is not None
    shape = tuple(extent_at(extent, binding) for extent in node.result.shape)
    result = np.empty(shape, arrays[0].dtype)
    for at in np.ndindex(shape):
        pieces = [piece for piece in found.pieces if inside(piece.box, at, binding)]
        assert len(pieces) == 1 or (not pieces and found.fill is not None)
        if not pieces:
            result[at] = found.fill
            continue
        place = located(pieces[0].position, at, binding)
        source = arrays[pieces[0].operand]
        assert all(0 <= i < extent for i, extent in zip(place, source.shape, strict=True))
        result[at] = source[place]
    return result


def check(graph: Graph, value: Value, binding: Binding | None = None) -> None:
    sizes = binding or {}
    arrays = []
    for number, leaf in enumerate(graph.inputs):
        shape = tuple(extent_at(extent, sizes) for extent in leaf.shape)
        count = int(np.prod(shape, dtype=int))
        arrays.append(np.arange(count, dtype=np.float32).reshape(shape) + 100.0 * number)
    graph.set_outputs([value])
    feed = {str(leaf.node.name): x for leaf, x in zip(graph.inputs, arrays, strict=True)}
    (expected,) = evaluate(graph, feed)
    np.testing.assert_array_equal(by_map(value.node, arrays, sizes), expected)


@st.composite
def shapes(draw: st.DrawFn, least: int = 0) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(least, 4), min_size=1, max_size=3)))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_narrow_reads_from_its_start(data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", data.draw(shapes()))
    axis = data.draw(st.integers(-x.rank, x.rank - 1))
    extent = int(x.type.static_shape[axis])
    start = data.draw(st.integers(0, extent))
    length = data.draw(st.integers(0, extent - start))
    check(g, g.narrow(x, axis=axis, start=start, length=length))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_pad_has_the_operand_inside_and_the_value_around(data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", data.draw(shapes()))
    low, high = (tuple(data.draw(st.integers(0, 2)) for _ in x.shape) for _ in range(2))
    check(g, g.pad(x, low=low, high=high, value=-1.5))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_concat_has_one_piece_for_each_operand(data: st.DataObject) -> None:
    g = Graph("g")
    first = data.draw(shapes())
    axis = data.draw(st.integers(-len(first), len(first) - 1))
    parts = []
    for number in range(data.draw(st.integers(1, 3))):
        shape = list(first)
        shape[axis] = data.draw(small)
        parts.append(g.input(f"x{number}", tuple(shape)))
    check(g, g.concat(*parts, axis=axis))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_slice_reads_every_step(data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", data.draw(shapes()))
    start, stop = [], []
    for extent in x.type.static_shape:
        start.append(data.draw(st.integers(0, extent)))
        stop.append(data.draw(st.integers(start[-1], extent)))
    step = tuple(data.draw(st.integers(1, 3)) for _ in x.shape)
    check(g, g.slice(x, start=tuple(start), stop=tuple(stop), step=step))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_reverse_counts_from_the_end(data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", data.draw(shapes()))
    axes = data.draw(st.sets(st.integers(0, x.rank - 1)))
    check(g, g.reverse(x, axes=tuple(axis - x.rank for axis in sorted(axes))))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_transpose_permutes(data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", data.draw(shapes()))
    check(g, g.transpose(x, perm=tuple(data.draw(st.permutations(range(x.rank))))))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_expand_repeats_axes_of_extent_1(data: st.DataObject) -> None:
    g = Graph("g")
    target = data.draw(shapes())
    kept = [extent if data.draw(st.booleans()) else 1 for extent in target]
    x = g.input("x", tuple(kept[data.draw(st.integers(0, len(kept))) :]))
    check(g, g.expand(x, shape=target))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_reshape_that_splits_the_result_is_affine(data: st.DataObject) -> None:
    g = Graph("g")
    pairs = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=2))
    x = g.input("x", (2, *(a * b for a, b in pairs)))
    check(g, g.reshape(x, shape=(2, *(extent for pair in pairs for extent in pair))))


def test_reshape_that_splits_an_operand_axis_has_no_map() -> None:
    g = Graph("g")
    merged = g.reshape(g.input("x", (2, 3)), shape=(6,))
    assert index_map(merged.node) is None
    assert not moves(merged.node)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_symbolic_extents_are_those_of_the_call(size: int) -> None:
    n = Dim("n", max=7)
    cases: tuple[Callable[[Graph, Value], Value], ...] = (
        lambda g, x: g.pad(x, low=(n, 1), high=(0, 2), value=9.0),
        lambda g, x: g.reverse(x, axes=(0,)),
        lambda g, x: g.concat(x, g.input("y", (n, 3)), axis=0),
        lambda g, x: g.narrow(x, axis=0, start=n - n, length=n),
    )
    for case in cases:
        g = Graph("g")
        check(g, case(g, g.input("x", (n, 3))), {"n": size})


def test_every_movement_op_declares_its_map() -> None:
    moving = {name for name, op in OPS.items() if op.has(Trait.MOVEMENT)}
    assert set(maps) == moving


def test_only_pointwise_nodes_are_aligned() -> None:
    g = Graph("g")
    x = g.input("x", (3, 1, 4))
    aligned = [
        g.tanh(x),
        g.add(x, g.input("row", (4,))),
        g.expand(x, shape=(2, 3, 5, 4)),
        g.reshape(x, shape=(1, 3, 4)),
        g.transpose(x, perm=(1, 0, 2)),
    ]
    moved = [
        g.transpose(x, perm=(2, 1, 0)),
        g.reverse(x, axes=(0,)),
        g.pad(x, low=(0, 0, 0), high=(1, 0, 0)),
        g.narrow(x, axis=0, start=0, length=2),
        g.concat(x, x, axis=1),
        g.reshape(x, shape=(3, 2, 2)),
    ]
    assert all(is_aligned(value.node) for value in aligned)
    assert not any(is_aligned(value.node) for value in moved)


def test_the_reach_of_an_index_spans_its_values() -> None:
    box = (Interval(1, 4), Interval(0, 3))
    for index in (Index((2, -1), 5), Index((0, 1)), Index((-3, 0), 1)):
        values = [element(index, (i, j), {}) for i in range(1, 4) for j in range(3)]
        found = reach(index, box)
        assert found == Interval(min(values), max(values) + 1)


def test_symbolic_intervals_are_compared_for_all_sizes() -> None:
    n = Dim("n", max=9, min=2)
    free = Dim("m")
    assert is_at_most(1, n - 1)
    assert not is_at_most(2, n - 1)
    assert is_at_most(n - 1, n)
    assert not is_at_most(n, 8)
    assert not is_at_most(free, 3)
    assert is_at_most(free - 1, free)
    assert Interval(0, n).holds(Interval(1, n - 1))
    assert not Interval(0, n - 1).holds(Interval(0, n))
    assert Interval(0, 2).misses(Interval(n, n + 1))
    assert not Interval(0, 3).misses(Interval(n, n + 1))


def test_an_empty_interval_shares_no_integer_with_another() -> None:
    n = Dim("n", max=9, min=2)
    for empty in (Interval(1, 1), Interval(n, n)):
        assert Interval(0, 3).misses(empty)
        assert empty.misses(Interval(0, 3))

"""Fold maps say of reductions and products what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.ir import ops
from rlx.ir.fold_maps import contraction_map, contractions, fold_map, folds
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.shape import evaluate as extent_at
from tests.ir.test_index_maps import located

Array = npt.NDArray[Any]
FOLDS: dict[str, Callable[[list[float]], float]] = {
    "reduce_sum": sum, "reduce_max": max, "reduce_min": min,
    "reduce_mean": lambda terms: sum(terms) / len(terms),
    "reduce_prod": lambda terms: float(np.prod(terms)),
    "argmax": lambda terms: terms.index(max(terms)),
    "argmin": lambda terms: terms.index(min(terms)),
}  # fmt: skip


def by_map(node: Node, arrays: list[Array], binding: dict[str, int]) -> Array:
    """Compute a fold term by term, from its map alone."""
    found = fold_map(node) or contraction_map(node)
    assert found is not None
    shape, folded = (
        tuple(extent_at(extent, binding) for extent in each) for each in (found.outer, found.folded)
    )
    spacing = [found.spacing or (1,) * arrays[0].ndim, *((1,) * x.ndim for x in arrays[1:])]
    result = np.empty(shape)
    for at in np.ndindex(shape):
        terms = []
        for inner in np.ndindex(folded):
            places = [located(position, (*at, *inner), binding) for position in found.positions]
            factors = map(element, arrays, places, spacing)
            terms.append(float(np.prod(list(factors))))
        result[at] = FOLDS.get(node.op.name, sum)(terms)
    return result.reshape([extent_at(extent, binding) for extent in node.result.shape])


def element(x: Array, place: tuple[int, ...], spacing: tuple[int, ...]) -> float:
    """Return the element at a place, or the zero between and around elements."""
    if any(at % step for at, step in zip(place, spacing, strict=True)):
        return 0.0
    at = tuple(at // step for at, step in zip(place, spacing, strict=True))
    inside = all(0 <= i < extent for i, extent in zip(at, x.shape, strict=True))
    return float(x[at]) if inside else 0.0


def check(graph: Graph, value: Value, binding: dict[str, int] | None = None) -> None:
    random, sizes = np.random.default_rng(0), binding or {}
    shapes = [tuple(extent_at(e, sizes) for e in leaf.shape) for leaf in graph.inputs]
    # Few distinct numbers, so that searches find ties.
    arrays = [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
    graph.set_outputs([value])
    feed = {str(leaf.node.name): x for leaf, x in zip(graph.inputs, arrays, strict=True)}
    (expected,) = evaluate(graph, feed)
    np.testing.assert_allclose(by_map(value.node, arrays, sizes), expected, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.has(Trait.REDUCTION)))
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_reductions_fold_their_axes(name: str, data: st.DataObject) -> None:
    g = Graph("g")
    x = g.input("x", tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))))
    keepdims, axis = data.draw(st.booleans()), st.integers(-x.rank, x.rank - 1)
    if OPS[name].has(Trait.SEARCH):
        check(g, getattr(g, name)(x, axis=data.draw(axis), keepdims=keepdims))
    else:
        axes = tuple(data.draw(st.sets(axis)))
        check(g, getattr(g, name)(x, axes=axes, keepdims=keepdims))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_matmul_broadcasts_its_batch_axes(data: st.DataObject) -> None:
    g = Graph("g")
    *batch, rows, inner, columns = data.draw(st.lists(st.integers(1, 3), min_size=3, max_size=5))
    given = [[e if data.draw(st.booleans()) else 1 for e in batch] for _ in range(2)]
    given[1] = given[1][data.draw(st.integers(0, len(batch))) :]
    a, b = g.input("a", (*given[0], rows, inner)), g.input("b", (*given[1], inner, columns))
    check(g, g.matmul(a, b))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_dot_general_pairs_axes_in_any_order(data: st.DataObject) -> None:
    g = Graph("g")
    extents = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    number = len(extents)
    order = [tuple(data.draw(st.permutations(range(number)))) for _ in range(2)]
    shared = data.draw(st.integers(0, number))
    batch = data.draw(st.integers(0, shared))
    # Axis `order[side][n]` of each side has extent n, as far as they share it.
    shapes = [[data.draw(st.integers(1, 3)) for _ in extents] for _ in range(2)]
    for n in range(shared):
        for side in range(2):
            shapes[side][order[side][n]] = extents[n]
    a, b = g.input("a", tuple(shapes[0])), g.input("b", tuple(shapes[1]))
    left, right = order
    value = g.dot_general(
        a, b, lhs_batch=left[:batch], rhs_batch=right[:batch],
        lhs_contracting=left[batch:shared], rhs_contracting=right[batch:shared],
    )  # fmt: skip
    check(g, value)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_windows_are_read_between_their_padding(data: st.DataObject) -> None:
    axes, groups = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    last = data.draw(st.booleans())
    images, each, outputs = (data.draw(st.integers(1, 2)) for _ in range(3))
    taps = tuple(data.draw(st.integers(1, 2)) for _ in range(axes))
    spatial = tuple(data.draw(st.integers(3, 4)) for _ in range(axes))
    attributes: dict[str, Any] = {
        name: tuple(data.draw(st.integers(1, 2)) for _ in range(axes))
        for name in ("stride", "dilation", "input_dilation")
    }
    pads = tuple((data.draw(st.integers(-1, 1)), data.draw(st.integers(1, 2))) for _ in taps)
    g = Graph("g")
    channels, outputs = each * groups, outputs * groups
    x = g.input("x", (images, *spatial, channels) if last else (images, channels, *spatial))
    w = g.input("w", (*taps, each, outputs) if last else (outputs, each, *taps))
    convolved = ops.stored_conv(x, w, padding=pads, groups=groups, channels_last=last, **attributes)
    check(g, convolved)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_either_operand_of_a_product_may_be_transposed(left: bool, right: bool) -> None:
    g = Graph("g")
    a = g.input("a", (2, 4, 3) if left else (2, 3, 4))
    b = g.input("b", (2, 5, 4) if right else (2, 4, 5))
    check(g, ops.stored_matmul(a, b, left=left, right=right))


@pytest.mark.parametrize("size", [1, 3])
def test_symbolic_extents_are_those_of_the_call(size: int) -> None:
    n = Dim("n", max=4)
    g = Graph("g")
    check(g, g.matmul(g.input("a", (2, n)), g.input("b", (n, 3))), {"n": size})
    g = Graph("g")
    check(g, g.reduce_sum(g.input("x", (2, n)), axes=(1,)), {"n": size})


def test_only_folds_have_a_map() -> None:
    g = Graph("g")
    x = g.input("x", (3, 3))
    assert fold_map(g.exp(x).node) is None
    assert fold_map(g.cumsum(x, axis=0).node) is None
    assert all(OPS[name].has(Trait.CONTRACTION) for name in (*folds, *contractions))

"""Random graphs that can be evaluated: broadcasting, views, several results, donations.

    @given(random_graphs())
    def test_pass_keeps_values(graph): ...

`feeds_for(graph, seed)` makes arrays for its inputs and params. Values stay small and finite, so
that two ways of computing them can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reference.registry import static_shape

_SHAPES = ((), (3,), (1,), (2, 3), (2, 1), (1, 3), (4, 2, 3), (4, 1, 3), (2, 3, 3))
_UNARY = (ops.neg, ops.tanh, ops.abs, ops.relu, ops.sigmoid, ops.sin, ops.silu, ops.gelu)
_BINARY = (ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum)
_SCALARS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5)

Step = Callable[[st.DrawFn, list[Value]], Sequence[Value]]


@st.composite
def random_graphs(draw: st.DrawFn, *, most_steps: int = 14, donations: bool = True) -> Graph:
    """A valid graph over f32, with i64 and bool values here and there."""
    graph = Graph("random")
    values = [
        graph.input(f"x{i}", draw(st.sampled_from(_SHAPES))) for i in range(draw(st.integers(1, 3)))
    ]
    values += [
        graph.param(f"w{i}", draw(st.sampled_from(_SHAPES))) for i in range(draw(st.integers(0, 2)))
    ]
    if draw(st.booleans()):
        values.append(graph.constant(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)))
    for _ in range(draw(st.integers(1, most_steps))):
        values.extend(draw(st.sampled_from(_STEPS))(draw, values))
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
    outputs.append(values[-1])
    graph.set_outputs(outputs, donated=_donations(draw, graph, outputs) if donations else {})
    return graph


def feeds_for(graph: Graph, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return an array for every input and param."""
    generator = np.random.default_rng(seed)
    feeds = {}
    for leaf in (*graph.inputs, *graph.params):
        array = generator.uniform(-1, 1, static_shape(leaf.shape))
        feeds[str(leaf.node.name)] = array.astype(leaf.dtype.numpy)
    return feeds


def _donations(draw: st.DrawFn, graph: Graph, outputs: list[Value]) -> dict[Value, Value]:
    """Choose leaves to replace; one output replaces at most one leaf."""
    chosen: dict[Value, Value] = {}
    for leaf in (*graph.inputs, *graph.params):
        fitting = [o for o in outputs if o.type == leaf.type and o not in chosen.values()]
        wanted: bool = draw(st.booleans())
        if fitting and wanted:
            chosen[leaf] = draw(st.sampled_from(fitting))
    return chosen


def _pick(draw: st.DrawFn, values: list[Value], least_rank: int = 0) -> Value | None:
    fitting = [v for v in values if v.dtype is DType.F32 and v.rank >= least_rank]
    return draw(st.sampled_from(fitting[-8:])) if fitting else None


def _unary(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    return [] if x is None else [draw(st.sampled_from(_UNARY))(x)]


def _binary(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    if x is None:
        return []
    fitting = [v for v in values if v.dtype is x.dtype and _broadcast(x, v)]
    return [draw(st.sampled_from(_BINARY))(x, draw(st.sampled_from(fitting)))]


def _with_scalar(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    if x is None:
        return []
    return [draw(st.sampled_from((ops.add, ops.sub, ops.mul)))(x, draw(st.sampled_from(_SCALARS)))]


def _choice(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    return [] if x is None else [ops.where(ops.gt(x, 0.0), x, ops.exp(x))]


def _round_trip_cast(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    return [] if x is None else [ops.cast(ops.cast(x, to="f64"), to="f32")]


def _reshape(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    if x is None:
        return []
    return [ops.reshape(x, shape=draw(st.sampled_from(((-1,), (1, *x.shape), (-1, 1)))))]


def _transpose(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    return [] if x is None else [ops.transpose(x, perm=draw(st.permutations(range(x.rank))))]


def _expand(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values)
    return [] if x is None or x.rank > 3 else [ops.expand(x, shape=(2, *x.shape))]


def _narrow(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=1)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    start = draw(st.integers(0, _extent(x, axis) - 1))
    length = draw(st.integers(1, _extent(x, axis) - start))
    return [ops.narrow(x, axis=axis, start=start, length=length)]


def _concat(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=1)
    return [] if x is None else [ops.concat(x, x, axis=draw(st.integers(0, x.rank - 1)))]


def _reduce(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=1)
    if x is None:
        return []
    axis = draw(st.integers(0, x.rank - 1))
    kind = draw(st.sampled_from((ops.reduce_sum, ops.reduce_mean, ops.reduce_max)))
    return [kind(x, axes=(axis,), keepdims=draw(st.booleans()))]


def _row_wise(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=1)
    if x is None:
        return []
    if draw(st.booleans()):
        return [ops.softmax(x, axis=-1)]
    row = ops.reshape(ops.narrow(ops.reshape(x, shape=(-1,)), axis=0, start=0, length=1), shape=())
    gain = ops.expand(row, shape=(x.shape[-1],))
    return [ops.layer_norm(x, gain, gain, axis=-1, eps=1e-3)]


def _product(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=2)
    if x is None:
        return []
    swapped = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return [ops.matmul(x, ops.transpose(x, perm=swapped))]


def _top(draw: st.DrawFn, values: list[Value]) -> list[Value]:
    x = _pick(draw, values, least_rank=1)
    return [] if x is None else list(ops.topk(x, k=1))


_STEPS: tuple[Step, ...] = (
    *(_unary, _unary, _binary, _binary, _binary, _with_scalar, _choice, _round_trip_cast),
    *(_reshape, _transpose, _expand, _narrow, _concat, _reduce, _row_wise, _product, _top),
)


def _broadcast(a: Value, b: Value) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _extent(value: Value, axis: int) -> int:
    extent = value.shape[axis]
    assert isinstance(extent, int)
    return extent

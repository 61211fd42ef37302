"""Random graphs for property tests: all dtypes, symbols, bodies, names, scopes, donations."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.literal import Literal
from rlx.ir.op import OPS, make_attrs
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType

DIMS = (Dim("n", max=7), Dim("m"), Dim("batch", min=1, max=4))

dtypes = st.sampled_from(DType)
extents = st.one_of(
    st.integers(0, 4), st.sampled_from(DIMS), st.sampled_from((2 * DIMS[0] + 1, DIMS[0] * DIMS[1]))
)
tensor_types = st.builds(TensorType, dtypes, st.lists(extents, max_size=3).map(tuple))
names = st.text(max_size=6)


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    """Any bits of any dtype: NaNs with payload, infinities, signed zeros, nothing at all."""
    dtype = draw(dtypes)
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=2)))
    count = int(np.prod(shape))
    data = draw(st.binary(min_size=count * dtype.size, max_size=count * dtype.size))
    if dtype is DType.BOOL:
        data = bytes(byte & 1 for byte in data)
    return Literal.from_bytes(TensorType(dtype, shape), data)


@st.composite
def graphs(draw: st.DrawFn, *, bodies: bool = True) -> Graph:
    """A well-formed graph of a few nodes."""
    graph = Graph(draw(names))
    values = [
        graph.input(f"x{index}{draw(names)}", type.shape, type.dtype)
        for index, type in enumerate(draw(st.lists(tensor_types, min_size=1, max_size=3)))
    ]
    values.append(graph.param(f"w{draw(names)}", (draw(extents), 4), "f32"))
    for _ in range(draw(st.integers(0, 6))):
        values += draw(_steps(graph, values, bodies))
    outputs = draw(st.lists(st.sampled_from(values), max_size=3))
    replaced = draw(st.booleans()) and outputs
    graph.set_outputs([*outputs, values[0]] if replaced else outputs)
    if replaced:
        graph.donate(str(values[0].node.name), len(outputs))
    return graph


@st.composite
def _steps(draw: st.DrawFn, graph: Graph, values: list[Value], bodies: bool) -> list[Value]:
    x = draw(st.sampled_from(values))
    kinds = [_constant, _cast, _reshape, _pad, _iota, _topk, _named, *([_fused] if bodies else [])]
    with graph.scope(draw(names.filter(bool))):
        return draw(st.sampled_from(kinds))(draw, graph, x)


def _constant(draw: st.DrawFn, graph: Graph, _: Value) -> list[Value]:
    attrs = make_attrs(OPS["constant"], {"value": draw(literals())})
    return list(graph.append(OPS["constant"], (), attrs))


def _cast(_: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    return [] if x.dtype.is_complex else [graph.cast(x, to=DType.F32)]


def _reshape(_: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    return [graph.reshape(x, shape=(1, *x.shape)), graph.expand(x, shape=(3, *x.shape))]


def _pad(draw: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    if not x.dtype.is_float:
        return []
    value = draw(st.floats(width=64))
    return [graph.pad(x, low=(1,) * x.rank, high=(DIMS[0],) * x.rank, value=value)]


def _iota(draw: st.DrawFn, graph: Graph, _: Value) -> list[Value]:
    return [graph.iota(type=TensorType(DType.I32, (draw(extents), 3)), axis=1)]


def _topk(draw: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    last: Any = x.shape[-1] if x.rank else 0
    usable = isinstance(last, int) and last > 0 and x.dtype is DType.F32
    return list(graph.topk(x, k=draw(st.integers(1, last)))) if usable else []


def _named(draw: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    attrs = make_attrs(OPS["stop_gradient"], {})
    return list(graph.append(OPS["stop_gradient"], (x,), attrs, name=draw(names)))


def _fused(draw: st.DrawFn, graph: Graph, x: Value) -> list[Value]:
    body = Graph(draw(names))
    inner = body.input("operand", x.shape, x.dtype)
    body.set_outputs([body.stop_gradient(inner)])
    return list(graph.append(OPS["fused"], (x,), make_attrs(OPS["fused"], {"body": body})))

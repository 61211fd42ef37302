"""Derivatives of ops that read or write at run-time positions: linear in what they move.

Indices carry no derivative, even where they are f32.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, Shape, normalize_axis
from rlx.ir.types import TensorType
from rlx.passes.autodiff.algebra import reshape_to, zeros
from rlx.passes.autodiff.registry import Derivatives, Pullback, Pushforward, jvp, linear, zero


def gather_transpose(at: Pullback, table: Value, indices: Value, *, axis: int) -> Derivatives:
    position = normalize_axis(axis, table.rank)
    size = table.shape[position]
    if position == 0:
        return ops.scatter_add(at.cotangent, indices, size=size)
    return ops.gather_backward(at.cotangent, indices, axis=position, size=size)


def gather_backward_transpose(
    at: Pullback, dy: Value, indices: Value, *, axis: int, size: Extent
) -> Derivatives:
    return ops.gather(at.cotangent, indices, axis=axis)


def scatter_add_transpose(
    at: Pullback, updates: Value, indices: Value, *, size: Extent
) -> Derivatives:
    return ops.gather(at.cotangent, indices, axis=0)


def dynamic_slice_transpose(at: Pullback, x: Value, starts: Value, *, sizes: Shape) -> Derivatives:
    return ops.dynamic_update_slice(zeros(at.graph, x.type), at.cotangent, starts)


def dynamic_update_slice_transpose(
    at: Pullback, x: Value, update: Value, starts: Value
) -> Derivatives:
    g = at.cotangent
    around, inside = None, None
    if at.wanted[0]:
        around = ops.dynamic_update_slice(g, zeros(at.graph, update.type), starts)
    if at.wanted[1]:
        inside = ops.dynamic_slice(g, starts, sizes=update.shape)
    return around, inside


@jvp(ops.topk)
def topk_jvp(at: Pushforward, x: Value, *, k: int) -> Derivatives:
    return _tangents_at(at, x, at.results[1])


@jvp(ops.sort)
def sort_jvp(at: Pushforward, x: Value) -> Derivatives:
    return _tangents_at(at, x, ops.argsort(x))


def _tangents_at(at: Pushforward, x: Value, chosen: Value) -> Value:
    """Take the tangents at the chosen positions of the flattened rows."""
    if x.shape[-1] == 0:
        return zeros(at.graph, at.results[0].type)
    places = TensorType(DType.I64, (x.type.elements,))
    rows = reshape_to(at.graph.iota(type=places), x.shape)
    starts = ops.narrow(rows, axis=-1, start=0, length=1)
    taken: Value = ops.gather(reshape_to(at.tangent, (x.type.elements,)), chosen + starts)
    return taken


linear(ops.gather, gather_transpose, fixed=(1,))
linear(ops.gather_backward, gather_backward_transpose, fixed=(1,))
linear(ops.scatter_add, scatter_add_transpose, fixed=(1,))
linear(ops.dynamic_slice, dynamic_slice_transpose, fixed=(1,))
linear(ops.dynamic_update_slice, dynamic_update_slice_transpose, fixed=(2,))
zero(ops.argsort, because="the result is an index")

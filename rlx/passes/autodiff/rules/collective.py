"""Derivatives of collectives, as maps from the arrays of all members to those of all members.

Most are linear, and their transpose is a collective again. A sum over the members has a result on
each of them, whose cotangents are summed. What ranks of a mesh have in common has a cotangent of
which each rank holds a share (`rlx.transforms.rank_cotangents`).
"""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.autodiff.registry import (
    Derivatives,
    Pullback,
    linear,
    nondifferentiable,
    vjp,
    zero,
)

zero(ops.axis_index, because="an integer")
nondifferentiable(
    ops.all_reduce_start, ops.all_reduce_done, because="made by a pass, after all derivatives"
)


def _through(cotangent: Any, communicator: tuple[Value, ...]) -> Derivatives:
    return [cotangent, *[None] * len(communicator)]


def all_gather_transpose(at: Pullback, x: Value, *communicator: Value, **axis: Any) -> Derivatives:
    return _through(ops.reduce_scatter(at.cotangent, *communicator, **axis), communicator)


def reduce_scatter_transpose(
    at: Pullback, x: Value, *communicator: Value, **axis: Any
) -> Derivatives:
    return _through(ops.all_gather(at.cotangent, *communicator, **axis), communicator)


def all_to_all_transpose(at: Pullback, x: Value, *communicator: Value, **axis: Any) -> Derivatives:
    return _through(ops.all_to_all(at.cotangent, *communicator, **axis), communicator)


def collective_broadcast_transpose(
    at: Pullback, x: Value, *communicator: Value, root: int, **axis: Any
) -> Derivatives:
    """All cotangents belong to the root."""
    total = ops.all_reduce(at.cotangent, *communicator, reduction="sum", **axis)
    member = at.graph.axis_index(*communicator, **axis)
    return _through(ops.where(ops.eq(member, root), total, 0.0), communicator)


def collective_permute_transpose(
    at: Pullback,
    x: Value,
    *communicator: Value,
    pairs: tuple[tuple[int, int], ...],
    **axis: Any,
) -> Derivatives:
    back = tuple((target, source) for source, target in pairs)
    returned = ops.collective_permute(at.cotangent, *communicator, pairs=back, **axis)
    return _through(returned, communicator)


linear(ops.all_gather, all_gather_transpose, fixed=(1,))
linear(ops.reduce_scatter, reduce_scatter_transpose, fixed=(1,))
linear(ops.all_to_all, all_to_all_transpose, fixed=(1,))
linear(ops.collective_broadcast, collective_broadcast_transpose, fixed=(1,))
linear(ops.collective_permute, collective_permute_transpose, fixed=(1,))


@vjp(ops.all_reduce)
def all_reduce_vjp(
    at: Pullback, x: Value, *communicator: Value, reduction: str, **axis: Any
) -> Derivatives:
    total = ops.all_reduce(at.cotangent, *communicator, reduction="sum", **axis)
    if reduction != "sum":
        total = total * _share(x, at.result, *communicator, **axis)
    return _through(total, communicator)


def _share(x: Value, extremum: Value, *communicator: Value, **axis: Any) -> Value:
    """Return 1 / n where `x` is one of the n that attain the extremum, else 0."""
    attains = ops.cast(ops.eq(x, extremum), to=x.dtype)
    count = ops.all_reduce(attains, *communicator, reduction="sum", **axis)
    share: Value = attains / count
    return share

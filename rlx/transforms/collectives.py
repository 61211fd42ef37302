"""Collectives over a named axis: one meaning for examples of `vmap` and for ranks of MPI.

    rlx.vmap(lambda x: x - rlx.lax.pmean(x, "batch"), axis_name="batch")(xs)

`axis_name` is that of `vmap(axis_name=)` or of a mesh of `rlx.distributed`, or a tuple of such
names. Names and meanings are those of `jax.lax`. Trees of arrays are exchanged leaf by leaf.
Derivatives are those of the map from the arrays of all members to the results of all members; an
array that the ranks of a mesh have in common is one argument of it, or one result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import Extent, normalize_axis, product
from rlx.ir.source_lines import calling_source
from rlx.tracing.apply import as_tracer, emit, graph, wrap
from rlx.tracing.axes import NamedAxis, named_axis, varying_axes
from rlx.tracing.pytree import tree_map
from rlx.tracing.trace import TracedArray, as_value, shape_of

AxisName = str | Sequence[str]


def psum(x: Any, axis_name: AxisName) -> Any:
    """Return the sum of `x` over all members of the axis."""
    axes = _axes(axis_name)
    return tree_map(lambda leaf: _sum(leaf, axes), x)


def pmean(x: Any, axis_name: AxisName) -> Any:
    """Return the mean of `x` over all members of the axis."""
    axes = _axes(axis_name)
    count = product(axis.size for axis in axes)

    def mean(leaf: Any) -> Any:
        _require_own(leaf, axes)
        return _sum(leaf, axes) / count

    return tree_map(mean, x)


def pmax(x: Any, axis_name: AxisName) -> Any:
    """Return the greatest `x` of all members, element by element."""
    return _folded(x, axis_name, "max")


def pmin(x: Any, axis_name: AxisName) -> Any:
    """Return the least `x` of all members, element by element."""
    return _folded(x, axis_name, "min")


def all_gather(x: Any, axis_name: str, *, axis: int = 0, tiled: bool = False) -> Any:
    """Return the `x` of all members, stacked along a new `axis`; `tiled` joins along `axis`."""
    members = named_axis(axis_name)

    def gathered(leaf: Any) -> Any:
        given = as_tracer(leaf) if tiled else rnp.expand_dims(leaf, _place(axis, leaf, 1))
        return _along(given, axis, lambda front: _exchange(ops.all_gather, front, members))

    return tree_map(gathered, x)


def psum_scatter(x: Any, axis_name: str, *, scatter_dimension: int = 0, tiled: bool = False) -> Any:
    """Return part i of the sum over all members, for member i.

    `scatter_dimension` has an extent of one element per member, and is dropped; `tiled` splits
    it in equal parts.
    """
    members = named_axis(axis_name)

    def scattered(leaf: Any) -> Any:
        place = _place(scatter_dimension, leaf)
        _require_parts("psum_scatter", leaf, place, members, tiled)

        def exchange(front: Any) -> Any:
            return _in_wide(front, lambda w: _exchange(ops.reduce_scatter, w, members))

        part = _along(leaf, place, exchange)
        return part if tiled else rnp.squeeze(part, place)

    return tree_map(scattered, x)


def all_to_all(
    x: Any, axis_name: str, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    """Send part j of `x` along `split_axis` to member j; join what arrives along `concat_axis`.

    Without `tiled`, `split_axis` has one element per member and is dropped, and `concat_axis` is
    a new axis.
    """
    members = named_axis(axis_name)

    def exchanged(leaf: Any) -> Any:
        split = _place(split_axis, leaf)
        _require_parts("all_to_all", leaf, split, members, tiled)
        arrived = _along(leaf, split, lambda front: _exchange(ops.all_to_all, front, members))
        if not tiled:
            return rnp.moveaxis(arrived, split, concat_axis)
        parts = rnp.split(arrived, members.size, split)
        return rnp.concatenate(parts, concat_axis)

    return tree_map(exchanged, x)


def ppermute(x: Any, axis_name: str, perm: Sequence[tuple[int, int]]) -> Any:
    """Send `x` along pairs of (source, target); who is no target gets zeros."""
    members = named_axis(axis_name)
    pairs = tuple((int(source), int(target)) for source, target in perm)
    return tree_map(lambda leaf: _exchange(ops.collective_permute, leaf, members, pairs=pairs), x)


def pshuffle(x: Any, axis_name: str, perm: Sequence[int]) -> Any:
    """Return, for member i, the `x` of member `perm[i]`."""
    return ppermute(x, axis_name, [(source, place) for place, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: str, axis: int) -> Any:
    """Exchange the members of the axis with the elements along `axis`, which are as many."""
    return all_to_all(x, axis_name, axis, axis)


def pbroadcast(x: Any, axis_name: str, source: int) -> Any:
    """Return the `x` of member `source`."""
    members = named_axis(axis_name)
    return tree_map(lambda leaf: _exchange(ops.collective_broadcast, leaf, members, root=source), x)


def pvary(x: Any, axis_name: AxisName) -> Any:
    """Return `x`, equal on all ranks of an axis, as a value of each rank's own.

    A gradient by it is the rank's own part; by `x` itself it is the sum over the ranks.
    """
    axes = [axis for axis in _axes(axis_name) if axis.communicator is not None]

    def varied(leaf: Any) -> Any:
        for axis in axes:
            leaf = emit(ops.vary, leaf, axis_name=axis.name)
        return leaf

    return tree_map(varied, x)


def axis_index(axis_name: str) -> Any:
    """Return the number of this member on the axis, from 0."""
    members = named_axis(axis_name)
    operands = [] if members.communicator is None else [as_value(members.communicator)]
    attributes = {"axis_name": members.name, "axis_size": members.size}
    index = graph().apply(ops.axis_index, operands, **attributes)
    assert not isinstance(index, tuple)  # one result
    return wrap(index)


def axis_size(axis_name: AxisName) -> Extent:
    """Return how many members the axis has."""
    return product(axis.size for axis in _axes(axis_name))


def _axes(axis_name: AxisName) -> list[NamedAxis]:
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return [named_axis(name) for name in names]


def _sum(leaf: Any, axes: list[NamedAxis]) -> Any:
    if not isinstance(leaf, TracedArray):  # the same for all
        return leaf * product(axis.size for axis in axes)
    total: Any = leaf
    for axis in axes:
        total = _reduced(total, axis, "sum")
    return total


def _require_own(leaf: Any, axes: Sequence[NamedAxis]) -> None:
    """Refuse the mean of an array that all ranks hold alike: mostly a gradient, summed already."""
    ranks = {axis.name for axis in axes if axis.communicator is not None}
    if isinstance(leaf, TracedArray) and ranks and ranks.isdisjoint(varying_axes(leaf)):
        names = ", ".join(map(repr, sorted(ranks)))
        raise InputError(
            f"pmean over {names} of an array that is equal on all of these ranks: it is its mean",
            source=calling_source(),
            remedy="leave pmean out; a gradient by an argument that all ranks have is the sum of "
            "the gradients of all ranks: average the loss, "
            "rlx.grad(lambda w: rlx.lax.pmean(loss(w), ...)), or take each rank's own gradient, "
            "by rlx.lax.pvary(w, ...)",
        )


def _folded(x: Any, axis_name: AxisName, reduction: str) -> Any:
    axes = _axes(axis_name)

    def fold(leaf: Any) -> Any:
        if not isinstance(leaf, TracedArray):  # the same for all
            return leaf
        folded = as_tracer(leaf)
        dtype = folded.value.dtype
        for axis in axes:
            folded = _reduced(folded, axis, reduction)
        return folded.astype(dtype.numpy) if dtype is DType.BOOL else folded

    return tree_map(fold, x)


def _reduced(x: Any, axis: NamedAxis, reduction: str) -> Any:
    return _in_wide(x, lambda wide: _exchange(ops.all_reduce, wide, axis, reduction=reduction))


def _in_wide(x: Any, exchange: Callable[[Any], Any]) -> Any:
    """Apply `exchange` in f32 to a narrow float, in i32 to a bool."""
    given = as_tracer(x)
    dtype = given.value.dtype
    if dtype is DType.BOOL:
        return exchange(given.astype(DType.I32.numpy))
    if not dtype.is_low_precision:
        return exchange(given)
    return exchange(given.astype(DType.F32.numpy)).astype(dtype.numpy)


def _exchange(definition: OpDef, x: Any, axis: NamedAxis, **attributes: Any) -> Any:
    operands = [x] if axis.communicator is None else [x, axis.communicator]
    return emit(definition, *operands, axis_name=axis.name, axis_size=axis.size, **attributes)


def _along(x: Any, axis: int, exchange: Callable[[Any], Any]) -> Any:
    """Apply `exchange`, which works on the leading axis, along another one."""
    return rnp.moveaxis(exchange(rnp.moveaxis(x, axis, 0)), 0, axis)


def _place(axis: int, leaf: Any, more: int = 0) -> int:
    return normalize_axis(axis, len(shape_of(leaf)) + more)


def _require_parts(what: str, leaf: Any, place: int, axis: NamedAxis, tiled: bool) -> None:
    extent = shape_of(leaf)[place]
    if not isinstance(extent, int):
        raise InputError(
            f"{what} splits an axis of extent {extent}, which is known at the call only",
            source=calling_source(),
            remedy="trace it for a fixed size",
        )
    if extent % axis.size if tiled else extent != axis.size:
        wanted = f"a multiple of {axis.size}" if tiled else str(axis.size)
        raise ShapeError(
            f"{what}: axis {place} has extent {extent}; it must be {wanted}, the members of "
            f"{axis.name!r}",
            source=calling_source(),
            remedy="pad or reshape the array",
        )

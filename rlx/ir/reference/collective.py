"""Collectives in NumPy, from the arrays of all members.

A communicator is a number here. Its group is entered in `GROUPS` by its maker:
members that are threads of one process (`rlx.distributed.simulate`), or the ranks of MPI.
"""

from __future__ import annotations

import functools
from typing import Protocol

import numpy as np

from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


class Group(Protocol):
    """The members of an axis, and the number of this one."""

    @property
    def rank(self) -> int:
        """Which of them this one is."""

    @property
    def size(self) -> int:
        """How many there are."""

    def exchange(self, x: Array) -> list[Array]:
        """Return the `x` of all members, in their order; all must call it."""


GROUPS: dict[int, Group] = {}
"""Groups of communicators."""

_FOLDS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def group_of(communicator: Array | None, axis_name: str, axis_size: int) -> Group:
    """Return the group of a communicator; InputError if it is unknown or of another size."""
    if communicator is None:
        raise InputError(
            f"axis {axis_name!r} is bound to no ranks",
            remedy="run the function in rlx.distributed.shard_map, or map over the axis with vmap",
        )
    group = GROUPS.get(int(communicator))
    if group is None:
        raise InputError(
            f"axis {axis_name!r} has communicator {int(communicator)}, which was not made here",
            remedy="make a mesh with rlx.distributed.Mesh",
        )
    if group.size != axis_size:
        raise InputError(
            f"axis {axis_name!r} has {axis_size} members in the program, and {group.size} ranks",
            remedy="trace the program for this number of ranks",
        )
    return group


def _parts(x: Array, communicator: Array | None, axis_name: str, axis_size: int) -> list[Array]:
    return group_of(communicator, axis_name, axis_size).exchange(x)


@reference(ops.all_reduce)
def all_reduce(
    x: Array,
    communicator: Array | None = None,
    *,
    axis_name: str,
    axis_size: int,
    reduction: str,
) -> Array:
    parts = _parts(x, communicator, axis_name, axis_size)
    folded: Array = functools.reduce(_FOLDS[reduction], parts)
    return folded


@reference(ops.all_reduce_start)
def all_reduce_start(
    x: Array, communicator: Array, *, axis_name: str, axis_size: int
) -> tuple[Array, Array]:
    parts = _parts(x, communicator, axis_name, axis_size)
    return functools.reduce(np.add, parts), np.zeros((), np.int64)


@reference.exact(ops.all_reduce_done)
def all_reduce_done(total: Array, request: Array, x: Array) -> Array:
    return total


@reference.exact(ops.all_gather)
def all_gather(
    x: Array, communicator: Array | None = None, *, axis_name: str, axis_size: int
) -> Array:
    return np.concatenate(_parts(x, communicator, axis_name, axis_size))


@reference(ops.reduce_scatter)
def reduce_scatter(
    x: Array, communicator: Array | None = None, *, axis_name: str, axis_size: int
) -> Array:
    rank = group_of(communicator, axis_name, axis_size).rank
    parts = _parts(x, communicator, axis_name, axis_size)
    return functools.reduce(np.add, [np.split(part, axis_size)[rank] for part in parts])


@reference.exact(ops.all_to_all)
def all_to_all(
    x: Array, communicator: Array | None = None, *, axis_name: str, axis_size: int
) -> Array:
    rank = group_of(communicator, axis_name, axis_size).rank
    parts = _parts(x, communicator, axis_name, axis_size)
    return np.concatenate([np.split(part, axis_size)[rank] for part in parts])


@reference.exact(ops.collective_broadcast)
def collective_broadcast(
    x: Array, communicator: Array | None = None, *, axis_name: str, axis_size: int, root: int
) -> Array:
    return _parts(x, communicator, axis_name, axis_size)[root]


@reference.exact(ops.collective_permute)
def collective_permute(
    x: Array,
    communicator: Array | None = None,
    *,
    axis_name: str,
    axis_size: int,
    pairs: tuple[tuple[int, int], ...],
) -> Array:
    rank = group_of(communicator, axis_name, axis_size).rank
    parts = _parts(x, communicator, axis_name, axis_size)
    sources = [source for source, target in pairs if target == rank]
    return parts[sources[0]] if sources else np.zeros_like(x)


@reference.exact(ops.axis_index)
def axis_index(communicator: Array | None = None, *, axis_name: str, axis_size: int) -> Array:
    return np.asarray(group_of(communicator, axis_name, axis_size).rank, np.int32)

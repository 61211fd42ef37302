"""Ops that exchange data between the members of a named axis.

An axis has `axis_size` members that run the same program: the ranks of an MPI communicator, or
the examples of `vmap(axis_name=)`. Every op names its axis. Ranks are reached through the operand
`communicator`, an i64 scalar; without it the axis is one that `vmap` maps over, whose rules
replace the op by one on arrays. Exchanged is along the leading axis; front ends move other axes.

Source: collective communication in the MPI standard (MPI-4.1), under the names that
StableHLO gives them.
"""

from __future__ import annotations

from typing import Literal

from rlx.errors import DTypeError, GraphError, ShapeError
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.shape import Extent, divide
from rlx.ir.types import TensorType

_FAMILY = "collective"
Reduction = Literal["sum", "max", "min"]


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.EQUALIZES)
def all_reduce(
    x: TensorType,
    communicator: TensorType | None = None,
    *,
    axis_name: str,
    axis_size: int,
    reduction: Reduction,
) -> TensorType:
    """Fold the `x` of all members, element by element; every member gets the result."""
    _require_axis(communicator, axis_size)
    require_dtype(x, "float int complex")
    if x.dtype.is_low_precision:
        raise DTypeError(
            f"all_reduce of {x.dtype}: partial sums are exchanged in f32 or wider",
            remedy="cast to f32 before, and back after",
        )
    if reduction != "sum" and x.dtype.is_complex:
        raise DTypeError(
            f"all_reduce {reduction} of {x.dtype}, which has no order",
            remedy="reduce the real and the imaginary part, or the magnitude",
        )
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR, Trait.EQUALIZES)
def all_gather(
    x: TensorType, communicator: TensorType | None = None, *, axis_name: str, axis_size: int
) -> TensorType:
    """Join the `x` of all members along axis 0, in their order; every member gets the result."""
    _require_axis(communicator, axis_size)
    require_rank(x, 1)
    return x.with_shape((x.shape[0] * axis_size, *x.shape[1:]))


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR, Trait.DISTRIBUTES)
def reduce_scatter(
    x: TensorType, communicator: TensorType | None = None, *, axis_name: str, axis_size: int
) -> TensorType:
    """Sum the `x` of all members; member i gets part i of the sum, split along axis 0."""
    _require_axis(communicator, axis_size)
    require_dtype(x, "float int complex")
    if x.dtype.is_low_precision:
        raise DTypeError(
            f"reduce_scatter of {x.dtype}: partial sums are exchanged in f32 or wider",
            remedy="cast to f32 before, and back after",
        )
    return x.with_shape((_share("reduce_scatter", x, axis_size), *x.shape[1:]))


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR, Trait.DISTRIBUTES)
def all_to_all(
    x: TensorType, communicator: TensorType | None = None, *, axis_name: str, axis_size: int
) -> TensorType:
    """Send part j of `x`, split along axis 0, to member j; join what arrives in their order."""
    _require_axis(communicator, axis_size)
    _share("all_to_all", x, axis_size)
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR, Trait.EQUALIZES)
def collective_broadcast(
    x: TensorType,
    communicator: TensorType | None = None,
    *,
    axis_name: str,
    axis_size: int,
    root: int,
) -> TensorType:
    """Give every member the `x` of member `root`."""
    _require_axis(communicator, axis_size)
    _require_member("root", root, axis_size)
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR, Trait.DISTRIBUTES)
def collective_permute(
    x: TensorType,
    communicator: TensorType | None = None,
    *,
    axis_name: str,
    axis_size: int,
    pairs: tuple[tuple[int, int], ...],
) -> TensorType:
    """Send `x` along `pairs` of (source, target); who is no target gets zeros."""
    _require_axis(communicator, axis_size)
    for end, members in (("source", [s for s, _ in pairs]), ("target", [t for _, t in pairs])):
        for member in members:
            _require_member(end, member, axis_size)
            if members.count(member) > 1:
                raise GraphError(
                    f"member {member} is the {end} of {members.count(member)} pairs",
                    remedy=f"name each member once as {end}",
                )
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS)
def axis_index(
    communicator: TensorType | None = None, *, axis_name: str, axis_size: int
) -> TensorType:
    """Return the number of this member on the axis, from 0, as an i32 scalar."""
    _require_axis(communicator, axis_size)
    return TensorType(DType.I32, ())


@composite(_FAMILY, Trait.ELEMENTWISE, Trait.DISTRIBUTES)
def vary(x: Value, *, axis_name: str) -> Value:
    """`x` itself, regarded as a value of its own on each rank of the axis.

    The derivative by it is each rank's own; that by a value equal on all ranks is their sum.
    """
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.LOWERED)
def all_reduce_start(
    x: TensorType, communicator: TensorType, *, axis_name: str, axis_size: int
) -> tuple[TensorType, TensorType]:
    """Begin to sum the `x` of all members; the sum is there when `all_reduce_done` has waited.

    The second result is the request to wait for. A pass makes both, where other work does not
    need the sum.
    """
    _require_axis(communicator, axis_size)
    return x, TensorType(DType.I64, ())


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.IN_PLACE, Trait.LOWERED)
def all_reduce_done(total: TensorType, request: TensorType, x: TensorType) -> TensorType:
    """Wait for what `all_reduce_start` began; `x` is what it sends until then."""
    return total


def _require_axis(communicator: TensorType | None, axis_size: int) -> None:
    if axis_size < 1:
        raise ShapeError(
            f"axis_size is {axis_size}; it must be at least 1", remedy="give 1 or more"
        )
    if communicator is not None and communicator != TensorType(DType.I64, ()):
        raise DTypeError(
            f"the communicator has type {communicator}; it must be {TensorType(DType.I64, ())}",
            remedy="pass the handle that MPI_Comm_c2f gives",
        )


def _require_member(what: str, member: int, axis_size: int) -> None:
    if not 0 <= member < axis_size:
        raise GraphError(
            f"{what} is {member}, and the axis has {axis_size} members",
            remedy=f"name a member from 0 to {axis_size - 1}",
        )


def _share(name: str, x: TensorType, axis_size: int) -> Extent:
    require_rank(x, 1)
    extent = x.shape[0]
    if isinstance(extent, int) and extent % axis_size:
        raise ShapeError(
            f"{name} splits axis 0 of shape {x.describe_shape()} in {axis_size} equal parts, and "
            f"{extent} is not a multiple of {axis_size}",
            remedy="pad the axis to a multiple",
        )
    return divide(extent, axis_size)


__all__ = [
    "all_gather",
    "all_reduce",
    "all_reduce_done",
    "all_reduce_start",
    "all_to_all",
    "axis_index",
    "collective_broadcast",
    "collective_permute",
    "reduce_scatter",
    "vary",
]

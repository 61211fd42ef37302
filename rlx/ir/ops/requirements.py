"""Checks of operands in type inference, with their error messages.

Every check raises a `ShapeError` or `DTypeError` that names the values it saw and the rule;
`Graph.apply` adds the op's name and the user's line.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rlx.errors import DTypeError, ShapeError
from rlx.ir.demands import is_nonnegative
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, Shape, format_shape, normalize_axis
from rlx.ir.types import TensorType


def require_dtype(type: TensorType, takes: str, operand: str = "operand") -> None:
    """Raise DTypeError unless `type` is in one of the classes or dtypes listed in `takes`.

    Classes: `float` (but those of eight bits), `int` (signed and unsigned), `complex`, `index`
    (what may hold indices).
    """
    if not _is_among(type.dtype, takes):
        listed = takes.replace("index", "i32 i64 f32").replace(" ", ", ")
        raise DTypeError(
            f"{operand} has dtype {type.dtype}; it must be one of: {listed}",
            remedy="convert it to one of these dtypes, with .astype in a traced function",
        )


@functools.cache
def _is_among(dtype: DType, takes: str) -> bool:
    classes = {
        "float": dtype.is_float and not dtype.is_storage,
        "int": dtype.is_int,
        "complex": dtype.is_complex,
        "index": dtype in (DType.I32, DType.I64, DType.F32),
    }
    return any(classes.get(word, word == dtype.value) for word in takes.split())


def require_same_dtype(*types: TensorType) -> DType:
    """Return the one dtype of `types`; an op never promotes by itself."""
    first = types[0].dtype
    for position, type in enumerate(types):
        if type.dtype is not first:
            raise DTypeError(
                f"operand {position} has dtype {type.dtype} and operand 0 has {first}; "
                "they must agree",
                remedy="cast one of them",
            )
    return first


def require_rank(type: TensorType, least: int, operand: str = "operand") -> None:
    if type.rank < least:
        raise ShapeError(
            f"{operand} has shape {type.describe_shape()} of rank {type.rank}; "
            f"the rank must be at least {least}",
            remedy="add axes with reshape",
        )


def require_shape(type: TensorType, expected: tuple[Extent, ...], operand: str) -> None:
    if type.shape != expected:
        wanted = type.with_shape(expected).describe_shape()
        raise ShapeError(
            f"{operand} has shape {type.describe_shape()}; it must be {wanted}",
            remedy="reshape or slice it to that shape",
        )


def require_extents(shape: Shape) -> None:
    """Raise ShapeError for a negative extent."""
    if not all(map(is_nonnegative, shape)):
        raise ShapeError(
            f"shape {format_shape(shape)} has a negative extent; extents are 0 or more",
            remedy="give extents of 0 or more",
        )


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return `axes` counted from the front, sorted, without repeats."""
    return tuple(sorted({normalize_axis(axis, rank) for axis in axes}))


def require_nonempty_axis(type: TensorType, axis: int) -> int:
    """Return `axis` from the front; its extent must not be zero."""
    position = normalize_axis(axis, type.rank)
    if not is_nonnegative(type.shape[position] - 1):
        raise ShapeError(
            f"axis {axis} of shape {type.describe_shape()} is empty; it must hold an element",
            remedy="check for empty arrays before the call, or reduce another axis",
        )
    return position


def at_most(extent: Extent, bound: Extent) -> bool:
    """Return False only where `extent` is known to exceed `bound`."""
    return is_nonnegative(bound - extent)

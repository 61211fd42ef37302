"""Index arithmetic: indices of triangles and diagonals, grids, flat indices and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import c_ as c_
from numpy import index_exp as index_exp
from numpy import mgrid as mgrid
from numpy import ogrid as ogrid
from numpy import r_ as r_
from numpy import s_ as s_

from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Shape
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, shape_from, static_shape
from rlx.numpy.creation import arange, dtype_of, meshgrid
from rlx.numpy.shaping import reshape, stack
from rlx.runtime.arrays import Array, frozen
from rlx.tracing.apply import as_tracer, convert, function
from rlx.tracing.only import only
from rlx.tracing.trace import arrays_of, shape_of


@function
@only(order=("C",))
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Flat positions in an array of `shape` as one index array per axis."""
    rest = as_tracer(indices)
    found = []
    for extent in reversed(shape_from(shape)):
        found.append(elementwise.remainder(rest, extent))
        rest = elementwise.floor_divide(rest, extent)
    return tuple(reversed(found))


@function
@only(order=("C",))
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Array:
    """One index array per axis as flat positions; mode clip or wrap moves them inside."""
    if mode not in ("raise", "clip", "wrap"):
        raise ShapeError(f"mode is {mode!r}", remedy="use raise, clip or wrap")
    flat: Any = 0
    for index, extent in zip(multi_index, shape_from(dims), strict=True):
        if mode == "clip":
            index = elementwise.clip(index, 0, extent - 1)
        elif mode == "wrap":
            index = elementwise.remainder(index, extent)
        flat = elementwise.add(elementwise.multiply(flat, extent), index)
    return flat


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Mask of the elements of an `n` by `m` matrix on or below diagonal `k`."""
    return arrays_of(np.tril_indices(count_from(n, "n"), k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Mask of the elements of an `n` by `m` matrix on or above diagonal `k`."""
    return arrays_of(np.triu_indices(count_from(n, "n"), k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix."""
    rows, columns = _of_matrix(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix."""
    rows, columns = _of_matrix(arr)
    return triu_indices(rows, k, columns)


def _of_matrix(x: Any) -> tuple[int, ...]:
    shape = static_shape(x)
    if len(shape) != 2:
        raise ShapeError(f"x has shape {shape}; a matrix has two axes", remedy="pass a matrix")
    return shape


def diag_indices(n: int, ndim: int = 2) -> Any:
    """The positions of the main diagonal."""
    return arrays_of(np.diag_indices(count_from(n, "n"), ndim))


def diag_indices_from(arr: Any) -> tuple[Array, Array]:
    """`diag_indices` for an array of equal extents."""
    shape = static_shape(arr)
    if len(shape) < 2 or len({*shape}) > 1:
        raise ShapeError(
            f"x has shape {shape}; a diagonal has two or more axes of one extent",
            remedy="pass an array of equal extents",
        )
    return diag_indices(shape[0], len(shape))


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of each element on each axis."""
    wanted = dtype_of(dtype, DType.I64).numpy
    if any(isinstance(extent, Dim) for extent in dimensions):
        return _symbolic_indices(tuple(dimensions), dtype_of(dtype, DType.I64), sparse)
    if sparse:
        return tuple(frozen(x) for x in np.indices(tuple(dimensions), wanted, sparse=True))
    return frozen(np.indices(tuple(dimensions), wanted))


@function
def _symbolic_indices(shape: Shape, dtype: DType, sparse: bool) -> Any:
    ranges = [convert(arange(extent), dtype) for extent in shape]
    found = meshgrid(*ranges, indexing="ij")
    return tuple(ix_(*ranges)) if sparse else stack(found)


@function
def ix_(*args: Any) -> tuple[Array, ...]:
    """Index vectors, each along an axis of its own: they pick a block of rows and columns."""
    rank = len(args)
    shapes = [[-1 if a == axis else 1 for a in range(rank)] for axis in range(rank)]
    if any(len(shape_of(x)) != 1 for x in args):
        raise ShapeError("ix_ takes vectors", remedy="flatten each with .ravel()")
    return tuple(reshape(x, shape) for x, shape in zip(args, shapes, strict=True))

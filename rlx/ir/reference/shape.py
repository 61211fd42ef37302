"""Movement ops and `iota` in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference, static_shape
from rlx.ir.shape import Extent, evaluate, normalize_axis
from rlx.ir.types import TensorType

reference.absent(ops.reshape, because="a view: the interpreter gives the operand its shape")
reference.absent(
    ops.input, ops.param, ops.constant, because="leaves: the interpreter reads their arrays"
)


@reference(ops.transpose)
def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    return np.transpose(x, perm)


@reference(ops.expand)
def expand(x: Array, *, shape: tuple[int, ...]) -> Array:
    padded = (1,) * (len(shape) - x.ndim) + x.shape
    target = [own if e == -1 else e for own, e in zip(padded, shape, strict=True)]
    return np.broadcast_to(x, target)


@reference(ops.narrow)
def narrow(x: Array, *, axis: int, start: int, length: int) -> Array:
    return np.moveaxis(np.moveaxis(x, axis, 0)[start : start + length], 0, axis)


@reference(ops.concat)
def concat(*tensors: Array, axis: int) -> Array:
    return np.concatenate(tensors, axis=axis)


@reference(ops.reverse)
def reverse(x: Array, *, axes: tuple[int, ...]) -> Array:
    return np.flip(x, axes)


@reference(ops.pad)
def pad(
    x: Array, *, low: tuple[int, ...], high: tuple[int, ...], value: float, structural: bool
) -> Array:
    del structural  # zeros are zeros
    shape = [before + n + after for before, n, after in zip(low, x.shape, high, strict=True)]
    result = np.full(shape, value, x.dtype)
    result[tuple(np.s_[before : before + n] for before, n in zip(low, x.shape, strict=True))] = x
    return result


@reference(ops.slice)
def strided_slice(
    x: Array, *, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]
) -> Array:
    return x[tuple(np.s_[a:b:c] for a, b, c in zip(start, stop, step, strict=True))]


@reference(ops.extent)
def extent(*, value: Extent) -> Array:
    return np.asarray(evaluate(value, {}), np.int64)


@reference(ops.iota)
def iota(*, type: TensorType, axis: int) -> Array:
    shape = static_shape(type.shape)
    position = normalize_axis(axis, type.rank)
    column = np.arange(shape[position]).reshape(-1, *(1,) * (type.rank - 1 - position))
    return np.broadcast_to(column.astype(type.dtype.numpy), shape)

"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims, moveaxis, ravel, reshape, roll
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function, promoted
from rlx.tracing.trace import shape_of


def preferred(dtype: Any, *arrays: Any) -> tuple[Any, ...]:
    """Return arrays in `dtype`, or as they are if it is None."""
    return arrays if dtype is None else tuple(elementwise.astype(x, dtype) for x in arrays)


@function
def matmul(
    x: Any, y: Any, /, *, preferred_element_type: Any = None, precision: Any = None
) -> Array:
    """`x @ y`: a vector counts as one row on the left, one column on the right.

    Like other products, it is computed and given in `preferred_element_type`, if one is named.
    """
    x, y = operands("matmul", *preferred(preferred_element_type, x, y))
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError("an operand is a scalar; both must have an axis", remedy="use `*`")
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise ShapeError(
            f"x has shape {x.shape} and y has {y.shape}; the last extent of x, "
            f"{x.shape[-1]}, must equal {y.shape[-2 if y.ndim > 1 else 0]} of y",
            remedy="transpose one of them with .T, or reshape it, so that these extents agree",
        )
    rows = expand_dims(x, 0) if x.ndim == 1 else x
    columns = expand_dims(y, 1) if y.ndim == 1 else y
    result = emit(ops.matmul, rows, columns, weak=x.weak)
    kept = [] if x.ndim == 1 else [result.shape[-2]]
    kept += [] if y.ndim == 1 else [result.shape[-1]]
    return reshape(result, (*result.shape[:-2], *kept))


@function
def dot(
    a: Any, b: Any, out: None = None, *, preferred_element_type: Any = None, precision: Any = None
) -> Array:
    """Sum over the last axis of `a` and the second last (or only) one of `b`."""
    a, b = preferred(preferred_element_type, a, b)
    if not shape_of(a) or not shape_of(b):
        return elementwise.multiply(a, b)
    if len(shape_of(a)) <= 2 and len(shape_of(b)) <= 2:
        return matmul(a, b)
    return tensordot(a, b, ([-1], [-2 if len(shape_of(b)) > 1 else -1]))


@function
def vdot(a: Any, b: Any, *, preferred_element_type: Any = None, precision: Any = None) -> Array:
    """Sum of products of all elements, `a` conjugated."""
    a, b = preferred(preferred_element_type, a, b)
    return matmul(ravel(elementwise.conj(a)), ravel(b))


@function
def inner(a: Any, b: Any, *, preferred_element_type: Any = None, precision: Any = None) -> Array:
    """Sum over the last axes."""
    a, b = preferred(preferred_element_type, a, b)
    if not shape_of(a) or not shape_of(b):
        return elementwise.multiply(a, b)
    return tensordot(a, b, ([-1], [-1]))


@function
def outer(a: Any, b: Any, out: None = None) -> Array:
    """All products of an element of `a` and one of `b`."""
    return elementwise.multiply(reshape(a, (-1, 1)), ravel(b))


@function
def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    preferred_element_type: Any = None,
    precision: Any = None,
) -> Array:
    """Sum of products along one axis, `x1` conjugated."""
    x, y = operands("vecdot", *preferred(preferred_element_type, x1, x2))
    products = elementwise.multiply(moveaxis(elementwise.conj(x), axis, -1), moveaxis(y, axis, -1))
    return sum(products, -1, products.dtype)


@function
def kron(a: Any, b: Any) -> Array:
    """Every element of `a` times the whole of `b`."""
    a, b = promoted([a, b])
    rank = max(a.ndim, b.ndim)
    a, b = (reshape(each, (1,) * (rank - each.ndim) + each.shape) for each in (a, b))
    blocks = elementwise.multiply(
        expand_dims(a, tuple(range(1, 2 * rank, 2))), expand_dims(b, tuple(range(0, 2 * rank, 2)))
    )
    return reshape(blocks, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


@function
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Cross product of vectors with three elements; of two, counted as ones in a plane."""
    a, b = promoted([a, b])
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    extents = a.shape[-1], b.shape[-1]
    if not {*extents} <= {2, 3}:
        raise ShapeError(
            f"extents {extents[0]} and {extents[1]} of the crossed axes must be 2 or 3",
            remedy="give vectors of 3 elements along that axis",
        )
    if extents == (2, 2):
        first = elementwise.multiply(a[..., 0], b[..., 1])
        return elementwise.subtract(first, elementwise.multiply(a[..., 1], b[..., 0]))
    a, b = (_in_space(each) for each in (a, b))
    first = elementwise.multiply(a, roll(b, -1, -1))
    second = elementwise.multiply(roll(a, -1, -1), b)
    return moveaxis(roll(elementwise.subtract(first, second), -1, -1), -1, axisc)


def _in_space(x: Any) -> Any:
    """Return vectors of two elements with a third, 0."""
    missing = 3 - x.shape[-1]
    return emit(ops.pad, x, low=(0,) * x.ndim, high=(*(0,) * (x.ndim - 1), missing))


@function
def tensordot(
    a: Any, b: Any, axes: Any = 2, *, preferred_element_type: Any = None, precision: Any = None
) -> Array:
    """Sum products over pairs of axes: the last of `a` and first of `b`, or as listed."""
    a, b = preferred(preferred_element_type, a, b)
    a, b = operands("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        left = tuple(range(a.ndim - axes, a.ndim))
        right = tuple(range(axes))
    else:
        left, right = axes_of(axes[0], a.ndim), axes_of(axes[1], b.ndim)
    return contract(a, b, left, right)


def contract(
    x: Any,
    y: Any,
    left: tuple[int, ...],
    right: tuple[int, ...],
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> Any:
    """One contraction; the plain forms of a matrix product are spelled as one."""
    plain = not batch[0] and y.ndim == 2 and x.ndim >= 2
    if plain and left == (x.ndim - 1,) and right == (0,):
        return emit(ops.matmul, x, y)
    return emit(
        ops.dot_general, x, y,
        lhs_contracting=left, rhs_contracting=right, lhs_batch=batch[0], rhs_batch=batch[1],
    )  # fmt: skip


def operands(name: str, x: Any, y: Any) -> Any:
    """Promote the operands of a product; bools have none."""
    x, y = promoted([x, y])
    if x.value.dtype is DType.BOOL:
        raise DTypeError(f"{name} takes no bools", remedy="cast one operand with .astype('i64')")
    return x, y


@function
def matvec(x1: Any, x2: Any, /) -> Array:
    """Matrices times vectors, the last axis of each; leading axes broadcast."""
    return vecdot(elementwise.conj(x1), expand_dims(x2, -2))


@function
def vecmat(x1: Any, x2: Any, /) -> Array:
    """Vectors, conjugated, times matrices; leading axes broadcast."""
    return vecdot(expand_dims(x1, -2), moveaxis(as_tracer(x2), -1, -2))


def summed_in(dtype: Any, *operands: Any) -> list[Any]:
    """Return operands in the dtype in which a product of that dtype is summed.

    Integers narrower than 32 bits are summed in 32, which wraps to the same; without a dtype, all
    are left.
    """
    if dtype is None:
        return list(operands)
    result = as_array_dtype(dtype).numpy
    wide = np.dtype(np.int32) if result.kind in "biu" and result.itemsize < 4 else result
    return [elementwise.astype(x, wide) for x in operands]

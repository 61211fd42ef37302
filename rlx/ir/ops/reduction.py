"""Reductions, running sums and the softmax family.

`axes` is a set of axes, counted from either end; the empty set reduces nothing and copies.
Sums begin with 0.0 and may be taken in any order. The largest or least of zeros of both signs may
have either sign.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.ir.composite import composite
from rlx.ir.declaration import SingleResultOp, declare_op, op
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.op import ROW_WISE, Trait
from rlx.ir.ops.elementwise import (
    exp,
    is_finite,
    log,
    maximum,
    minimum,
    mul,
    stop_gradient,
    where,
)
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import normalize_axes, require_dtype, require_nonempty_axis
from rlx.ir.ops.shape import concat, narrow, pad, reshape
from rlx.ir.ops.shape import reverse as reverse_
from rlx.ir.shape import Shape, normalize_axis, upper
from rlx.ir.types import TensorType

_FAMILY = "reduction"


_FOLDS = (Trait.REDUCTION, Trait.EPILOGUE, Trait.PROLOGUE, Trait.STORES_ONCE)


def reduction(name: str, doc: str, takes: str, *traits: Trait) -> SingleResultOp:
    """Declare a fold over a set of axes."""

    def infer(x: TensorType, *, axes: tuple[int, ...], keepdims: bool = False) -> TensorType:
        require_dtype(x, takes)
        return x.with_shape(_reduced(x.shape, normalize_axes(axes, x.rank), keepdims))

    return declare_op(name, _FAMILY, infer, traits=(*_FOLDS, *traits), doc=doc)


reduce_sum = reduction(
    "reduce_sum", "Sum; integers wrap, nothing sums to 0.", "float int complex", Trait.LINEAR
)
reduce_mean = reduction(
    "reduce_mean", "Sum divided by the count; NaN for nothing.", "float complex", Trait.LINEAR
)
reduce_max = reduction(
    "reduce_max", "Largest element; NaN if any is; the least value for nothing.", "float int bool"
)
reduce_min = reduction(
    "reduce_min", "Smallest element; NaN if any is; the top value for nothing.", "float int bool"
)
reduce_prod = reduction(
    "reduce_prod", "Product; integers wrap, nothing multiplies to 1.", "float int complex"
)


def index_reduction(name: str, doc: str) -> SingleResultOp:
    """Declare a search along one axis that gives an i64 index."""

    def infer(x: TensorType, *, axis: int, keepdims: bool = False) -> TensorType:
        require_dtype(x, "float int bool")
        position = require_nonempty_axis(x, axis)
        return TensorType(DType.I64, _reduced(x.shape, (position,), keepdims))

    return declare_op(name, _FAMILY, infer, traits=(Trait.REDUCTION, Trait.SEARCH), doc=doc)


argmax = index_reduction("argmax", "Lowest index of the largest element; the first NaN wins.")
argmin = index_reduction("argmin", "Lowest index of the smallest element; the first NaN wins.")


@op(_FAMILY, Trait.LINEAR, Trait.ALL_ELEMENTS)
def cumsum(
    x: TensorType, *, axis: int, exclusive: bool = False, reverse: bool = False
) -> TensorType:
    """Sum running along `axis`; `exclusive` leaves the own element out, `reverse` runs back."""
    require_dtype(x, "float int complex")
    normalize_axis(axis, x.rank)
    return x


def _by_doubling(join: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    """Return the formula of a running fold: each step joins what is 1, 2, 4, .. before."""

    def formula(x: Value, *, axis: int, reverse: bool = False) -> Value:
        position = normalize_axis(axis, x.rank)
        extent, bound = x.shape[position], upper(x.shape[position])
        found = reverse_(x, axes=(position,)) if reverse else x
        if extent != bound:  # what comes after is read by nothing before it
            high = tuple(bound - extent if a == position else 0 for a in range(x.rank))
            found = pad(found, low=(0,) * x.rank, high=high)
        distance = 1
        while distance < bound:
            begin = narrow(found, axis=position, start=0, length=distance)
            late = narrow(found, axis=position, start=distance, length=bound - distance)
            early = narrow(found, axis=position, start=0, length=bound - distance)
            found = concat(begin, join(early, late), axis=position)
            distance *= 2
        if extent != bound:
            found = narrow(found, axis=position, start=0, length=extent)
        return reverse_(found, axes=(position,)) if reverse else found

    return formula


def running(
    name: str, doc: str, takes: str, join: Callable[[Value, Value], Value]
) -> SingleResultOp:
    """Declare a fold that runs along one axis; its derivatives are those of doubling."""

    def infer(x: TensorType, *, axis: int, reverse: bool = False) -> TensorType:
        require_dtype(x, takes)
        normalize_axis(axis, x.rank)
        return x

    formula = in_single_precision(_by_doubling(join))
    return declare_op(
        name, _FAMILY, infer, traits=(Trait.ALL_ELEMENTS,), doc=doc, decompose=formula
    )


cumprod = running(
    "cumprod", "Product running along `axis`, back if `reverse`.", "float int complex", mul
)
cummax = running(
    "cummax", "Largest element so far along `axis`; NaN from the first on.", "float int", maximum
)
cummin = running(
    "cummin", "Smallest element so far along `axis`; NaN from the first on.", "float int", minimum
)


@in_single_precision
def softmax_formula(x: Value, *, axis: int) -> Value:
    """The maximum cancels, so that no derivative need pass through it.

    A product by the reciprocal of the sum rounds once more than a quotient, and is faster.
    """
    shifted = x - stop_gradient(reduce_max(x, axes=(axis,), keepdims=True))
    weights = exp(shifted)
    return weights * (1.0 / reduce_sum(weights, axes=(axis,), keepdims=True))


@op(_FAMILY, Trait.IN_PLACE, *ROW_WISE, decompose=softmax_formula)
def softmax(x: TensorType, *, axis: int) -> TensorType:
    """`exp(x) / sum(exp(x))` along `axis`; a slice with NaN or +inf, or all -inf, is NaN."""
    require_dtype(x, "float")
    normalize_axis(axis, x.rank)
    return x


@in_single_precision
def log_softmax_formula(x: Value, *, axis: int) -> Value:
    """Subtract the logarithm of the sum, not the logarithm from a rounded quotient."""
    shifted = x - stop_gradient(reduce_max(x, axes=(axis,), keepdims=True))
    total: Value = reduce_sum(exp(shifted), axes=(axis,), keepdims=True)
    return shifted - log(total)


@op(_FAMILY, Trait.IN_PLACE, *ROW_WISE, decompose=log_softmax_formula)
def log_softmax(x: TensorType, *, axis: int) -> TensorType:
    """The logarithm of `softmax`, finite where softmax underflows."""
    require_dtype(x, "float")
    normalize_axis(axis, x.rank)
    return x


@composite(_FAMILY, Trait.ALL_ELEMENTS)
@in_single_precision
def logsumexp(x: Value, *, axes: tuple[int, ...], keepdims: bool = False) -> Value:
    """`log(sum(exp(x)))` over `axes` without overflow; -inf for nothing or all -inf."""
    largest = stop_gradient(reduce_max(x, axes=axes, keepdims=True))
    shift = where(is_finite(largest), largest, 0.0)
    total: Value = reduce_sum(exp(x - shift), axes=axes, keepdims=True)
    result = log(total) + shift
    if keepdims:
        return result
    return reshape(result, shape=_reduced(x.shape, normalize_axes(axes, x.rank), keepdims=False))


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes that a reduction folds, counted from the front, in order."""
    given = (node.attribute("axis"),) if node.op.has(Trait.SEARCH) else node.attribute("axes")
    return normalize_axes(given, node.operands[0].rank)


def _reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)

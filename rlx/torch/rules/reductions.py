"""Reductions and running ones."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx import lax, nn
from rlx.ir.dtype import DType
from rlx.torch.registry import enter, rule

enter({"max.other": rnp.maximum, "min.other": rnp.minimum})


def axes_of(x: Any, axes: Any) -> tuple[int, ...] | None:
    """Return axes as NumPy names them: None and none at all are all."""
    if axes is None or axes == []:
        return None
    named = axes if isinstance(axes, (list, tuple)) else [axes]
    return tuple(axis % max(x.ndim, 1) for axis in named) if x.ndim else ()


def kept_axes(x: Any, axes: Any) -> tuple[int, ...]:
    found = axes_of(x, axes)
    return tuple(range(x.ndim)) if found is None else found


def wide(x: Any, dtype: DType) -> Any:
    """Return an array in the type in which a sum of `dtype` is formed."""
    to = DType.F32 if dtype.is_low_precision else dtype
    return x if x.value.dtype is to else x.astype(to)


def _typed(fold: Any) -> Any:
    def apply(result: Any, x: Any, axes: Any = None, keepdim: bool = False, **_: Any) -> Any:
        return fold(wide(x, result.dtype), kept_axes(x, axes), keepdims=keepdim)

    return apply


rule("sum", "sum.dim_IntList", "prims.sum", typed=True)(_typed(rnp.sum))
rule("mean", "mean.dim", typed=True)(_typed(rnp.mean))
rule("prod", "prod.dim_int", typed=True)(_typed(rnp.prod))


def _extremum(fold: Any) -> Any:
    def apply(x: Any, axes: Any = None, keepdim: bool = False) -> Any:
        return fold(x, kept_axes(x, axes), keepdims=keepdim) if x.ndim else x

    return apply


def _with_place(search: Any) -> Any:
    def apply(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
        if x.ndim == 0:
            return x, rnp.zeros((), "i64")
        places = search(_ordered(x), axis, keepdims=True)
        values = rnp.take_along_axis(x, places, axis)
        if keepdim:
            return values, places
        return rnp.squeeze(values, axis), rnp.squeeze(places, axis)

    return apply


def _ordered(x: Any) -> Any:
    return x.astype("uint8") if x.value.dtype is DType.BOOL else x


def _place(search: Any) -> Any:
    def apply(x: Any, axis: int | None = None, keepdim: bool = False) -> Any:
        if x.ndim == 0:
            return rnp.zeros((), "i64")
        if axis is None:
            found = search(_ordered(rnp.reshape(x, (-1,))), 0)
            return rnp.reshape(found, (1,) * x.ndim) if keepdim else found
        return search(_ordered(x), axis, keepdims=keepdim)

    return apply


def _running(fold: Any, wins: Any) -> Any:
    def apply(x: Any, axis: int) -> tuple[Any, Any]:
        """The running extremum, and the place of the last element that equals it."""
        if x.ndim == 0:
            return x, rnp.zeros((), "i64")
        axis %= x.ndim
        numbers = _ordered(x)
        found = fold(numbers, axis)
        shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
        steps = rnp.reshape(rnp.arange(x.shape[axis]), shape)
        is_new = wins(numbers, found)
        if x.value.dtype.is_float:
            is_new = rnp.logical_or(is_new, rnp.isnan(x))
        places = rnp.cummax(rnp.where(is_new, steps, 0), axis)
        return found.astype(x.value.dtype), places

    return apply


for _name, _fold, _search, _cumulated, _wins in (
    ("max", rnp.max, rnp.argmax, rnp.cummax, rnp.greater_equal),
    ("min", rnp.min, rnp.argmin, rnp.cummin, rnp.less_equal),
):
    rule(f"a{_name}", _name)(_extremum(_fold))
    rule(f"{_name}.dim")(_with_place(_search))
    rule(f"arg{_name}")(_place(_search))
    rule(f"cum{_name}")(_running(_cumulated, _wins))


def _of_bools(fold: Any) -> Any:
    def apply(x: Any, axes: Any = None, keepdim: bool = False) -> Any:
        return fold(x.astype("bool"), kept_axes(x, axes), keepdims=keepdim)

    return apply


rule("any", "any.dim", "any.dims")(_of_bools(rnp.any))
rule("all", "all.dim", "all.dims")(_of_bools(rnp.all))


def variance(x: Any, axes: Any, correction: Any, keepdim: bool) -> Any:
    """The variance of real or complex numbers, divided by the count less `correction`."""
    chosen = kept_axes(x, axes)
    count = math.prod(x.shape[axis] for axis in chosen)
    if x.value.dtype.is_complex:
        return variance(rnp.real(x), axes, correction, keepdim) + variance(
            rnp.imag(x), axes, correction, keepdim
        )
    center = rnp.mean(x, chosen, keepdims=True)
    total = rnp.sum(rnp.square(x - center), chosen, keepdims=keepdim)
    divisor = count - correction
    if not isinstance(divisor, (int, float)):
        return total / rnp.asarray(rnp.size(x) if not chosen else divisor)
    return total / float(max(divisor, 0))


def _correction(given: tuple[Any, ...], named: Any) -> tuple[Any, Any, bool]:
    """Return axes, correction and keepdim of the two signatures that there are."""
    axes = next((a for a in given if isinstance(a, list) or a is None), None)
    flags = [a for a in given if isinstance(a, bool)]
    unbiased, keepdim = flags + [True, False][len(flags) :]
    correction = named.get("correction", 1 if unbiased else 0)
    return axes, 1 if correction is None else correction, named.get("keepdim", keepdim)


@rule("var.correction", "var", "var.dim", "prims.var")
def var(x: Any, *given: Any, **named: Any) -> Any:
    axes, correction, keepdim = _correction(given, named)
    return variance(x if x.value.dtype.is_complex else _computed(x), axes, correction, keepdim)


@rule("var_mean.correction", "var_mean", "var_mean.dim")
def var_mean(x: Any, *given: Any, **named: Any) -> tuple[Any, Any]:
    axes, correction, keepdim = _correction(given, named)
    x = x if x.value.dtype.is_complex else _computed(x)
    return variance(x, axes, correction, keepdim), rnp.mean(x, kept_axes(x, axes), keepdims=keepdim)


def _computed(x: Any) -> Any:
    return wide(x, x.value.dtype)


@rule("logsumexp", typed=True)
def logsumexp(result: Any, x: Any, axes: Any, keepdim: bool = False) -> Any:
    return nn.logsumexp(wide(x, result.dtype), axis=kept_axes(x, axes), keepdims=keepdim)


def _cumulative(fold: Any) -> Any:
    def apply(result: Any, x: Any, axis: int, **_: Any) -> Any:
        x = wide(x, result.dtype)
        return fold(x, axis) if x.ndim else x

    return apply


rule("cumsum", typed=True)(_cumulative(rnp.cumsum))
rule("cumprod", typed=True)(_cumulative(rnp.cumprod))


@rule("logcumsumexp", "_logcumsumexp")
def logcumsumexp(x: Any, axis: int) -> Any:
    return rnp.cumlogsumexp(x, axis) if x.ndim else x


@rule("equal")
def equal(x: Any, y: Any) -> Any:
    return rnp.all(rnp.equal(x, y)) if x.shape == y.shape else rnp.asarray(False)


@rule("_cdist_forward")
def cdist(x: Any, y: Any, p: float, mode: Any = None) -> Any:
    """Distances of all pairs of rows."""
    del mode
    apart = rnp.abs(rnp.expand_dims(x, -2) - rnp.expand_dims(y, -3))
    return _distance(apart, p)


def _distance(apart: Any, p: float) -> Any:
    if p == 0:
        return rnp.sum(rnp.not_equal(apart, 0).astype(apart.value.dtype), -1)
    if p == math.inf:
        return rnp.max(apart, -1, initial=0) if apart.size else rnp.zeros(apart.shape[:-1])
    if p == 2:
        return rnp.sqrt(rnp.sum(rnp.square(apart), -1))
    return rnp.power(rnp.sum(rnp.power(apart, p), -1), 1.0 / p)


@rule("_cdist_backward")
def cdist_backward(g: Any, x: Any, y: Any, p: float, distances: Any) -> Any:
    """The gradient by `x`; 0 where two rows are equal."""
    apart = rnp.expand_dims(x, -2) - rnp.expand_dims(y, -3)
    slopes = _slopes(apart, rnp.expand_dims(distances, -1), p)
    found = rnp.sum(rnp.expand_dims(g, -1) * slopes, -2)
    lead = found.ndim - x.ndim
    repeated = [i for i, n in enumerate(x.shape) if n == 1 and found.shape[lead + i] != 1]
    return rnp.reshape(rnp.sum(found, (*range(lead), *(lead + i for i in repeated))), x.shape)


def _slopes(apart: Any, distance: Any, p: float) -> Any:
    """The derivative of a distance by each coordinate; 0 at distance 0."""
    size, sign = rnp.abs(apart), rnp.sign(apart)
    if p == 0:
        return rnp.zeros_like(apart)
    if p == 1:
        return sign
    if p == math.inf:
        return rnp.where(rnp.equal(size, distance), sign, 0)
    is_zero = rnp.equal(distance, 0)
    safe = rnp.where(is_zero, 1, distance)
    if p == 2:
        return rnp.where(is_zero, 0, apart / safe)
    at_zero = rnp.logical_or(is_zero, rnp.equal(size, 0))
    base = rnp.where(at_zero, 1, size)
    return rnp.where(at_zero, 0, sign * rnp.power(base, p - 1) / rnp.power(safe, p - 1))


@rule("_pdist_backward")
def pdist_backward(g: Any, x: Any, p: float, distances: Any) -> Any:
    rows, columns = rnp.triu_indices(x.shape[0], 1)
    slopes = _slopes(x[rows] - x[columns], rnp.expand_dims(distances, -1), p)
    steps = rnp.expand_dims(g, -1) * slopes
    return rnp.zeros_like(x).at[rows].add(steps).at[columns].add(-steps)


@rule("_pdist_forward")
def pdist(x: Any, p: float = 2.0) -> Any:
    rows, columns = rnp.triu_indices(x.shape[0], 1)
    return _distance(rnp.abs(x[rows] - x[columns]), p)


@rule("hash_tensor", typed=True)
def hash_tensor(
    result: Any, x: Any, axes: Any = None, *, keepdim: bool = False, mode: int = 0
) -> Any:
    """The exclusive or of all elements, as the bits of f64 or i64."""
    del mode
    dtype = x.value.dtype
    if dtype is not DType.U64:
        x = lax.bitcast_convert_type(x.astype("f64" if dtype.is_float else "i64"), "u64")
    found = lax.reduce_xor(x, kept_axes(x, axes))
    return rnp.reshape(found, result.shape) if keepdim else found

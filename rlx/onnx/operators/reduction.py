"""Folds over axes, running sums, and searches."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import normalize_axis, product
from rlx.onnx.operators.shape import integers, positions_along
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import as_tracer, emit


def _axes(x: Any, axes: Any, noop: int) -> tuple[int, ...] | None:
    """Return the axes to fold; None for none."""
    if axes is None or not axes.size:
        return None if noop else tuple(range(x.ndim))
    return tuple(sorted({normalize_axis(axis, x.ndim) for axis in integers(axes)}))


def _reduction(fold: Any) -> Any:
    """Return the translator for a fold: a function of the array, its axes and `keepdims`."""

    def apply(
        x: Any, axes: Static = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        named = _axes(x, axes, noop_with_empty_axes)
        return fold(x, named or (), bool(keepdims))

    return apply


def _by(definition: OpDef, before: Any = None, after: Any = None) -> Any:
    def fold(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        x = as_tracer(x if before is None else before(x))
        folded = emit(definition, x, axes=axes, keepdims=keepdims) if axes else x
        return folded if after is None else after(folded)

    return fold


def _extremum(definition: OpDef) -> Any:
    def fold(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        if any(x.shape[axis] == 0 for axis in axes):
            return _of_nothing(definition, x, axes, keepdims)
        return _by(definition)(x, axes, keepdims)

    return fold


def _of_nothing(definition: OpDef, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the least of no numbers, which is the largest there is, and the other way round."""
    dtype = as_tracer(x).value.dtype
    least = definition is ops.reduce_max
    if dtype is DType.BOOL:
        fill: Any = not least
    elif dtype.is_float:
        fill = -np.inf if least else np.inf
    else:
        limits = np.iinfo(dtype.numpy)
        fill = limits.min if least else limits.max
    shape = [1 if a in axes else e for a, e in enumerate(x.shape) if keepdims or a not in axes]
    return np.full(shape, fill, dtype.numpy)


def _log_sum_exp(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if any(x.shape[axis] == 0 for axis in axes):
        return rnp.log(emit(ops.reduce_sum, x, axes=axes, keepdims=keepdims))
    return emit(ops.logsumexp, x, axes=axes, keepdims=keepdims) if axes else x


for _name, _fold in {
    "ReduceSum": _by(ops.reduce_sum),
    "ReduceMean": _by(ops.reduce_mean),
    "ReduceProd": _by(ops.reduce_prod),
    "ReduceMax": _extremum(ops.reduce_max),
    "ReduceMin": _extremum(ops.reduce_min),
    "ReduceL1": _by(ops.reduce_sum, before=lambda x: emit(ops.abs, x)),
    "ReduceL2": _by(ops.reduce_sum, before=lambda x: emit(ops.square, x), after=rnp.sqrt),
    "ReduceSumSquare": _by(ops.reduce_sum, before=lambda x: emit(ops.square, x)),
    "ReduceLogSum": _by(ops.reduce_sum, after=rnp.log),
    "ReduceLogSumExp": _log_sum_exp,
}.items():
    operator(_name)(_reduction(_fold))


def _search(definition: OpDef) -> Any:
    def apply(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        position = normalize_axis(axis, x.ndim)
        if not select_last_index:
            return emit(definition, x, axis=position, keepdims=bool(keepdims))
        backward = emit(ops.reverse, x, axes=(position,))
        found = emit(definition, backward, axis=position, keepdims=bool(keepdims))
        return rnp.subtract(x.shape[position] - 1, found)

    return apply


operator("ArgMax")(_search(ops.argmax))
operator("ArgMin")(_search(ops.argmin))


@operator("CumSum")
def cum_sum(x: Any, axis: Static, *, exclusive: int = 0, reverse: int = 0) -> Any:
    position = normalize_axis(int(np.reshape(axis, ())), x.ndim)
    return emit(ops.cumsum, x, axis=position, exclusive=bool(exclusive), reverse=bool(reverse))


@operator("CumProd")
def cum_prod(x: Any, axis: Static, *, exclusive: int = 0, reverse: int = 0) -> Any:
    position = normalize_axis(int(np.reshape(axis, ())), x.ndim)
    x = rnp.flip(x, position) if reverse else x
    if exclusive:
        low = tuple(int(a == position) for a in range(x.ndim))
        kept = emit(ops.narrow, x, axis=position, start=0, length=x.shape[position] - 1)
        x = emit(ops.pad, kept, low=low, high=(0,) * x.ndim, value=1)
    running = rnp.cumprod(x, position)
    return rnp.flip(running, position) if reverse else running


def _flattened(definition: OpDef) -> Any:
    """Below opset 13 all axes from `axis` on count as one."""

    def apply(x: Any, *, axis: int = 1) -> Any:
        split = normalize_axis(axis, x.ndim) if x.ndim else 0
        flat = rnp.reshape(x, (product(x.shape[:split]), product(x.shape[split:])))
        return rnp.reshape(emit(definition, flat, axis=1), x.shape)

    return apply


def _along(definition: OpDef) -> Any:
    def apply(x: Any, *, axis: int = -1) -> Any:
        return emit(definition, x, axis=normalize_axis(axis, x.ndim))

    return apply


for _name, _definition in {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax}.items():
    operator(_name, since=13)(_along(_definition))
    operator(_name)(_flattened(_definition))


@operator("Hardmax", since=13)
def hardmax(x: Any, *, axis: int = -1) -> Any:
    position = normalize_axis(axis, x.ndim)
    best = emit(ops.argmax, x, axis=position, keepdims=True)
    places = positions_along(x.shape[position], position, x.ndim)
    return rnp.astype(rnp.equal(best, places), x.dtype)


@operator("Hardmax")
def hardmax_flattened(x: Any, *, axis: int = 1) -> Any:
    split = normalize_axis(axis, x.ndim)
    flat = rnp.reshape(x, (product(x.shape[:split]), product(x.shape[split:])))
    return rnp.reshape(hardmax(flat, axis=1), x.shape)

"""Arrays made of numbers, and sizes as numbers."""

from __future__ import annotations

import operator
from typing import Any

import rlx.numpy as rnp
from rlx.ir.shape import Dim
from rlx.torch.registry import enter, rule


@rule("full", typed=True)
def full(result: Any, size: Any, value: Any, **_: Any) -> Any:
    return constant(result, size, value)


@rule("full_like", typed=True)
def full_like(result: Any, x: Any, value: Any, **_: Any) -> Any:
    return constant(result, x.shape, value)


@rule(
    "zeros",
    "_efficientzerotensor",
    "empty.memory_format",
    "empty_strided",
    "empty_permuted",
    typed=True,
)
def zeros(result: Any, size: Any, *_: Any, **named: Any) -> Any:
    """Arrays without contents are zeros."""
    del named
    return constant(result, size, 0)


@rule("scalar_tensor", typed=True)
def scalar_tensor(result: Any, value: Any, **_: Any) -> Any:
    return constant(result, (), value)


def constant(result: Any, size: Any, value: Any) -> Any:
    """An array of one number; an extent may be the number."""
    shape = tuple(size)
    if isinstance(value, Dim):
        number = rnp.asarray(extent_number(value)).astype(result.dtype)
        return rnp.broadcast_to(number, shape)
    return rnp.full(shape, value, dtype=result.dtype)


def extent_number(extent: Any) -> Any:
    """Return an extent as an array without axes."""
    return rnp.sum(rnp.ones((extent,), "i64")) if isinstance(extent, Dim) else rnp.asarray(extent)


@rule("arange.start_step", "arange", "arange.start", "prims.iota", typed=True)
def arange(result: Any, *given: Any, **named: Any) -> Any:
    del named
    start, end, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    if not result.dtype.is_differentiable:
        start, step = (int(n) if isinstance(n, float) else n for n in (start, step))
    if isinstance(start, int) and isinstance(step, int):
        (count,) = result.shape
        steps = rnp.arange(count).astype("i64")
        return (steps * step + start).astype(result.dtype)
    del end
    return rnp.asarray(rnp.arange(*result.shape)).astype("f64") * step + start


@rule("prims.iota", typed=True)
def iota(result: Any, length: Any, *, start: Any, step: Any, **_: Any) -> Any:
    return (rnp.arange(length) * step + start).astype(result.dtype)


# Sizes are numbers of the program.

enter({
    "sym_size.int": lambda x, axis: x.shape[axis],
    "sym_numel": lambda x: x.size,
    "operator.getitem": lambda x, i: x[i],
    "operator.mul": operator.mul, "operator.add": operator.add, "operator.sub": operator.sub,
    "operator.floordiv": operator.floordiv, "operator.neg": operator.neg,
    "operator.mod": operator.mod, "operator.truediv": operator.truediv,
    "operator.eq": operator.eq, "operator.ne": operator.ne, "operator.lt": operator.lt,
    "operator.le": operator.le, "operator.gt": operator.gt, "operator.ge": operator.ge,
    "operator.pow": operator.pow, "operator.and_": operator.and_, "operator.or_": operator.or_,
    "math.trunc": int, "torch.sym_float": float, "torch.sym_int": int,
    "torch.sym_max": max, "torch.sym_min": min, "torch.sym_not": operator.not_,
    "torch.sym_ite": lambda condition, x, y: x if condition else y,
    "_local_scalar_dense": lambda x: x,
    "sym_constrain_range_for_size": lambda *_, **__: None,
    "sym_constrain_range": lambda *_, **__: None,
    "_assert_scalar": lambda *_, **__: None, "_assert_async.msg": lambda *_, **__: None,
    "_assert_async": lambda *_, **__: None, "_assert_tensor_metadata": lambda *_, **__: None,
    "_functional_assert_async.msg": lambda x, message, token: token,
    "_make_dep_token": lambda **_: None,
})  # fmt: skip

"""Canonicalization of arithmetic, selection and casts that changes no bit that counts.

Each holds for NaN, infinities and signed zeros, or says for which dtypes it does. A rewrite
may give a more accurate result (`pow(x, 2)` as `x * x`), never a less accurate one. Values
keep their type: a rule that would drop a broadcast does not fire.
"""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.passes.algebra import full
from rlx.passes.rewrite import LocalRewrite, rewrite
from rlx.passes.scalars import (
    is_negative_zero,
    is_nonnegative,
    is_power_of_two,
    number,
    splat,
)


@rewrite(ops.add)
def add_of_zero(node: Node) -> Value | None:
    """For floats -0.0 is the neutral element: -0.0 + 0.0 is 0.0."""
    for kept, other in _either_way(node):
        scalar = number(other)
        neutral = scalar == 0 and (kept.dtype.is_int or is_negative_zero(scalar))
        if neutral and kept.type == node.result.type:
            return kept
    return None


@rewrite(ops.sub)
def sub_of_zero_or_itself(node: Node) -> Value | None:
    left, right = node.operands
    scalar = number(right)
    if scalar == 0 and left.type == node.result.type and not is_negative_zero(scalar):
        return left
    if left is right and left.dtype.is_int:  # inf - inf and NaN - NaN are NaN
        return full(left.graph, left.type, 0)
    return None


@rewrite(ops.mul)
def mul_by_one(node: Node) -> Value | None:
    for kept, other in _either_way(node):
        if number(other) == 1 and kept.type == node.result.type:
            return kept
    return None


@rewrite(ops.mul)
def mul_by_zero(node: Node) -> Value | None:
    """Integers only: 0 * inf and 0 * NaN are NaN, 0 * -1 is -0.0."""
    if any(number(operand) == 0 for operand in node.operands) and node.result.dtype.is_int:
        return full(node.result.graph, node.result.type, 0)
    return None


@rewrite(ops.mul)
def mul_by_minus_one(node: Node) -> Value | None:
    for kept, other in _either_way(node):
        if number(other) == -1 and kept.type == node.result.type:
            return ops.neg(kept)
    return None


@rewrite(ops.div)
def div_by_power_of_two(node: Node) -> Value | None:
    """Both are the same real number rounded once."""
    left, right = node.operands
    scalar = number(right)
    if scalar == 1 and left.type == node.result.type:
        return left
    if scalar is None or not node.result.dtype.is_float or not is_power_of_two(scalar):
        return None
    inverse = full(left.graph, right.type, 1.0 / scalar)
    return ops.mul(left, inverse)


@rewrite(ops.pow)
def pow_of_small_exponent(node: Node) -> Value | None:
    """sqrt(-0.0) and sqrt(-inf) differ from their powers, so 0.5 needs a nonnegative base."""
    base, exponent = node.operands
    scalar = number(exponent)
    if scalar is None or base.type != node.result.type:
        return None
    powered: Value | None = None
    if scalar == 0:
        powered = full(base.graph, base.type, 1)
    elif scalar == 1:
        powered = base
    elif scalar == 2:
        powered = ops.mul(base, base)
    elif scalar == -1 and base.dtype.is_float:
        powered = ops.reciprocal(base)
    elif scalar == 0.5 and is_nonnegative(base):
        powered = ops.sqrt(base)
    return powered


@rewrite(ops.neg, ops.conj, ops.logical_not)
def involution_twice(node: Node) -> Value | None:
    inner = node.operands[0]
    return inner.node.operands[0] if inner.op is node.op else None


@rewrite(ops.abs, ops.relu, ops.stop_gradient, ops.floor, ops.ceil, ops.round, ops.trunc, ops.sign)
def projection_twice(node: Node) -> Value | None:
    inner = node.operands[0]
    return inner if inner.op is node.op else None


@rewrite(ops.abs, ops.square)
def even_function_of_neg(node: Node) -> Value | None:
    inner = node.operands[0]
    if inner.op is not ops.neg:
        return None
    value_map: Value = node.op(inner.node.operands[0])
    return value_map


@rewrite(ops.add, ops.sub)
def sum_with_neg(node: Node) -> Value | None:
    """a + -b is a - b, a - -b is a + b: the same operations by definition of neg."""
    left, right = node.operands
    if right.op is not ops.neg:
        return None
    opposite = ops.sub if node.op is ops.add else ops.add
    combined: Value = opposite(left, right.node.operands[0])
    return combined


@rewrite(ops.where)
def where_of_known_condition(node: Node) -> Value | None:
    condition, chosen, other = node.operands
    known = splat(condition)
    if known is not None:
        picked = chosen if known else other
    elif chosen is other:
        picked = chosen
    else:
        return None
    return picked if picked.type == node.result.type else None


@rewrite(ops.cast)
def cast_to_same_dtype(node: Node) -> Value | None:
    operand = node.operands[0]
    return operand if operand.dtype is node.result.dtype else None


@rewrite(ops.cast)
def cast_of_exact_cast(node: Node) -> Value | None:
    """Skip a widening that loses nothing, where the last step means the same from its source."""
    middle = node.operands[0]
    if middle.op is not ops.cast:
        return None
    start = middle.node.operands[0]
    if not is_lossless(start.dtype, middle.dtype):
        return None
    if not _casts_agree(start.dtype, middle.dtype, node.result.dtype):
        return None
    if start.dtype is node.result.dtype:
        return start
    return ops.cast(start, **node.attrs.as_dict())


@rewrite(ops.cast)
def cast_of_what_it_limits_itself(node: Node) -> Value | None:
    """Casts of floats to integers saturate: they need no limit at or beyond the integers' range."""
    middle, target = node.operands[0], node.result.dtype
    if middle.op not in (ops.minimum, ops.maximum) or not middle.dtype.is_float:
        return None
    if not target.is_int:
        return None
    limits = np.iinfo(target.numpy)
    for kept, other in _either_way(middle.node):
        limit = number(other)
        if limit is None or kept.type != middle.type:
            continue
        if limit >= limits.max if middle.op is ops.minimum else limit <= limits.min:
            return ops.cast(kept, **node.attrs.as_dict())
    return None


def _reads_expanded(node: Node) -> bool:
    return len(node.operands) > 1 and any(o.op is ops.expand for o in node.operands)


@rewrite(having=Trait.ELEMENTWISE, when=_reads_expanded)
def expand_that_broadcasting_repeats(node: Node) -> Value | None:
    """Elementwise ops broadcast by themselves; an expanded operand need not exist."""
    bare = tuple(o.node.operands[0] if o.op is ops.expand else o for o in node.operands)
    for operands in (bare, *_one_at_a_time(node.operands, bare)):
        types = node.op.infer_types(tuple(o.type for o in operands), node.attrs)
        if types == (node.result.type,):
            result: Value = node.result.graph.append(node.op, operands, node.attrs)[0]
            return result
    return None


def is_lossless(source: DType, target: DType) -> bool:
    """True if every value of `source`, NaN and signed zeros included, survives in `target`."""
    if source is target:
        return True
    if source is DType.BOOL:
        return not target.is_complex
    wide = {
        DType.U8: "i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64",
        DType.I8: "i16 i32 i64 f16 bf16 f32 f64",
        DType.I16: "i32 i64 f32 f64",
        DType.I32: "i64 f64",
        DType.U16: "i32 i64 u32 u64 f32 f64",
        DType.U32: "i64 u64 f64",
        DType.F8_E4M3FN: "f16 bf16 f32 f64",
        DType.F8_E5M2: "f16 bf16 f32 f64",
        DType.F16: "f32 f64",
        DType.BF16: "f32 f64",
        DType.F32: "f64",
    }
    return target.value in wide.get(source, "").split()


def _casts_agree(start: DType, middle: DType, end: DType) -> bool:
    """True if casting to `end` treats an equal value of `start` and of `middle` alike.

    Integers wrap where floats saturate, and an integer reaches f16 and bf16 through another
    width than a float does, so a chain may not change sides on its way there.
    """
    if start is end or end is DType.BOOL:
        return True
    if end.is_complex:
        return start.is_float and middle.is_float
    same_side = start.is_float == middle.is_float and start is not DType.BOOL
    if end.is_int or end.is_low_precision:
        return same_side
    return True


def _either_way(node: Node) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    left, right = node.operands
    return (left, right), (right, left)


def _one_at_a_time(full: tuple[Value, ...], bare: tuple[Value, ...]) -> list[tuple[Value, ...]]:
    return [
        (*full[:i], bare[i], *full[i + 1 :]) for i in range(len(full)) if bare[i] is not full[i]
    ]


ARITHMETIC: tuple[LocalRewrite, ...] = (
    add_of_zero,
    sub_of_zero_or_itself,
    mul_by_one,
    mul_by_zero,
    mul_by_minus_one,
    div_by_power_of_two,
    pow_of_small_exponent,
    involution_twice,
    projection_twice,
    even_function_of_neg,
    sum_with_neg,
    where_of_known_condition,
    cast_to_same_dtype,
    cast_of_exact_cast,
    cast_of_what_it_limits_itself,
    expand_that_broadcasting_repeats,
)

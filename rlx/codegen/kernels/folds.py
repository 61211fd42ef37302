"""Folds of reductions: initial accumulators, a combiner of an element, and a final expression."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from rlx.codegen.kernels.values import (
    Complex,
    Scalar,
    compute_prim,
    converted,
    named,
    parts_of,
    real,
    scalar_of,
)
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, binary, const, select
from rlx.codegen.loops.nodes import BinaryOp, Prim
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType

State: TypeAlias = tuple[E, ...]


Element = TypeVar("Element", bound=Scalar | tuple[Scalar, ...])
"""What a fold takes at one position: an element, or one of each operand."""


@dataclass(frozen=True, slots=True)
class FoldOf(Generic[Element]):
    """The fold of a reduction for one dtype.

    `take` adds an element to the accumulators and `join` merges two sets of them. `free_order`
    names the operator of each accumulator if vectors may reorder it.
    """

    names: tuple[str, ...]
    start: State
    take: Callable[[State, Element], State]
    join: Callable[[State, State], State]
    finish: Callable[[State, E], Element]
    free_order: tuple[BinaryOp, ...] | None
    parts: tuple[FoldOf[Any], ...] = ()
    """Of several operands over one pass: the fold of each. Empty for one operand."""

    @property
    def is_rounded_sum(self) -> bool:
        """True if the error grows with the number of elements, so that long ones are chunked."""
        if self.parts:
            return any(fold.is_rounded_sum for fold in self.parts)
        is_sum = self.free_order is not None and self.free_order[0] is BinaryOp.ADD
        return is_sum and self.start[0].type.prim.is_float

    def settle(self, k: KernelBuilder, element: Any) -> Any:
        """Name an element that `take` uses more than once."""
        if self.parts:
            pairs = zip(self.parts, element, strict=True)
            return tuple(fold.settle(k, each) for fold, each in pairs)
        used_once = len(self.names) == 1 and self.free_order is not None
        return element if used_once else named(k, "value", element)


Fold: TypeAlias = FoldOf[Scalar]
"""A fold of one operand."""


def joined(folds: Sequence[Fold]) -> FoldOf[tuple[Scalar, ...]]:
    """Return the fold of several operands at once, its accumulators one after the other."""

    def parts(state: State) -> list[State]:
        ends = list(itertools.accumulate((len(fold.names) for fold in folds), initial=0))
        return [state[start:stop] for start, stop in itertools.pairwise(ends)]

    def take(state: State, element: tuple[Scalar, ...]) -> State:
        triples = zip(folds, parts(state), element, strict=True)
        return tuple(x for fold, part, each in triples for x in fold.take(part, each))

    def join(a: State, b: State) -> State:
        triples = zip(folds, parts(a), parts(b), strict=True)
        return tuple(x for fold, one, other in triples for x in fold.join(one, other))

    def finish(state: State, count: E) -> tuple[Scalar, ...]:
        pairs = zip(folds, parts(state), strict=True)
        return tuple(fold.finish(part, count) for fold, part in pairs)

    orders = [fold.free_order for fold in folds]
    free = [operator for order in orders if order is not None for operator in order]
    return FoldOf(
        names=tuple(name for fold in folds for name in fold.names),
        start=tuple(x for fold in folds for x in fold.start),
        take=take,
        join=join,
        finish=finish,
        free_order=None if None in orders else tuple(free),
        parts=tuple(folds),
    )


def sum_fold(dtype: DType) -> Fold:
    names = ("sum_re", "sum_im") if dtype.is_complex else ("sum",)
    zero = const(0.0 if compute_prim(dtype).is_float else 0, compute_prim(dtype))
    return Fold(
        names,
        (zero,) * len(names),
        lambda state, x: _add(state, parts_of(x)),
        _add,
        lambda state, _: scalar_of(state),
        (BinaryOp.ADD,) * len(names),
    )


def mean_fold(dtype: DType) -> Fold:
    fold = sum_fold(dtype)
    prim = compute_prim(dtype)
    return Fold(
        fold.names,
        fold.start,
        fold.take,
        fold.join,
        lambda state, count: scalar_of(tuple(part / converted(count, prim) for part in state)),
        fold.free_order,
    )


def prod_fold(dtype: DType) -> Fold:
    prim = compute_prim(dtype)
    one = const(1.0 if prim.is_float else 1, prim)
    if not dtype.is_complex:
        return _single("product", one, BinaryOp.MUL)
    return Fold(
        ("product_re", "product_im"),
        (one, const(0.0, prim)),
        lambda state, x: parts_of(Complex(*state) * x),
        lambda a, b: parts_of(Complex(*a) * Complex(*b)),
        lambda state, _: Complex(*state),
        None,
    )


def max_fold(dtype: DType) -> Fold:
    return _extremum("largest", dtype, BinaryOp.MAX)


def min_fold(dtype: DType) -> Fold:
    return _extremum("smallest", dtype, BinaryOp.MIN)


def peak_fold(dtype: DType) -> Fold:
    """A maximum for kernels whose result is NaN anyway where the slice holds a NaN."""
    prim = compute_prim(dtype)
    return _single("peak", const(least(prim), prim), BinaryOp.MAX)


def _extremum(name: str, dtype: DType, op: BinaryOp) -> Fold:
    prim = compute_prim(dtype)
    if prim is Prim.BOOL:
        start = const(op is BinaryOp.MIN, prim)
        return _single(name, start, BinaryOp.AND if op is BinaryOp.MIN else BinaryOp.OR)
    start = const(least(prim) if op is BinaryOp.MAX else greatest(prim), prim)
    return _float_extremum(name, start, op) if prim.is_float else _single(name, start, op)


def _float_extremum(name: str, start: E, op: BinaryOp) -> Fold:
    """Hardware max and min drop a NaN, so that one is noted in a flag of equal width.

    Both accumulators then vectorize; a select on every element would not.
    """
    prim = start.type.prim
    flag = Prim.I32 if prim is Prim.F32 else Prim.I64

    def take(state: State, x: Scalar) -> State:
        value = real(x)
        return binary(op, state[0], value), state[1] | value.ne(value).cast(flag)

    return Fold(
        (name, "has_nan"),
        (start, const(0, flag)),
        take,
        lambda a, b: (binary(op, a[0], b[0]), a[1] | b[1]),
        lambda state, _: select(state[1].ne(0), const(float("nan"), prim), state[0]),
        (op, BinaryOp.OR),
    )


def across_columns(fold: Fold) -> Fold:
    """Return the fold for accumulators in memory: one array is better than a second for NaNs."""
    if fold.names[1:] != ("has_nan",):
        return fold
    (start, _), (op, _) = fold.start, fold.free_order or ()

    def join(a: State, b: State) -> State:
        value = b[0]
        beats = value > a[0] if op is BinaryOp.MAX else value < a[0]
        return (select(beats | value.ne(value), value, a[0]),)

    return Fold(
        fold.names[:1],
        (start,),
        lambda state, x: join(state, (real(x),)),
        join,
        lambda state, _: state[0],
        None,
    )


def _single(name: str, start: E, op: BinaryOp) -> Fold:
    def join(a: State, b: State) -> State:
        return (binary(op, a[0], b[0]),)

    return Fold(
        (name,),
        (start,),
        lambda state, x: join(state, (real(x),)),
        join,
        lambda state, _: state[0],
        (op,),
    )


def least(prim: Prim) -> int | float:
    """Return the smallest value of a machine type: what a maximum starts from."""
    if prim.is_float:
        return float("-inf")
    return 0 if prim.is_unsigned else -(1 << (prim.size * 8 - 1))


def greatest(prim: Prim) -> int | float:
    """Return the largest value of a machine type: what a minimum starts from."""
    if prim.is_float:
        return float("inf")
    return (1 << (prim.size * 8 - (0 if prim.is_unsigned else 1))) - 1


def _add(a: Sequence[E], b: Sequence[E]) -> State:
    return tuple(x + y for x, y in zip(a, b, strict=True))


FOLDS: dict[str, Callable[[DType], Fold]] = {
    "reduce_sum": sum_fold,
    "reduce_mean": mean_fold,
    "reduce_prod": prod_fold,
    "reduce_max": max_fold,
    "reduce_min": min_fold,
}

"""How far results may be off: by roundings, and by what roundings change in what follows.

The bounds come one after the other, and the dear ones only for results that the cheap ones do
not explain: a number of roundings of the largest element; what nudged inputs change; what
other roundings of every op change, which part values that are equal in the reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from rlx.errors import RlxError
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.reference import evaluate
from rlx.ir.reference.registry import Change, apply_op, changing_results, reference
from tests.fuzz.program import Array

Trial: TypeAlias = Callable[[Graph, Sequence[Array], float, Sequence[int]], list[Array] | None]
"""Gives a program's results with something changed, by a seed."""

_EPSILON = {
    **{"f64": 2.3e-16, "f32": 1.2e-7, "f16": 1e-3, "bf16": 8e-3},
    **{"c128": 2.3e-16, "c64": 1.2e-7},
}
_ROUNDINGS = 400.0
"""How many roundings of its largest element a result may be off by, besides its condition."""
_NUDGE = 16.0
"""Roundings by which inputs are off."""
_ERROR = 4.0
"""Roundings by which each op is off: functions of the back ends are as good, or better."""
_TERMS = 4000.0
"""How many terms of a sum double that: a lane of a vector adds an eighth of them in order."""
_SAFETY = 4.0
"""How much further an element may be off than the largest change of the trials."""
_POLE = 1 / 16
"""Inverse roundings: as large is the inverse of what is itself nothing but roundings."""


def bounds(
    graph: Graph, arrays: Sequence[Array], expected: Sequence[Array], seed: int
) -> Iterator[list[Array]]:
    """Yield how far each element of the results may be off, ever more; a constant part first."""
    epsilon = max((_EPSILON.get(dtype, 0.0) for dtype in _dtypes(graph)), default=0.0)
    base = [np.full(y.shape, _ROUNDINGS * _epsilon(y, epsilon) * _scale(y)) for y in expected]
    yield base
    changes = [np.zeros(np.shape(y)) for y in expected]
    for number, (changed, trials) in enumerate(_STAGES):
        for trial in range(trials):
            others = changed(graph, arrays, epsilon, [seed, number, trial])
            if others is not None:
                changes = [_larger(*each) for each in zip(changes, expected, others, strict=True)]
        allowed = [_SAFETY * change + least for change, least in zip(changes, base, strict=True)]
        yield [_with_poles(y, bound, epsilon) for y, bound in zip(expected, allowed, strict=True)]


def _with_poles(y: Array, bound: Array, epsilon: float) -> Array:
    """Bound nothing that is the inverse of a rounding, 1e15 or infinite or of the other sign."""
    sizes = np.abs(wide(y))
    return np.where((sizes * _epsilon(y, epsilon) >= _POLE) & (bound >= sizes), np.inf, bound)


def _nudged(
    graph: Graph, arrays: Sequence[Array], epsilon: float, seed: Sequence[int]
) -> list[Array] | None:
    return _evaluated(graph, [nudge(x, epsilon, seed) for x in arrays])


def _rounded_otherwise(
    graph: Graph,
    arrays: Sequence[Array],
    _: float,
    seed: Sequence[int],
    error: float = _ERROR,
    *,
    cancels: bool = False,
) -> list[Array] | None:
    with changing_results(other_roundings(seed, error, cancels=cancels)):
        return _evaluated(graph, arrays)


_STAGES: tuple[tuple[Trial, int], ...] = (
    (_nudged, 3),
    (_rounded_otherwise, 3),
    (_rounded_otherwise, 12),
    (functools.partial(_rounded_otherwise, error=1.0), 48),
    (functools.partial(_rounded_otherwise, cancels=True), 12),
)
"""What is changed for each bound after the first, and how often.

Three trials may all have moved one of many elements by little, so what they do not explain is
tried more often. Two numbers a rounding apart, which `==` distinguishes from equal ones, seldom
occur among errors of four roundings; among errors of one they do. Where large terms cancel, as in a
transform whose exact result is 0, what is left has their error.
"""


def _evaluated(graph: Graph, arrays: Sequence[Array]) -> list[Array] | None:
    feeds = {str(v.node.name): x for v, x in zip(graph.inputs, arrays, strict=True)}
    try:
        return evaluate(graph, feeds)
    except RlxError:
        return None


def nudge(x: Array, epsilon: float, seed: Sequence[int]) -> Array:
    """Return floats off by some roundings, the others as they are."""
    return _off(x, _NUDGE * epsilon, np.random.default_rng(seed))


def other_roundings(seed: Sequence[int], error: float = _ERROR, *, cancels: bool = False) -> Change:
    """Return what gives ops that round other roundings; those that are exact stay exact."""
    random = np.random.default_rng(seed)

    def change(
        definition: OpDef, operands: Sequence[Array], attrs: Attrs, results: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        terms = _largest_term(definition, operands) if cancels else 0.0
        if definition.has(Trait.EXACT) or (reference.is_exact(definition) and not terms):
            return results
        if not definition.has(Trait.ELEMENTWISE):
            overflows = _of_finite(definition, operands, attrs, results)
            results = tuple(map(_in_other_order, results, overflows))
        most = error * (1 + _most_terms(definition, operands) / _TERMS)
        return tuple(_off(x, most * _EPSILON.get(_name(x), 0.0), random, terms) for x in results)

    return change


def _of_finite(
    definition: OpDef, operands: Sequence[Array], attrs: Attrs, results: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Return an op's results with 0 for each element of its operands that is not finite."""
    finite = [np.where(np.isfinite(wide(x)), x, 0).astype(x.dtype) for x in operands]
    if all(map(np.array_equal, finite, operands)):
        return results
    with changing_results(None):
        return apply_op(definition, finite, attrs)


def _in_other_order(x: Array, of_finite: Array) -> Array:
    """Return what finite terms or factors make without overflow, which depends on their order."""
    overflows = ~np.isfinite(wide(x)) & ~np.isfinite(wide(of_finite))
    return np.where(overflows, 0, x).astype(x.dtype)


def _most_terms(definition: OpDef, operands: Sequence[Array]) -> int:
    """Return how many elements an op may add up for one of its result."""
    if definition.has(Trait.ELEMENTWISE):
        return 1
    return max((x.size for x in operands), default=1)


def _largest_term(definition: OpDef, operands: Sequence[Array]) -> float:
    """Return the size of what an op adds up; 0 for one that does not, or element by element."""
    if definition.has(Trait.ELEMENTWISE) or definition.has(Trait.MOVEMENT):
        return 0.0
    sizes = [_size(x) for x in operands if _name(x) in _EPSILON]
    if definition.has(Trait.BILINEAR) or definition.has(Trait.CONTRACTION):
        return math.prod(sizes)
    return max(sizes, default=0.0) if definition.has(Trait.LINEAR) else 0.0


def _off(x: Array, most: float, random: np.random.Generator, terms: float = 0.0) -> Array:
    """Return floats off by `most` of themselves, and of the largest of them and of `terms`.

    The sign of a NaN that was computed is anybody's.
    """
    if _name(x) not in _EPSILON:
        return x
    moved = wide(x) * (1 + most * random.uniform(-1, 1, x.shape))
    if terms:
        moved = moved + most * max(terms, _size(x)) * random.uniform(-1, 1, x.shape)
        if x.dtype.kind == "c":
            moved = moved + most * max(terms, _size(x)) * 1j * random.uniform(-1, 1, x.shape)
    if x.dtype.kind != "c":
        signs = random.uniform(-1, 1, x.shape)
        moved = np.where(np.isnan(moved), np.copysign(moved, signs), moved)
    return np.asarray(moved).astype(x.dtype)


def _name(x: Array) -> str:
    """Return the name of a dtype, also of those that only intermediate values have."""
    return as_dtype(x.dtype).value


def wide(x: Array) -> Array:
    return np.asarray(x, np.complex128 if x.dtype.kind == "c" else np.float64)


def _dtypes(graph: Graph) -> Iterator[str]:
    return (value.type.dtype.value for node in graph.nodes for value in node.results)


def _epsilon(y: Array, epsilon: float) -> float:
    return epsilon if _name(y) in _EPSILON else 0.0


def _scale(y: Array) -> float:
    return max(1.0, _size(y))


def _size(x: Array) -> float:
    """Return the largest size of a finite element."""
    sizes = np.abs(wide(x))
    finite = sizes[np.isfinite(sizes)]
    return float(finite.max()) if finite.size else 0.0


def _larger(change: Array, y: Array, other: Array) -> Array:
    a, b = wide(y), wide(other)
    same = (a == b) | ((a != a) & (b != b))
    moved = np.where(same, 0.0, np.abs(a - b))
    return np.maximum(change, np.where(np.isnan(moved), np.inf, moved))

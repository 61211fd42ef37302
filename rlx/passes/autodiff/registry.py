"""Derivative rules: one fact per op serves forward and reverse mode.

    derivative(ops.tanh, lambda y, x: 1 - y * y)           # elementwise partials
    differential(ops.div, lambda v, y, a, b: v / b, ...)   # v -> partial * v, where it is better
    linear(ops.transpose, transpose_vjp)                   # tangent: the op itself
    bilinear(ops.matmul, matmul_left, matmul_right)
    @jvp(ops.reduce_max) / @vjp(ops.gather)                # any other op: either one is enough
    zero(ops.floor, because="piecewise constant")
    nondifferentiable(ops.x, because="...")

What an op does not say is derived (`sweep`): a composite through its formula, reverse mode
by transposing the tangent's linear graph, forward mode by transposing the pullback twice.

Cotangents `g` pair with tangents `t` by a real inner product: `sum g*t` for real values
and `sum 2*Re(conj(g)*t)` for complex ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.registry import Registry
from rlx.passes.algebra import conjugate, expand_to, unbroadcast, under_mask, zeros
from rlx.passes.autodiff.derived import Decline
from rlx.passes.autodiff.derived import Derivatives as Derivatives


@dataclass(frozen=True, slots=True)
class Pullback:
    """Context of a reverse rule: cotangents, results, wanted operands."""

    graph: Graph
    results: tuple[Value, ...]
    cotangents: tuple[Value | None, ...]
    wanted: tuple[bool, ...]
    """Which operands need a cotangent; a rule skips the others."""

    @property
    def result(self) -> Value:
        (result,) = self.results
        return result

    @property
    def cotangent(self) -> Value:
        """The cotangent of the only result."""
        (cotangent,) = self.cotangents
        assert cotangent is not None  # a node without any is never visited
        return cotangent


@dataclass(frozen=True, slots=True)
class Pushforward:
    """Context of a forward rule: tangents, results."""

    graph: Graph
    results: tuple[Value, ...]
    tangents: tuple[Value | None, ...]

    @property
    def result(self) -> Value:
        (result,) = self.results
        return result

    @property
    def tangent(self) -> Value:
        """The tangent of the first operand, for ops where no other carries one."""
        tangent = self.tangents[0]
        assert tangent is not None  # a node without any is never visited
        return tangent


VjpRule: TypeAlias = Callable[..., Derivatives]
"""`(at: Pullback, *operands, **attributes) -> a cotangent per operand`."""
JvpRule: TypeAlias = Callable[..., Derivatives]
"""`(at: Pushforward, *operands, **attributes) -> a tangent per result`.

Both may return `BY_FORMULA` to leave a case to the op's formula.
"""
LinearMap: TypeAlias = Callable[..., Value]
"""`(v, result, *operands, **attributes) -> partial * v`."""


class Fact(Protocol):
    """A derivative that serves both modes."""

    def vjp(self, at: Pullback, *operands: Value, **attributes: Any) -> Derivatives: ...

    def jvp(self, at: Pushforward, *operands: Value, **attributes: Any) -> Derivatives: ...


BY_FORMULA = Decline.BY_FORMULA

vjp: Registry[VjpRule] = Registry("vjp")
jvp: Registry[JvpRule] = Registry("jvp")
facts: Registry[Fact] = Registry("derivative")
zeros_everywhere: Registry[None] = Registry("zero derivative")
straight_through: Registry[None] = Registry("straight-through")
"""Ops whose i8 results carry f32 cotangents and tangents."""


@dataclass(frozen=True, slots=True)
class Differential:
    """Per operand, the multiplication by a partial; `None` where the partial is zero."""

    maps: tuple[LinearMap | None, ...]

    def vjp(self, at: Pullback, *operands: Value, **attributes: Any) -> Derivatives:
        def pull(map: LinearMap, operand: Value) -> Value:
            def multiply(g: Value) -> Value:
                return conjugate(map(conjugate(g), at.result, *operands, **attributes))

            return unbroadcast(under_mask(multiply, at.cotangent), operand.shape)

        return [
            pull(map, operand) if map is not None and wanted else None
            for map, operand, wanted in zip(self.maps, operands, at.wanted, strict=True)
        ]

    def jvp(self, at: Pushforward, *operands: Value, **attributes: Any) -> Derivatives:
        total: Value | None = None
        for map, tangent in zip(self.maps, at.tangents, strict=True):
            if map is not None and tangent is not None:
                term = map(tangent, at.result, *operands, **attributes)
                total = term if total is None else total + term
        return None if total is None else expand_to(total, at.result.shape)


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear jointly in all floating operands but the `fixed` ones (indices may be f32)."""

    definition: OpDef
    transpose: VjpRule
    fixed: tuple[int, ...]
    tangent_attributes: dict[str, Any]
    """Attributes that differ for tangents: an additive constant that drops out."""

    def vjp(self, at: Pullback, *operands: Value, **attributes: Any) -> Derivatives:
        return self.transpose(at, *operands, **attributes)

    def jvp(self, at: Pushforward, *operands: Value, **attributes: Any) -> Derivatives:
        tangents = [None if i in self.fixed else t for i, t in enumerate(at.tangents)]
        if all(tangent is None for tangent in tangents):
            return None
        moved = [
            operand if i in self.fixed else _tangent_or_zero(at.graph, tangent, operand)
            for i, (tangent, operand) in enumerate(zip(tangents, operands, strict=True))
        ]
        result: Derivatives = self.definition(*moved, **(attributes | self.tangent_attributes))
        return result


@dataclass(frozen=True, slots=True)
class Bilinear:
    """Linear in the first two operands; `left` and `right` take `(g, *operands)`."""

    definition: OpDef
    left: Callable[..., Value]
    right: Callable[..., Value]

    def vjp(self, at: Pullback, *operands: Value, **attributes: Any) -> Derivatives:
        sides = [
            side(at.cotangent, *operands, **attributes) if wanted else None
            for side, wanted in zip((self.left, self.right), at.wanted, strict=False)
        ]
        return [*sides, *[None] * (len(operands) - len(sides))]

    def jvp(self, at: Pushforward, *operands: Value, **attributes: Any) -> Derivatives:
        total: Value | None = None
        for index, tangent in enumerate(at.tangents):
            if tangent is not None:
                moved = (*operands[:index], tangent, *operands[index + 1 :])
                term = self.definition(*moved, **attributes)
                total = term if total is None else total + term
        return total


def derivative(definition: OpDef, *partials: Callable[..., Value | float] | None) -> Differential:
    """Register elementwise partials: per operand, a function of result, operands, attributes."""
    return differential(definition, *(None if p is None else _multiplication(p) for p in partials))


def differential(definition: OpDef, *maps: LinearMap | None) -> Differential:
    """Register, per operand, the linear map `v -> partial * v`.

    For an op of one operand the partial may be any symmetric matrix (softmax).
    """
    fact = Differential(maps)
    facts.register(definition, fact)
    return fact


def linear(
    definition: OpDef, transpose: VjpRule, *, fixed: tuple[int, ...] = (), **tangent_attributes: Any
) -> None:
    """Register an op that is its own tangent, with its transpose as reverse rule."""
    facts.register(definition, Linear(definition, transpose, fixed, tangent_attributes))


def bilinear(definition: OpDef, left: Callable[..., Value], right: Callable[..., Value]) -> None:
    """Register an op that is linear in each operand, with the cotangent of either."""
    facts.register(definition, Bilinear(definition, left, right))


def zero(*definitions: OpDef, because: str) -> None:
    """Declare ops through which no derivative flows."""
    zeros_everywhere.absent(*definitions, because=because)


def nondifferentiable(*definitions: OpDef, because: str) -> None:
    """Declare ops whose derivative does not exist: asking for it is an error."""
    facts.absent(*definitions, because=because)


def is_covered(definition: OpDef) -> bool:
    """Whether the op has a derivative, a declared zero, or a reason to have neither."""
    registries = (vjp, jvp, facts, straight_through)
    declared = zeros_everywhere.reason(definition) or facts.reason(definition)
    known = any(definition in registry for registry in registries)
    return known or declared is not None or definition.decompose is not None


def _tangent_or_zero(graph: Graph, tangent: Value | None, operand: Value) -> Value:
    if tangent is not None:
        return tangent
    return zeros(graph, operand.type) if operand.dtype.is_differentiable else operand


def _multiplication(partial: Callable[..., Value | float]) -> LinearMap:
    def multiply(v: Value, *given: Value, **attributes: Any) -> Value:
        return v * partial(*given, **attributes)

    return multiply

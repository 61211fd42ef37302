"""Dependence analysis by affine forms: which loop iterations touch which elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Expr, Load, Var
from rlx.codegen.loops.visit import walk_expression
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum(coefficient * term)` over variables and other pure expressions."""

    terms: frozenset[tuple[Expr, int]] = frozenset()
    """No coefficient is 0, and no term occurs twice."""
    constant: int = 0

    def coefficient(self, name: str) -> int:
        """Return how far the form moves with a variable."""
        return next((c for t, c in self.terms if isinstance(t, Var) and t.name == name), 0)

    def without(self, *names: str) -> Affine:
        """Return the form without the terms of some variables."""
        kept = (p for p in self.terms if not (isinstance(p[0], Var) and p[0].name in names))
        return Affine(frozenset(kept), self.constant)

    def minus(self, other: Affine) -> Affine:
        return _combined(self, other, -1)

    @property
    def names(self) -> set[str]:
        """The variables that the form reads."""
        parts = (part for term, _ in self.terms for part in walk_expression(term))
        return {part.name for part in parts if isinstance(part, Var)}


@dataclass(slots=True)
class Forms:
    """Turns index expressions into affine forms, looking through the lets in `definitions`."""

    definitions: Mapping[str, Expr] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    """Variables that may be assigned: no form holds one."""
    _known: dict[str, Affine] = field(default_factory=dict)

    def of(self, expr: Expr) -> Affine | None:
        """Return the form of an integer expression; None if its value may change."""
        match expr:
            case Const(value, _):
                return Affine(constant=int(value))
            case Var(name, _):
                return self._variable(expr, name)
            case Binary(BinaryOp.ADD | BinaryOp.SUB as op, a, b):
                left, right = self.of(a), self.of(b)
                if left is None or right is None:
                    return None
                return _combined(left, right, 1 if op is BinaryOp.ADD else -1)
            case Binary(BinaryOp.MUL, a, b):
                return self._product(expr, a, b)
            case _:
                return self._atom(expr)

    def _variable(self, expr: Var, name: str) -> Affine | None:
        if name in self.changing:
            return None
        if name not in self.definitions:
            return Affine(frozenset([(expr, 1)]))
        if name not in self._known:
            form = self.of(self.definitions[name])
            self._known[name] = Affine(frozenset([(expr, 1)])) if form is None else form
        return self._known[name]

    def _product(self, expr: Expr, a: Expr, b: Expr) -> Affine | None:
        left, right = self.of(a), self.of(b)
        if left is None or right is None:
            return None
        if not left.terms:
            left, right = right, left
        return self._atom(expr) if right.terms else _scaled(left, right.constant)

    def _atom(self, expr: Expr) -> Affine | None:
        """Let an expression be a term of its own."""
        for part in walk_expression(expr):
            if isinstance(part, Load) or (isinstance(part, Var) and part.name in self.changing):
                return None
        return Affine(frozenset([(expr, 1)]))


def _scaled(form: Affine, factor: int) -> Affine:
    if factor == 0:
        return Affine()
    terms = frozenset((term, c * factor) for term, c in form.terms)
    return Affine(terms, form.constant * factor)


def _combined(a: Affine, b: Affine, sign: int) -> Affine:
    total = dict(a.terms)
    for term, coefficient in b.terms:
        total[term] = total.get(term, 0) + sign * coefficient
    terms = frozenset((term, c) for term, c in total.items() if c)
    return Affine(terms, a.constant + sign * b.constant)

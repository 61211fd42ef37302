"""Value numbering of scalar expressions: equal values are one node, and what is known is folded.

    numbers = ValueNumbers()
    numbers.of(numbers.zero(Prim.F32) * x + y)       # y: the zero is structural
    numbers.of(x * 1.0) is numbers.of(x)             # True

Rewrites keep every bit, NaN and infinities included, but for *structural* zeros: absent entries,
such as those of a unit vector that a derivative is taken along. A product with one is one, and it
adds nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any

import numpy as np

from rlx.codegen.loops.evaluate import evaluate
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Fma,
    Function,
    Load,
    Prim,
    Select,
    Unary,
    UnaryOp,
    ValueType,
    Var,
)
from rlx.codegen.loops.visit import operands, with_operands
from rlx.dataclass import dataclass

_ABSENT = "structural zero"


@dataclass(slots=True)
class ValueNumbers:
    """The distinct values of straight-line code, in the order in which they are first computed."""

    _known: dict[tuple[Any, ...], Expr] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    """Order of the nodes that are values, by identity."""
    _ordered: list[Expr] = field(default_factory=list)
    _visited: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)
    """The values of nodes that are none themselves, by identity: each is visited once."""

    def __len__(self) -> int:
        return len(self._ordered)

    def since(self, number: int) -> list[Expr]:
        """Return the values from `number` on."""
        return self._ordered[number:]

    def of(self, value: E) -> E:
        """Return the value that an expression has, simplified."""
        return E(self._visit(value.node), value.type)

    def zero(self, prim: Prim) -> E:
        """Return the structural zero of a type."""
        return E(self._intern(Const(0.0, ValueType(prim), _ABSENT)))

    def number(self, node: Expr) -> int:
        """Return when a value was first computed; later ones have greater numbers."""
        return self._numbers[id(node)]

    def _visit(self, node: Expr) -> Expr:
        if id(node) in self._numbers:
            return node
        _, found = self._visited.get(id(node), (node, None))
        if found is None:
            parts = operands(node)
            read = with_operands(node, tuple(map(self._visit, parts))) if parts else node
            found = self._make(read)
            self._visited[id(node)] = node, found
        return found

    def _make(self, node: Expr) -> Expr:
        """Return the value of a node over values."""
        if node.type.lanes == 1 and not isinstance(node, Load):
            rule = _RULES.get(type(node))
            simpler = None if rule is None else rule(node)
            if simpler is None:
                simpler = _folded(node)
            if simpler is not None:
                return self._visit(simpler)
            node = self._without_absent(node)
        return self._intern(node)

    def _without_absent(self, node: Expr) -> Expr:
        """Return a node that reads plain zeros for structural ones."""
        parts = operands(node)
        if not any(map(is_absent, parts)):
            return node
        zeros = (self._intern(Const(0.0, part.type)) if is_absent(part) else part for part in parts)
        return with_operands(node, tuple(zeros))

    def _intern(self, node: Expr) -> Expr:
        key = self._key(node)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = node
            self._numbers[id(node)] = len(self._ordered)
            self._ordered.append(node)
        return found

    def _key(self, node: Expr) -> tuple[Any, ...]:
        if isinstance(node, Const):
            return Const, node.type, repr(node.value), node.name == _ABSENT
        if isinstance(node, Var):
            return Var, node.name
        parts = [self._numbers[id(part)] for part in operands(node)]
        if isinstance(node, Binary) and node.op in _COMMUTE:
            parts.sort()
        kind: type[Any] = type(node)
        own = (getattr(node, name) for name in _own_fields(kind))
        return kind, *(id(x) if isinstance(x, Function) else x for x in own), *parts


_COMMUTE = (BinaryOp.ADD, BinaryOp.MUL)
_TOTAL = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
_EXPRESSIONS = ("Expr", "tuple[Expr, ...]")


_OWN_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def _own_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a kind of expression that hold no other expressions."""
    found = _OWN_FIELDS.get(kind)
    if found is None:
        found = tuple(f.name for f in fields(kind) if f.type not in _EXPRESSIONS)
        _OWN_FIELDS[kind] = found
    return found


def is_absent(node: Expr) -> bool:
    """True for a structural zero."""
    return isinstance(node, Const) and node.name == _ABSENT


def _folded(node: Expr) -> Expr | None:
    """Return an expression of literals folded to a literal."""
    parts = operands(node)
    if not parts or not all(isinstance(part, Const) for part in parts) or _may_be_undefined(node):
        return None
    with np.errstate(all="ignore"):
        value = evaluate(node, {}).item()
    return Const(value, node.type)


def _may_be_undefined(node: Expr) -> bool:
    """True for integers that some operands have no result of: quotients, shifts, conversions."""
    return node.type.prim.is_int and not (
        (isinstance(node, Binary) and node.op in _TOTAL) or isinstance(node, Bitcast)
    )


def _is_number(node: Expr, value: float) -> bool:
    return isinstance(node, Const) and node.type.prim.is_float and node.value == value


def _negated(node: Expr) -> Expr | None:
    """Return what `node` is the negative of, if that is free."""
    if isinstance(node, Unary) and node.op is UnaryOp.NEG:
        return node.x
    if isinstance(node, Const) and node.type.prim.is_float and node.value < 0:
        return Const(-node.value, node.type)
    return None


def _negative(node: Expr) -> Expr:
    return Unary(UnaryOp.NEG, node)


def _simpler_binary(node: Binary) -> Expr | None:
    rule = _BINARY.get(node.op) if node.type.prim.is_float else None
    return None if rule is None else rule(node.a, node.b)


def _sum(a: Expr, b: Expr) -> Expr | None:
    for one, other in ((a, b), (b, a)):
        if is_absent(other):
            return one
        inner = _negated(other)
        if inner is not None:
            return Binary(BinaryOp.SUB, one, inner)
    return None


def _difference(a: Expr, b: Expr) -> Expr | None:
    if is_absent(b) or (_is_number(b, 0.0) and math.copysign(1.0, _value(b)) > 0):
        return a
    if is_absent(a):
        return _negative(b)
    inner = _negated(b)
    return None if inner is None else Binary(BinaryOp.ADD, a, inner)


def _product(a: Expr, b: Expr) -> Expr | None:
    for one, other in ((a, b), (b, a)):
        if is_absent(one):
            return one
        if _is_number(one, 1.0):
            return other
        inner = _negated(one)
        if inner is not None:
            return _negative(Binary(BinaryOp.MUL, inner, other))
    return None


def _quotient(a: Expr, b: Expr) -> Expr | None:
    if (is_absent(a) and not is_absent(b)) or _is_number(b, 1.0):
        return a
    inner = _negated(a)
    if inner is not None and not isinstance(a, Const):
        return _negative(Binary(BinaryOp.DIV, inner, b))
    if isinstance(b, Const) and _has_exact_reciprocal(_value(b)):
        return Binary(BinaryOp.MUL, a, Const(1 / _value(b), b.type))
    return None


def _has_exact_reciprocal(value: float) -> bool:
    """True for powers of two that are far from overflow."""
    return abs(math.frexp(value)[0]) == 0.5 and 2.0**-100 < abs(value) < 2.0**100


_BINARY: dict[BinaryOp, Callable[[Expr, Expr], Expr | None]] = {
    BinaryOp.ADD: _sum,
    BinaryOp.SUB: _difference,
    BinaryOp.MUL: _product,
    BinaryOp.DIV: _quotient,
}


def _value(node: Expr) -> float:
    assert isinstance(node, Const)
    return float(node.value)


def _simpler_unary(node: Unary) -> Expr | None:
    if is_absent(node.x):
        return node.x if node.op is not UnaryOp.NOT else None
    if node.op is UnaryOp.NEG and isinstance(node.x, Unary) and node.x.op is UnaryOp.NEG:
        return node.x.x
    return None


def _simpler_cast(node: Cast) -> Expr | None:
    floats = node.prim.is_float and is_absent(node.x)
    return Const(0.0, ValueType(node.prim), _ABSENT) if floats else None


def _simpler_select(node: Select) -> Expr | None:
    if node.a is node.b:
        return node.a
    if isinstance(node.condition, Const):
        return node.a if node.condition.value else node.b
    a, b = _given(node.a, node.condition, True), _given(node.b, node.condition, False)
    return None if a is node.a and b is node.b else Select(node.condition, a, b)


def _given(node: Expr, condition: Expr, value: bool, depth: int = 2) -> Expr:
    """Return what arithmetic computes where a condition has a value, without selects by it."""
    if isinstance(node, Select) and node.condition is condition:
        return node.a if value else node.b
    if not depth or not isinstance(node, Binary | Unary | Fma):
        return node
    parts = operands(node)
    found = tuple(_given(part, condition, value, depth - 1) for part in parts)
    return node if all(map(operator.is_, found, parts)) else with_operands(node, found)


def _simpler_compare(node: Compare) -> Expr | None:
    """Return that the root of a number is not zero where one that is not positive has none.

    So are pivots of Cholesky's factors, by which triangular systems are divided.
    """
    x = node.a
    if node.op is not CompareOp.EQ or not _is_number(node.b, 0.0) or not isinstance(x, Select):
        return None
    has_root = isinstance(x.b, Unary) and x.b.op is UnaryOp.SQRT
    is_nan = isinstance(x.a, Const) and math.isnan(x.a.value)
    if not has_root or not is_nan or not isinstance(x.condition, Compare):
        return None
    tested = x.condition
    excludes_zero = tested.op is CompareOp.LE and _is_number(tested.b, 0.0)
    is_same = isinstance(x.b, Unary) and tested.a is x.b.x
    return Const(False, node.type) if excludes_zero and is_same else None


def _simpler_fma(node: Fma) -> Expr | None:
    """Return the sum or product that is left; one rounding is the same as that of an exact term."""
    if is_absent(node.a) or is_absent(node.b):
        return node.c
    if is_absent(node.c):
        return Binary(BinaryOp.MUL, node.a, node.b)
    for one, other in ((node.a, node.b), (node.b, node.a)):
        if _is_number(one, 1.0):
            return Binary(BinaryOp.ADD, other, node.c)
        if _is_number(one, -1.0):
            return Binary(BinaryOp.SUB, node.c, other)
    return None


_RULES: dict[type[Any], Callable[[Any], Expr | None]] = {
    Binary: _simpler_binary,
    Unary: _simpler_unary,
    Cast: _simpler_cast,
    Select: _simpler_select,
    Compare: _simpler_compare,
    Fma: _simpler_fma,
}

"""Elementwise arithmetic on c64, as pairs of f32 expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlx.codegen.kernels.values import Complex, Scalar, real
from rlx.codegen.loops.expr import E, const, maximum, select
from rlx.codegen.loops.nodes import Prim, UnaryOp
from rlx.codegen.loops.scalar import scalar_expression
from rlx.errors import InternalError

Rule: TypeAlias = Callable[..., Scalar]

RULES: dict[str, Rule] = {}
"""Op name -> element of the result, from elements of the operands."""


def rule(name: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return register


def complex_element(name: str, operands: Sequence[Scalar]) -> Scalar:
    """Return the element that op `name` computes where an operand or the result is c64."""
    if name not in RULES:
        raise InternalError(f"op {name} has no c64 kernel")
    return RULES[name](*operands)


def as_complex(value: Scalar) -> Complex:
    """Return `value` with a zero imaginary part if it is real."""
    if isinstance(value, Complex):
        return value
    return Complex(value.cast(Prim.F32), const(0.0, Prim.F32))


@rule("add")
def add(a: Complex, b: Complex) -> Complex:
    return Complex(a.re + b.re, a.im + b.im)


@rule("sub")
def sub(a: Complex, b: Complex) -> Complex:
    return Complex(a.re - b.re, a.im - b.im)


@rule("mul")
def mul(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@rule("div")
def div(a: Complex, b: Complex) -> Complex:
    norm = complex_norm_sq(b)
    return Complex(
        (a.re * b.re + a.im * b.im) / norm,
        (a.im * b.re - a.re * b.im) / norm,
    )


@rule("square")
def square(z: Complex) -> Complex:
    return mul(z, z)


@rule("reciprocal")
def reciprocal(z: Complex) -> Complex:
    norm = complex_norm_sq(z)
    return Complex(z.re / norm, -z.im / norm)


@rule("neg")
def neg(z: Complex) -> Complex:
    return Complex(-z.re, -z.im)


@rule("conj")
def conj(z: Complex) -> Complex:
    return Complex(z.re, -z.im)


@rule("real")
def real_part(z: Complex) -> E:
    return z.re


@rule("imag")
def imaginary_part(z: Complex) -> E:
    return z.im


@rule("complex")
def from_parts(re: E, im: E) -> Complex:
    return Complex(re, im)


@rule("complex_norm_sq")
def complex_norm_sq(z: Complex) -> E:
    return z.re * z.re + z.im * z.im


@rule("exp")
def exp(z: Complex) -> Complex:
    scale = _call("exp", z.re)
    return Complex(scale * _call("cos", z.im), scale * _call("sin", z.im))


@rule("log")
def log(z: Complex) -> Complex:
    return Complex(_call("log", _modulus(z)), _call("atan2", z.im, z.re))


@rule("sqrt")
def sqrt(z: Complex) -> Complex:
    radius = _modulus(z)
    re = maximum((radius + z.re) * 0.5, 0.0).unary(UnaryOp.SQRT)
    im = maximum((radius - z.re) * 0.5, 0.0).unary(UnaryOp.SQRT)
    return Complex(re, select(z.im >= 0.0, im, -im))


@rule("eq")
def eq(a: Complex, b: Complex) -> E:
    return a.re.eq(b.re) & a.im.eq(b.im)


@rule("ne")
def ne(a: Complex, b: Complex) -> E:
    return a.re.ne(b.re) | a.im.ne(b.im)


@rule("where")
def where(condition: Scalar, a: Complex, b: Complex) -> Complex:
    chosen = real(condition)
    chosen = chosen if chosen.type.prim is Prim.BOOL else chosen.ne(0)
    return Complex(select(chosen, a.re, b.re), select(chosen, a.im, b.im))


def _modulus(z: Complex) -> E:
    return complex_norm_sq(z).unary(UnaryOp.SQRT)


def _call(name: str, *operands: E) -> E:
    return scalar_expression(name, operands)

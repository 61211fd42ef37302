"""Scalar functions of c64 operands, over pairs (re, im) of f32.

    complex_function("mul")(a, b)

Where a formula would overflow or cancel in f32 it is evaluated in f64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.loops.expr import E, const, select
from rlx.codegen.loops.nodes import Prim, UnaryOp
from rlx.codegen.loops.scalar import scalar_function, truth
from rlx.errors import InternalError
from rlx.ir.dtype import DType

Complex = tuple[E, E]
ComplexFunction = Callable[..., "E | Complex"]


def complex_function(name: str) -> ComplexFunction:
    """Return the function that builds op `name` from pairs; some return or take one `E`."""
    try:
        return _TABLE[name]
    except KeyError:
        raise InternalError(f"{name}: no scalar function of complex numbers") from None


def _wide(x: E) -> E:
    return x.cast(Prim.F64)


def _narrow(re: E, im: E) -> Complex:
    return re.cast(Prim.F32), im.cast(Prim.F32)


def multiply(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Complex, b: Complex) -> Complex:
    a_re, a_im, b_re, b_im = (_wide(x) for x in (*a, *b))
    d = b_re * b_re + b_im * b_im
    is_zero = d.eq(0.0)  # what is not zero itself becomes infinite
    re = select(is_zero, a_re, a_re * b_re + a_im * b_im) / d
    im = select(is_zero, a_im, a_im * b_re - a_re * b_im) / d
    vanishes = _is_infinite(b) & _is_finite(a)
    return _narrow(select(vanishes, 0.0, re), select(vanishes, 0.0, im))


def _is_infinite(a: Complex) -> E:
    """True if either part is, whatever the other one is (C11, annex G)."""
    return abs(a[0]).eq(float("inf")) | abs(a[1]).eq(float("inf"))


def _is_finite(a: Complex) -> E:
    return (abs(a[0]) < float("inf")) & (abs(a[1]) < float("inf"))


def _norm_square(a: Complex) -> E:
    re, im = _wide(a[0]), _wide(a[1])
    return re * re + im * im


def exponential(a: Complex) -> Complex:
    """The special values are those of C11, annex G: a scale of 0 wins, a real stays real."""
    scale = scalar_function("exp")(a[0])
    re = scale * scalar_function("cos")(a[1])
    im = scale * scalar_function("sin")(a[1])
    re = select(scale.eq(0.0), 0.0, select(_overflows(a), a[0], re))
    return re, select(scale.eq(0.0), 0.0, select(a[1].eq(0.0), a[1], im))


def _overflows(a: Complex) -> E:
    """True for an infinite scale in no particular direction."""
    return a[0].eq(float("inf")) & ~(abs(a[1]) < float("inf"))


def logarithm(a: Complex) -> Complex:
    modulus = 0.5 * scalar_function("log")(_norm_square(a))
    modulus = select(_is_infinite(a), float("inf"), modulus.cast(Prim.F32))
    return modulus, scalar_function("atan2")(a[1], a[0])


def square_root(a: Complex) -> Complex:
    """The larger part from the modulus, the other by division, so that neither cancels."""
    re, im = _wide(a[0]), _wide(a[1])
    modulus = _norm_square(a).unary(UnaryOp.SQRT)
    larger = (0.5 * (modulus + abs(re))).unary(UnaryOp.SQRT)
    finite = (larger > 0.0) & (larger < float("inf"))
    straight = abs(re).eq(float("inf")) & (abs(im) < float("inf"))
    smaller = select(finite, 0.5 * abs(im) / larger, select(straight, 0.0, larger))
    steep = abs(im).eq(float("inf"))  # then both parts are infinite, also for a NaN
    larger, smaller = (select(steep, float("inf"), part) for part in (larger, smaller))
    larger = select(abs(re).eq(float("inf")), float("inf"), larger)
    forward = (re >= 0.0) | steep
    height = select(forward, smaller, larger)
    return _narrow(select(forward, larger, smaller), select(im < 0.0, -height, height))


def cast(a: Complex, *, to: DType, rounding: str = "trunc") -> E | Complex:
    """To bool, the real part to a real float, or unchanged."""
    if to is DType.C64:
        return a
    if to is DType.BOOL:
        return a[0].ne(0) | a[1].ne(0)
    return scalar_function("cast")(a[0], to=to, rounding=rounding)


def from_real(x: E) -> Complex:
    """A real number as a pair."""
    return x.cast(Prim.F32), const(0.0, Prim.F32, x.type.lanes)


def _where(condition: E, a: Complex, b: Complex) -> Complex:
    chosen = truth(condition)
    return select(chosen, a[0], b[0]), select(chosen, a[1], b[1])


_TABLE: dict[str, ComplexFunction] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[0], a[1] - b[1]),
    "mul": multiply,
    "div": divide,
    "neg": lambda a: (-a[0], -a[1]),
    "conj": lambda a: (a[0], -a[1]),
    "real": lambda a: a[0],
    "imag": lambda a: a[1],
    "complex": lambda re, im: (re, im),
    "complex_norm_sq": lambda a: a[0] * a[0] + a[1] * a[1],
    "square": lambda a: multiply(a, a),
    "reciprocal": lambda a: divide(from_real(const(1.0, Prim.F32, a[0].type.lanes)), a),
    "exp": exponential,
    "log": logarithm,
    "sqrt": square_root,
    "eq": lambda a, b: a[0].eq(b[0]) & a[1].eq(b[1]),
    "ne": lambda a, b: a[0].ne(b[0]) | a[1].ne(b[1]),
    "where": _where,
    "cast": cast,
    "stop_gradient": lambda a: a,
}

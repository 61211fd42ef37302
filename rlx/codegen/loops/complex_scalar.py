"""Arithmetic and roots of complex operands, over pairs (re, im) of f32 or of f64.

`complex_functions` finds them by the names of ops, and has the elementary functions.

Where a formula would overflow or cancel in f32 it is evaluated in f64 and rounded once;
of f64 parts, by their ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rlx.codegen.loops.expr import E, const, select
from rlx.codegen.loops.nodes import Prim, UnaryOp
from rlx.codegen.loops.scalar import scalar_function, truth
from rlx.ir.dtype import DType

_BEYOND_EXP = {Prim.F32: 80.0, Prim.F64: 700.0}
"""From here on an exponential is taken in two steps: its product with a small sine may be finite
where it is not itself."""
_STEP = 40.0

Complex = tuple[E, E]
ComplexFunction = Callable[..., "E | Complex"]


def wide(x: E) -> E:
    return x.cast(Prim.F64)


def _narrow(re: E, im: E, like: Complex) -> Complex:
    return re.cast(like[0].type.prim), im.cast(like[0].type.prim)


def multiply(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def divide(a: Complex, b: Complex) -> Complex:
    wider = [wide(x) for x in (*a, *b)]
    is_zero = wider[2].eq(0.0) & wider[3].eq(0.0)  # what is not zero itself becomes infinite
    quotient = _by_smith if a[0].type.prim is Prim.F64 else _by_square
    parts = quotient(*wider)
    re, im = (select(is_zero, x / abs(wider[2]), q) for x, q in zip(wider, parts, strict=False))
    vanishes = is_infinite(b) & is_finite(a)
    return _narrow(select(vanishes, 0.0, re), select(vanishes, 0.0, im), a)


def _by_square(a_re: E, a_im: E, b_re: E, b_im: E) -> Complex:
    d = b_re * b_re + b_im * b_im
    return (a_re * b_re + a_im * b_im) / d, (a_im * b_re - a_re * b_im) / d


def _by_smith(a_re: E, a_im: E, b_re: E, b_im: E) -> Complex:
    """Divide by the larger part of `b` first, whose square might overflow (Smith, 1962)."""
    steep = abs(b_re) < abs(b_im)
    larger, smaller = select(steep, b_im, b_re), select(steep, b_re, b_im)
    ratio = smaller / larger
    d = larger + smaller * ratio
    re = select(steep, a_re * ratio + a_im, a_re + a_im * ratio)
    im = select(steep, a_im * ratio - a_re, a_im - a_re * ratio)
    return re / d, im / d


def is_infinite(a: Complex) -> E:
    """True if either part is, whatever the other one is (C11, annex G)."""
    return abs(a[0]).eq(float("inf")) | abs(a[1]).eq(float("inf"))


def is_finite(a: Complex) -> E:
    return (abs(a[0]) < float("inf")) & (abs(a[1]) < float("inf"))


def is_negative(x: E) -> E:
    """True for numbers with a sign, -0.0 among them: which side of a branch cut they are on."""
    return x.bitcast(Prim.I64 if x.type.prim.size == 8 else Prim.I32) < 0


def _square(a: Complex) -> Complex:
    """By a product whose factors do not overflow sooner than the result."""
    return (a[0] - a[1]) * (a[0] + a[1]), (a[0] + a[0]) * a[1]


def _ordered(a: Complex) -> Complex:
    """Return the larger and the smaller magnitude of the two parts."""
    re, im = abs(a[0]), abs(a[1])
    return select(re < im, im, re), select(re < im, re, im)


def modulus(a: Complex) -> E:
    """In f64; of f64 parts by their ratio, as their squares might overflow."""
    re, im = wide(a[0]), wide(a[1])
    if a[0].type.prim is Prim.F32:
        return (re * re + im * im).unary(UnaryOp.SQRT)
    larger, smaller = _ordered(a)
    ratio = smaller / select(larger.eq(0.0), 1.0, larger)
    scaled = larger * (1.0 + ratio * ratio).unary(UnaryOp.SQRT)
    return select(larger.eq(float("inf")), larger + smaller, scaled)  # NaN with a NaN


def _log_modulus(a: Complex) -> E:
    if a[0].type.prim is Prim.F32:
        re, im = wide(a[0]), wide(a[1])
        return 0.5 * scalar_function("log")(re * re + im * im)
    larger, smaller = _ordered(a)
    ratio = smaller / select(larger.eq(0.0), 1.0, larger)
    log1p = scalar_function("log1p")
    apart = scalar_function("log")(larger) + 0.5 * log1p(ratio * ratio)
    beside_one = 0.5 * log1p((larger - 1.0) * (larger + 1.0) + smaller * smaller)
    return select((larger > 0.5) & (larger < 1.5), beside_one, apart)


def exponential(a: Complex) -> Complex:
    """The special values are those of C11, annex G: a scale of 0 wins, a real stays real."""
    is_far = a[0] > _BEYOND_EXP[a[0].type.prim]
    scale = scalar_function("exp")(select(is_far, a[0] - _STEP, a[0]))
    rest = select(is_far, const(math.exp(_STEP), a[0].type.prim, a[0].type.lanes), 1.0)
    re = scale * scalar_function("cos")(a[1]) * rest
    im = scale * scalar_function("sin")(a[1]) * rest
    vanishes = scale.eq(0.0) & ~(abs(a[1]) < float("inf"))
    re = select(vanishes, 0.0, select(_overflows(a), a[0], re))
    return re, select(a[1].eq(0.0), a[1], select(vanishes, 0.0, im))


def _overflows(a: Complex) -> E:
    """True for an infinite scale in no particular direction."""
    return a[0].eq(float("inf")) & ~(abs(a[1]) < float("inf"))


def logarithm(a: Complex) -> Complex:
    modulus = _log_modulus(a).cast(a[0].type.prim)
    modulus = select(is_infinite(a), float("inf"), modulus)
    return modulus, scalar_function("atan2")(a[1], a[0])


def square_root(a: Complex) -> Complex:
    """Of f64 parts that are subnormal, which have few digits, that of 2^108 times as much."""
    if a[0].type.prim is Prim.F32:
        return _root(a)
    tiny = _ordered(a)[0] < 2.0**-1000
    re, im = _root((select(tiny, a[0] * 2.0**108, a[0]), select(tiny, a[1] * 2.0**108, a[1])))
    return select(tiny, re * 2.0**-54, re), select(tiny, im * 2.0**-54, im)


def _root(a: Complex) -> Complex:
    """The larger part from the modulus, the other by division, so that neither cancels."""
    re, im = wide(a[0]), wide(a[1])
    larger = (0.5 * modulus(a) + 0.5 * abs(re)).unary(UnaryOp.SQRT)
    finite = (larger > 0.0) & (larger < float("inf"))
    straight = abs(re).eq(float("inf")) & (abs(im) < float("inf"))
    smaller = select(finite, 0.5 * abs(im) / larger, select(straight, 0.0, larger))
    steep = abs(im).eq(float("inf"))  # then both parts are infinite, also for a NaN
    larger, smaller = (select(steep, float("inf"), part) for part in (larger, smaller))
    larger = select(abs(re).eq(float("inf")), float("inf"), larger)
    forward = (re >= 0.0) | steep
    height = select(forward, smaller, larger)
    return _narrow(select(forward, larger, smaller), select(is_negative(a[1]), -height, height), a)


def cast(a: Complex, *, to: DType, rounding: str = "trunc") -> E:
    """To bool, or the real part to a real float."""
    if to is DType.BOOL:
        return a[0].ne(0) | a[1].ne(0)
    return scalar_function("cast")(a[0], to=to, rounding=rounding)


def as_pair(parts: Sequence[E], prim: Prim) -> Complex:
    """A real number, or the parts of a complex one, as a pair of machine type `prim`."""
    re, *rest = parts
    im = rest[0].cast(prim) if rest else const(0.0, prim, re.type.lanes)
    return re.cast(prim), im


def _where(condition: E, a: Complex, b: Complex) -> Complex:
    chosen = truth(condition)
    return select(chosen, a[0], b[0]), select(chosen, a[1], b[1])


TABLE: dict[str, ComplexFunction] = {
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
    "square": _square,
    "reciprocal": lambda a: divide(
        as_pair([const(1.0, a[0].type.prim, a[0].type.lanes)], a[0].type.prim), a
    ),
    "exp": exponential,
    "log": logarithm,
    "eq": lambda a, b: a[0].eq(b[0]) & a[1].eq(b[1]),
    "ne": lambda a, b: a[0].ne(b[0]) | a[1].ne(b[1]),
    "where": _where,
    "cast": cast,
    "stop_gradient": lambda a: a,
}

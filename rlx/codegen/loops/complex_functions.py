"""Elementary functions of complex operands, over pairs (re, im): powers, angles, hyperbolas.

Formulas and branch cuts are Kahan's (Branch Cuts for Complex Elementary Functions, 1987); special
values are those of C11, annex G, and of the array API standard. Parts of f32 are computed in f64
and rounded once.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable

from rlx.codegen.loops.complex_scalar import (
    TABLE,
    Complex,
    ComplexFunction,
    divide,
    exponential,
    is_infinite,
    is_negative,
    logarithm,
    modulus,
    multiply,
    square_root,
    wide,
)
from rlx.codegen.loops.expr import E, call, const, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Expr, Function, Prim, Var
from rlx.codegen.loops.scalar import scalar_function
from rlx.codegen.loops.visit import operands, with_operands
from rlx.errors import InternalError

_INFINITY = math.inf
_BEYOND_TANH = 20.0
"""From here on the hyperbolic tangent is 1, in f64."""
_BEYOND_EXP = 700.0
"""From here on an exponential is taken in two steps, so that the product with a small number is
finite where it overflows itself."""
_STEP = 40.0
_SQUARES_OVERFLOW = 1e150


def _real(name: str, *x: E) -> E:
    found: E = scalar_function(name)(*x)
    return found


def _signed(size: E | float, like: E) -> E:
    """Return a number that is not negative, with the sign of another, also of a zero."""
    size = const(size, Prim.F64, like.type.lanes) if isinstance(size, float) else size
    return select(is_negative(like), -size, size)


def _infinite(x: E) -> E:
    return abs(x).eq(_INFINITY)


def _finite(x: E) -> E:
    return abs(x) < _INFINITY


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """Return `-i f(i z)`: sines from hyperbolic sines, and so on."""

    def of(a: Complex) -> Complex:
        re, im = function((-a[1], a[0]))
        return im, -re

    return of


# Hyperbolic functions


def _grown(name: str, x: E, factor: E) -> E:
    """Return `sinh` or `cosh` times a factor that may bring it back from where it overflows."""
    is_far = abs(x) > _BEYOND_EXP
    near = select(is_far & ~_infinite(x), 0.0, x)
    far = 0.5 * _real("exp", abs(x) - _STEP) * factor * math.exp(_STEP)
    far = select(x < 0.0, -far, far) if name == "sinh" else far
    return select(is_far & ~_infinite(x), far, _real(name, near) * factor)


def _sinh(z: Complex) -> Complex:
    x, y = z
    re, im = _grown("sinh", x, _real("cos", y)), _grown("cosh", x, _real("sin", y))
    directionless = (_infinite(x) | x.eq(0.0)) & ~_finite(y)
    return select(directionless, x, re), select(y.eq(0.0), y, im)


def _cosh(z: Complex) -> Complex:
    x, y = z
    sine = _real("sin", y)
    re, im = _grown("cosh", x, _real("cos", y)), _grown("sinh", x, sine)
    flat = select(y.eq(0.0), select(is_negative(x), -y, y), select(_finite(y), x * sine, x))
    directionless = _infinite(x) & ~_finite(y)
    return select(directionless, abs(x), re), select(x.eq(0.0) | y.eq(0.0), flat, im)


def _tanh(z: Complex) -> Complex:
    x, y = z
    size, is_far = abs(x), abs(x) > _BEYOND_TANH
    near = select(is_far, 0.0, x)
    slope, sine = _real("tan", y), _real("sinh", near)
    steep = 1.0 + slope * slope
    below = 1.0 + steep * sine * sine
    re = steep * _real("cosh", near) * sine / below
    # Far out: 1, and what is left of the angle; at infinity nothing is left of any
    fades = 4.0 * _real("sin", y) * _real("cos", y) * _real("exp", -2.0 * size)
    at_end = _infinite(x) & ~_finite(y)
    far = _signed(1.0, x) + select(_infinite(x), 0.0, y - y)
    im = select(is_far, select(at_end, _signed(0.0, y), fades), slope / below)
    return select(x.eq(0.0), x, select(is_far, far, re)), select(y.eq(0.0), y, im)


# Their inverses


def _roots(z: Complex) -> tuple[Complex, Complex]:
    """Return the roots of `1 - z` and `1 + z`."""
    x, y = z
    return square_root((1.0 - x, -y)), square_root((1.0 + x, y))


def _asin(z: Complex) -> Complex:
    x, y = z
    less, more = _roots(z)
    re = _real("atan2", x, less[0] * more[0] - less[1] * more[1])
    im = _real("asinh", less[0] * more[1] - less[1] * more[0])
    ends = is_infinite(z)
    re = select(x.eq(0.0), x, select(ends, _real("atan2", x, abs(y)), re))
    return re, select(ends, _signed(_INFINITY, y), im)


def _acos(z: Complex) -> Complex:
    x, y = z
    less, more = _roots(z)
    re = 2.0 * _real("atan2", less[0], more[0])
    im = _real("asinh", more[0] * less[1] - more[1] * less[0])
    ends = is_infinite(z)
    re = select(ends, _real("atan2", abs(y), x), select(x.eq(0.0), math.pi / 2, re))
    return re, select(ends, _signed(-_INFINITY, y), im)


def _acosh(z: Complex) -> Complex:
    re, im = _acos(z)
    return abs(im), _signed(re, z[1])


def _atanh(z: Complex) -> Complex:
    x, y = z
    size = abs(x)
    is_far = is_infinite(z) | (size > _SQUARES_OVERFLOW) | (abs(y) > _SQUARES_OVERFLOW)
    a, b = select(is_far, 0.5, size), select(is_far, 0.5, y)
    re = _signed(0.25 * _real("log1p", 4.0 * a / ((1.0 - a) * (1.0 - a) + b * b)), x)
    im = 0.5 * _real("atan2", 2.0 * b, (1.0 - a) * (1.0 + a) - b * b)
    length = modulus((select(is_far, x, 1.0), select(is_far, y, 1.0)))
    far = _signed(select(is_infinite(z), 0.0, size / length / length), x)
    unknown = select(is_infinite(z), select(y.eq(y), 0.0, y), (x - x) + (y - y))
    right = _signed(math.pi / 2, y) + unknown
    re = select(x.eq(0.0), x, select(is_far, far, re))
    return re, select(is_far, right, im)


# Powers


def _expm1(z: Complex) -> Complex:
    x, y = z
    half = _real("sin", 0.5 * y)
    re = _real("expm1", x) * _real("cos", y) - 2.0 * half * half
    grown, im = exponential(z)
    return select(_infinite(x), grown - 1.0, select(y.eq(0.0), _real("expm1", x), re)), im


def _log1p(z: Complex) -> Complex:
    x, y = z
    is_small = (abs(x) < 0.5) & (abs(y) < 0.5)
    near = 0.5 * _real("log1p", select(is_small, x * (2.0 + x) + y * y, 0.0))
    apart, im = logarithm((1.0 + x, y))
    return select(is_small, near, apart), im


def _pow(a: Complex, b: Complex) -> Complex:
    """`exp(b log a)`; anything to the power of 0 is 1, and 0 to one that is not positive NaN."""
    is_zero = a[0].eq(0.0) & a[1].eq(0.0)
    log = logarithm((select(is_zero, 1.0, a[0]), a[1]))
    re, im = exponential(multiply(b, log))
    vanishes = is_zero & (b[0] > 0.0) & b[1].eq(0.0)
    no_power = b[0].eq(0.0) & b[1].eq(0.0)
    at_zero = select(vanishes, 0.0, const(math.nan, Prim.F64, re.type.lanes))
    re, im = (select(is_zero, at_zero, part) for part in (re, im))
    return select(no_power, 1.0, re), select(no_power, 0.0, im)


def _rsqrt(z: Complex) -> Complex:
    one = const(1.0, Prim.F64, z[0].type.lanes)
    return divide((one, one - one), square_root(z))


def _scaled(z: Complex, factor: float) -> Complex:
    return z[0] * factor, z[1] * factor


# As functions of the loop language: one for each part


_PARTS = ("re", "im")


@functools.cache
def _parts(name: str) -> tuple[Function, Function]:
    """Return the functions of f64 that give real and imaginary part."""
    formula = _FORMULAS[name]
    builder = FunctionBuilder(Prim.F64)
    numbers = inspect.signature(formula).parameters
    params = [builder.parameter(f"{each}_{part}", Prim.F64) for each in numbers for part in _PARTS]
    pairs = zip(params[::2], params[1::2], strict=True)
    parts = formula(*((E(re), E(im)) for re, im in pairs))
    of = [_function(f"{name}_{part}", params, x) for part, x in zip(_PARTS, parts, strict=True)]
    return of[0], of[1]


def _function(name: str, params: list[Var], result: E) -> Function:
    """Return a function in which what is read more than once is computed once, and named."""
    builder, order = FunctionBuilder(Prim.F64), list[Expr]()
    readers = Counter[int]()

    def visit(node: Expr) -> None:
        readers[id(node)] += 1
        if readers[id(node)] == 1:
            for operand in operands(node):
                visit(operand)
            order.append(node)

    visit(result.node)
    found: dict[int, Expr] = {}
    for node in order:
        below = tuple(found[id(operand)] for operand in operands(node))
        changed = with_operands(node, below) if below else node
        is_shared = readers[id(node)] > 1 and bool(below)
        found[id(node)] = builder.let("part", E(changed)).node if is_shared else changed
    doc = f"The {'real' if name.endswith('re') else 'imaginary'} part of {name[:-3]}."
    return Function(
        f"complex_{name}", tuple(params), tuple(builder.lets), found[id(result.node)], doc
    )


def _called(name: str) -> Callable[..., Complex]:
    def of(*numbers: Complex) -> Complex:
        wider = [wide(part) for z in numbers for part in z]
        prim = numbers[0][0].type.prim
        re, im = (call(function, *wider).cast(prim) for function in _parts(name))
        return re, im

    return of


def named_square_root(a: Complex) -> Complex:
    """Return the root, of f64 parts by functions: written out, it is 200,000 letters of C."""
    return square_root(a) if a[0].type.prim is Prim.F32 else _called("sqrt")(a)


_FORMULAS: dict[str, Callable[..., Complex]] = {
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "sin": _turned(_sinh), "tan": _turned(_tanh), "cos": lambda z: _cosh((-z[1], z[0])),
    "asin": _asin, "acos": _acos, "acosh": _acosh, "atanh": _atanh,
    "asinh": _turned(_asin), "atan": _turned(_atanh),
    "expm1": _expm1, "log1p": _log1p, "pow": _pow, "rsqrt": _rsqrt,
    "sqrt": square_root,
    "exp2": lambda z: exponential(_scaled(z, math.log(2.0))),
    "log2": lambda z: _scaled(logarithm(z), 1 / math.log(2.0)),
}  # fmt: skip

_TABLE: dict[str, ComplexFunction] = TABLE | {name: _called(name) for name in _FORMULAS}
_TABLE["sqrt"] = named_square_root


def complex_function(name: str) -> ComplexFunction:
    """Return the function that builds op `name` from pairs; some return or take one `E`."""
    try:
        return _TABLE[name]
    except KeyError:
        raise InternalError(f"{name}: no scalar function of complex numbers") from None

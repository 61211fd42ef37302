"""How a math function is declared, and the pieces that several share.

    @math_function(f32=1.0, f64=1.0)
    def exp(m: FunctionBuilder, x: E) -> E:
        "e**x."
        ...

makes `build_function("exp", Prim.F32)`. The numbers are the stated bounds in ulp of the result,
subnormal results included: the one table that documentation and tests read. `separate` is the one
for targets without fused multiply-adds, where it is another. They hold with a
margin over what `tests/codegen/loops/test_math.py` measures: in f32 over evenly spread bit
patterns and random arguments against f64, in f64 over all exponents against longer arithmetic.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache

from rlx.codegen.loops.expr import E, Operand, const, fma, select
from rlx.codegen.loops.math.coefficients import Coefficients
from rlx.codegen.loops.nodes import Function, Let, Prim, UnaryOp, ValueType, Var
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """What the algorithms must know of an IEEE binary format."""

    integer: Prim
    mantissa: int
    """Stored significand bits."""
    bias: int

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which is then in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def one_bits(self) -> int:
        return self.bias << self.mantissa

    @property
    def sign_bit(self) -> int:
        """The sign bit as a signed integer."""
        return -(1 << (self.mantissa + (8 if self.integer is Prim.I32 else 11)))

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    def bits(self, value: float) -> int:
        """The bits of a positive `value` as an integer."""
        form = ("<f", "<i") if self.integer is Prim.I32 else ("<d", "<q")
        return int(struct.unpack(form[1], struct.pack(form[0], value))[0])


_POLYNOMIALS = "pqstuvw"

_FORMATS = {
    Prim.F32: FloatFormat(Prim.I32, 23, 127),
    Prim.F64: FloatFormat(Prim.I64, 52, 1023),
}


class FunctionBuilder:
    """Collects the lets of one function of `prim`."""

    def __init__(self, prim: Prim) -> None:
        self.prim = prim
        self.lets: list[Let] = []
        self._names: dict[str, int] = {}
        self._polynomials = 0

    @property
    def format(self) -> FloatFormat:
        return _FORMATS[self.prim]

    def parameter(self, name: str, prim: Prim) -> Var:
        return Var(self._fresh(name), ValueType(prim))

    def let(self, name: str, value: E) -> E:
        """Name a value."""
        var = Var(self._fresh(name), value.type)
        self.lets.append(Let(var, value.node))
        return E(var)

    def constant(self, value: float) -> E:
        return const(value, self.prim)

    def choose(self, f32: float, f64: float) -> float:
        """The figure for this format."""
        return f32 if self.prim is Prim.F32 else f64

    def bits(self, x: E) -> E:
        return x.bitcast(self.format.integer)

    def polynomial(self, x: E, table: Coefficients, *leading: float) -> E:
        """Horner's scheme: `leading` coefficients, then those of the table, lowest first.

        Every step has a name: p5, p4, ... p0 is the value, and q0 that of a second polynomial.
        """
        coefficients = (*leading, *table[x.type.prim])
        letter = _POLYNOMIALS[self._polynomials % len(_POLYNOMIALS)]
        self._polynomials += 1
        result = const(coefficients[-1], x.type.prim)
        for power in reversed(range(len(coefficients) - 1)):
            result = self.let(f"{letter}{power}", fma(result, x, coefficients[power]))
        return result

    def polynomial_in_halves(self, x: E, table: Coefficients) -> E:
        """The polynomial of the table as even and odd powers, which do not wait for each other.

        One product more than `polynomial`, in half of the time where one value waits for it.
        """
        square = self.let("square", x * x)
        coefficients = table[x.type.prim]
        halves = [{x.type.prim: coefficients[start::2]} for start in (0, 1)]
        even, odd = (self.polynomial(square, half) for half in halves)
        return fma(odd, x, even)

    def split(self, value: float, low: float) -> tuple[float, float]:
        """A constant given as an f64 and what that lacks, as two numbers of this format."""
        if self.prim is Prim.F64:
            return value, low
        high = struct.unpack("<f", struct.pack("<f", value))[0]
        return high, value - high

    def split_for_integers(self, value: float, low: float) -> tuple[float, float]:
        """The same in two numbers, the first so short that its products with exponents are exact.

        An exponent of two has 8 bits in f32 and 11 in f64, a sign aside.
        """
        bits = self.format.mantissa + 1 - (8 if self.prim is Prim.F32 else 11)
        unit = 2.0 ** (math.frexp(value)[1] - bits)
        high = math.floor(value / unit) * unit
        return high, (value - high) + low

    def with_sign_of(self, magnitude: E, x: E) -> E:
        """A nonnegative `magnitude` with the sign bit of x."""
        sign = self.bits(x) & self.format.sign_bit
        return (self.bits(magnitude) | sign).bitcast(self.prim)

    def exact_sum(self, a: Operand, b: E) -> tuple[E, E]:
        """`a + b` rounded, and the rounding error, exactly (Knuth)."""
        total = self.let("total", a + b)
        other = self.let("other", total - a)
        return total, self.let("rest", (a - (total - other)) + (b - other))

    def exact_product(self, a: E, b: E) -> tuple[E, E]:
        """`a * b` rounded, and the rounding error, exactly."""
        product = self.let("product", a * b)
        return product, self.let("rest", fma(a, b, -product, exact=True))

    def _fresh(self, name: str) -> str:
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return name if count == 1 else f"{name}_{count}"


def square_root(x: E) -> E:
    return x.unary(UnaryOp.SQRT)


def keep_tiny(m: FunctionBuilder, x: E, result: E) -> E:
    """x itself where an odd function f(x) = x + O(x**2) rounds to x."""
    return select(abs(x) < 2.0 ** -(m.format.mantissa + 3), x, result)


Build = Callable[..., E]


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A declared function: how to build it, and its bounds in ulp."""

    name: str
    build: Build
    bounds: dict[Prim, float]
    doc: str
    separate: dict[Prim, float]
    """The bounds where multiply-adds round their products."""

    def bound_text(self, prim: Prim) -> str:
        """Say what the error is below."""
        fused, separate = self.bounds[prim], self.separate[prim]
        without = "" if fused == separate else f" ({separate:g} without fused multiply-adds)"
        return f"Error below {fused:g} ulp{without}."

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.build).parameters)[1:]


MATH_FUNCTIONS: dict[str, MathFunction] = {}
NO_OTHERS: Mapping[Prim, float] = {}


def math_function(
    *, f32: float, f64: float, separate: Mapping[Prim, float] = NO_OTHERS
) -> Callable[[Build], Build]:
    """Declare a function of f32 and f64 with its bounds in ulp."""

    def declare(build: Build) -> Build:
        bounds = {Prim.F32: f32, Prim.F64: f64}
        name = build.__name__.rstrip("_")
        doc = inspect.getdoc(build) or ""
        MATH_FUNCTIONS[name] = MathFunction(name, build, bounds, doc, {**bounds, **separate})
        return build

    return declare


@cache
def build_function(name: str, prim: Prim) -> Function:
    """Return the math function `name` for f32 or f64."""
    declared = MATH_FUNCTIONS[name]
    builder = FunctionBuilder(prim)
    params = tuple(builder.parameter(each, prim) for each in declared.parameters)
    result = declared.build(builder, *(E(param) for param in params))
    summary = " ".join(declared.doc.split("\n\n")[0].split())
    doc = f"{summary} {declared.bound_text(prim)}"
    return Function(f"{name}_{prim}", params, tuple(builder.lets), result.node, doc)

"""sin, cos and tan of arguments below `NEAR`, for scalar code.

The functions of `trigonometry` have no branches and serve every finite argument, which costs a
product of many words. Where nothing runs in vectors, a branch is cheaper: these, and for larger
arguments those. They round alike but for the last bit, and keep the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from rlx.codegen.loops.expr import E, call, fma
from rlx.codegen.loops.math.define import MATH_FUNCTIONS, FunctionBuilder, build_function
from rlx.codegen.loops.math.trigonometry import HALF_PI, cosine_of, sine_of, tangent_of
from rlx.codegen.loops.nodes import Function, Prim

NEAR = 2.0**20
SINGLE_NEAR = 2.0**12
"""The same where doubles are slow: arithmetic of f32 alone reduces arguments up to here."""

_OF_REDUCED: dict[str, Callable[..., E]] = {
    "sin": sine_of,
    "cos": lambda m, _, *reduced: cosine_of(m, *reduced),
    "tan": tangent_of,
}
"""Function -> its value, of an argument and what is left of it in its quadrant."""

NEAR_FUNCTIONS = tuple(_OF_REDUCED)

_PARTS = (
    float.fromhex("0x1.921fb544p+0"),
    float.fromhex("0x1.0b4611a6p-34"),
    float.fromhex("0x1.3198a2ep-69"),
)
"""The first 99 bits of pi / 2, 33 at a time: products with integers below 2**20 are exact."""
_REST = 8.478427660368899e-32


_SINGLE_PARTS = (
    float.fromhex("0x1.921fb6p+0"),
    float.fromhex("-0x1.777a5cp-25"),
    float.fromhex("-0x1.ee59dap-50"),
)
"""pi / 2 in three numbers of f32."""


@cache
def near_function(name: str, prim: Prim, *, single: bool = False) -> Function:
    """Return `name` of arguments whose magnitude is at most `NEAR`; NaN gives NaN.

    With `single` it computes with no doubles, for arguments up to `SINGLE_NEAR`, on targets that
    multiply and add with one rounding.
    """
    m = FunctionBuilder(prim)
    param = m.parameter("x", prim)
    x = E(param)
    reduced = reduce_near(m, m.let("magnitude", abs(x)), single=single)
    result = _OF_REDUCED[name](m, x, *reduced)
    summary = MATH_FUNCTIONS[name].doc.split(",")[0]
    most = "2**12, without doubles" if single else "2**20"
    doc = f"{summary}, up to {most}. {MATH_FUNCTIONS[name].bound_text(prim)}"
    kind = "single" if single else prim
    return Function(f"near_{name}_{kind}", (param,), tuple(m.lets), result.node, doc)


REDUCED = ("quadrant", "r", "low")
"""What is left of an argument: its quadrant, its distance from it, and what that lacks."""


@cache
def reduced_part(part: str, prim: Prim, *, single: bool = False) -> Function:
    """Return the function of one of `REDUCED`; the lets of all three are the same."""
    m = FunctionBuilder(prim)
    param = m.parameter("x", prim)
    reduced = reduce_near(m, m.let("magnitude", abs(E(param))), single=single)
    result = reduced[REDUCED.index(part)]
    kind = "single" if single else prim
    doc = f"The {part} of a near argument."
    return Function(f"near_{part}_{kind}", (param,), tuple(m.lets), result.node, doc)


@cache
def function_of_reduced(name: str, prim: Prim) -> Function:
    """Return `name` as a function of an argument and of what is left of it."""
    m = FunctionBuilder(prim)
    types = {"x": prim, "quadrant": Prim.I32, "r": prim, "low": prim}
    params = tuple(m.parameter(each, of) for each, of in types.items())
    result = _OF_REDUCED[name](m, *map(E, params))
    doc = MATH_FUNCTIONS[name].doc.split(",")[0] + ", of a reduced argument."
    return Function(f"reduced_{name}_{prim}", params, tuple(m.lets), result.node, doc)


def reduce_near(m: FunctionBuilder, magnitude: E, *, single: bool) -> tuple[E, E, E]:
    """Return the quadrant of a near magnitude and what is left of it, as two numbers."""
    wide = _reduce_f32 if m.prim is Prim.F32 else _reduce_f64
    return (_reduce_single if single else wide)(m, magnitude)


def branches_on_angle(name: str, prim: Prim, *, pairs: bool) -> bool:
    """True if near arguments are computed apart; not of what one function pairs (`math.paired`)."""
    return name in NEAR_FUNCTIONS and not (pairs and prim is Prim.F32 and name != "tan")


def near_limit(*, single: bool) -> float:
    """Return the largest argument of a near function."""
    return SINGLE_NEAR if single else NEAR


def near_and_far(name: str, x: E) -> tuple[E, E]:
    """Return the value for arguments up to `NEAR`, and that for all."""
    prim = x.type.prim
    return call(near_function(name, prim), x), call(build_function(name, prim), x)


def _reduce_f64(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    """Take multiples of pi / 2 away, in four parts (Cody and Waite, 1980)."""
    shifted = m.let("shifted", fma(magnitude, 1 / HALF_PI[0], m.format.magic))
    n = m.let("n", shifted - m.format.magic)
    first = m.let("first", fma(n, -_PARTS[0], magnitude))
    second, lost = m.exact_sum(first, m.let("part", n * -_PARTS[1]))
    r, rest = m.exact_sum(second, m.let("part", n * -_PARTS[2]))
    low = m.let("low", fma(n, -_REST, lost + rest))
    return m.let("quadrant", m.bits(shifted).cast(Prim.I32)), r, low


def _reduce_single(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    """Take multiples of pi / 2 away in f32: the first part exactly, of the others what is lost."""
    shifted = m.let("shifted", fma(magnitude, 1 / HALF_PI[0], m.format.magic))
    n = m.let("n", shifted - m.format.magic)
    first = m.let("first", fma(n, -_SINGLE_PARTS[0], magnitude))
    part = m.let("part", n * -_SINGLE_PARTS[1])
    lost = m.let("lost", fma(n, -_SINGLE_PARTS[1], -part))
    r, rest = m.exact_sum(first, part)
    low = m.let("low", fma(n, -_SINGLE_PARTS[2], rest + lost))
    return m.let("quadrant", m.bits(shifted)), r, low


def _reduce_f32(m: FunctionBuilder, magnitude: E) -> tuple[E, E, E]:
    magic = 1.5 * 2.0**52
    wide = m.let("wide", magnitude.cast(Prim.F64))
    shifted = m.let("shifted", fma(wide, 1 / HALF_PI[0], magic))
    n = m.let("n", shifted - magic)
    rest = (HALF_PI[0] - _PARTS[0]) + HALF_PI[1]
    exact = m.let("exact", fma(n, -rest, fma(n, -_PARTS[0], wide)))
    r = m.let("r", exact.cast(Prim.F32))
    low = m.let("low", (exact - r.cast(Prim.F64)).cast(Prim.F32))
    return m.let("quadrant", shifted.bitcast(Prim.I64).cast(Prim.I32)), r, low

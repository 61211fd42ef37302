"""The scalar meaning of every elementwise op: name -> expression.

    scalar_function("tanh")(x)
    scalar_expression("maximum", [a, b])
    scalar_function("cast")(x, to=DType.I32, rounding="away")

Operands are `E`s of one machine type (f32, f64, an integer type or bool; 16-bit floats are
computed as f32). Adding a simple op is one line in `_TABLE`. Complex numbers are made of
these by `complex_scalar`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rlx.codegen.loops.expr import E, binary, call, compare, const, maximum, minimum, select
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.math.arithmetic import (
    divide_integers,
    integer_power,
    modulo,
)
from rlx.codegen.loops.math.generators import philox4x32, threefry2x32
from rlx.codegen.loops.math.integers import to_integer
from rlx.codegen.loops.math.storage import f64_to_f32_odd, rounded
from rlx.codegen.loops.nodes import BinaryOp, CompareOp, Const, Prim, Splat, UnaryOp, storage
from rlx.errors import InternalError
from rlx.ir.dtype import DType

ScalarFunction = Callable[..., E]


def scalar_function(name: str) -> ScalarFunction:
    """Return the function that builds op `name` from operand expressions."""
    try:
        return _TABLE[name]
    except KeyError:
        raise InternalError(f"{name}: no scalar function; add it to loops/scalar.py") from None


def scalar_expression(name: str, operands: Sequence[E]) -> E:
    """Return op `name` applied to operand expressions."""
    return scalar_function(name)(*operands)


def is_library_function(name: str) -> bool:
    """True if op `name` computes floats by a function of the math library: some tens of steps."""
    return name in _LIBRARY


def truth(x: E) -> E:
    """`x != 0` as a bool."""
    return x if x.type.prim is Prim.BOOL else x.ne(0)


def _math(name: str) -> ScalarFunction:
    """An op that is a function of the math library."""

    def build(*operands: E) -> E:
        return call(build_function(name, operands[0].type.prim), *operands)

    return build


def _rounding(op: UnaryOp) -> ScalarFunction:
    """Integers are round already."""
    return lambda x: x.unary(op) if x.type.prim.is_float else x


def _logical(op: BinaryOp) -> ScalarFunction:
    return lambda a, b: binary(op, truth(a), truth(b))


def _ordered(op: CompareOp) -> ScalarFunction:
    """Bools compare as 0 and 1."""

    def build(a: E, b: E) -> E:
        if a.type.prim is Prim.BOOL:
            a, b = a.cast(Prim.U8), b.cast(Prim.U8)
        return compare(op, a, b)

    return build


def _sign(x: E) -> E:
    one, zero = const(1, x.type.prim), const(0, x.type.prim)
    positive = select(x > 0, one, select(x.eq(0), zero, x))
    return positive if x.type.prim.is_unsigned else select(x < 0, -one, positive)


def _maximum(a: E, b: E) -> E:
    if a.type.prim is Prim.BOOL:
        return a | b
    if a.type.prim.is_float and not _is_number(a):
        return maximum(b, a) if _is_number(b) else select(a.ne(a), a, maximum(a, b))
    return maximum(a, b)


def _minimum(a: E, b: E) -> E:
    if a.type.prim is Prim.BOOL:
        return a & b
    if a.type.prim.is_float and not _is_number(a):
        return minimum(b, a) if _is_number(b) else select(a.ne(a), a, minimum(a, b))
    return minimum(a, b)


def _is_number(x: E) -> bool:
    """True for a literal that is no NaN: the other operand's NaN comes second."""
    node = x.node.x if isinstance(x.node, Splat) else x.node
    value = node.value if isinstance(node, Const) else math.nan
    return value == value


def _divide(a: E, b: E) -> E:
    return a / b if a.type.prim.is_float else divide_integers(a, b)


def _power(a: E, b: E) -> E:
    if a.type.prim.is_float:
        return _math("pow")(a, b)
    return call(integer_power(a.type.prim), a, b)


def _shift_left(a: E, b: E) -> E:
    if _is_in_range(b):
        return a << b
    return select(_within(b), a << _in_range(b), const(0, a.type.prim))


def _shift_right(a: E, b: E) -> E:
    """Beyond the last bit there are only copies of the sign."""
    if _is_in_range(b):
        return a >> b
    last = const(a.type.prim.size * 8 - 1, b.type.prim)
    if a.type.prim.is_unsigned:
        return select(_within(b), a >> _in_range(b), const(0, a.type.prim))
    return a >> select(_within(b), b, last)


def _is_in_range(shift: E) -> bool:
    node = shift.node
    return isinstance(node, Const) and 0 <= node.value < shift.type.prim.size * 8


def _within(shift: E) -> E:
    below = shift < shift.type.prim.size * 8
    return below if shift.type.prim.is_unsigned else (shift >= 0) & below


def _in_range(shift: E) -> E:
    """The machine's shifts are defined for distances below the number of bits alone."""
    return shift & const(shift.type.prim.size * 8 - 1, shift.type.prim)


def _is_finite(x: E) -> E:
    return abs(x) < float("inf") if x.type.prim.is_float else x.eq(x)


def cast(x: E, *, to: DType, rounding: str = "trunc") -> E:
    """Convert as the op `cast` does: float to integer saturates and maps NaN to 0; a 16-bit
    float target rounds, once, and stays in f32."""
    if to is DType.BOOL:
        return truth(x)
    if to.is_low_precision:
        return rounded(_to_single(x), to)
    target = storage(to)
    if x.type.prim.is_float and target.is_int:
        return call(to_integer(x.type.prim, target, away=rounding == "away"), x)
    return x.cast(target)


def _to_single(x: E) -> E:
    """Convert to f32 so that rounding to 16 bits afterwards is the only rounding that counts."""
    prim = x.type.prim
    if prim.is_int and prim.size == 8:
        # Some 52 bits suffice if the last one says whether anything was lost.
        sticky = (x ^ (x & 2047)) | select((x & 2047).ne(0), const(2048, prim), const(0, prim))
        small = x < 2**53
        if prim.is_signed:
            small = small & (x > -(2**53))
        x = select(small, x, sticky)
    if prim is Prim.F64 or (prim.is_int and prim.size >= 4):
        return call(f64_to_f32_odd, x.cast(Prim.F64))
    return x.cast(Prim.F32)


_MATH = (
    "exp exp2 expm1 log log1p log2 sigmoid erf erfc erf_inv gelu gelu_approx silu mish"
    " sinh cosh tanh asinh acosh atanh sin cos tan asin acos atan atan2"
)
_LIBRARY = frozenset((*_MATH.split(), "pow"))
_TABLE: dict[str, ScalarFunction] = {
    **{name: _math(name) for name in _MATH.split()},
    "neg": lambda x: -x,
    "abs": lambda x: x if x.type.prim.is_unsigned else abs(x),
    "sign": _sign,
    "sqrt": lambda x: x.unary(UnaryOp.SQRT),
    "rsqrt": lambda x: 1.0 / x.unary(UnaryOp.SQRT),  # two roundings: below 1.5 ulp
    "reciprocal": lambda x: _divide(const(1, x.type.prim, x.type.lanes), x),
    "square": lambda x: x * x,
    "relu": lambda x: maximum(0, x),  # this order keeps NaN
    "round": _rounding(UnaryOp.ROUND_EVEN),
    "floor": _rounding(UnaryOp.FLOOR),
    "ceil": _rounding(UnaryOp.CEIL),
    "trunc": _rounding(UnaryOp.TRUNC),
    "is_nan": lambda x: x.ne(x),
    "is_finite": _is_finite,
    "logical_not": lambda x: ~truth(x),
    "logical_and": _logical(BinaryOp.AND),
    "logical_or": _logical(BinaryOp.OR),
    "logical_xor": _logical(BinaryOp.XOR),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "mod": modulo,
    "pow": _power,
    "maximum": _maximum,
    "minimum": _minimum,
    "eq": lambda a, b: a.eq(b),
    "ne": lambda a, b: a.ne(b),
    "lt": _ordered(CompareOp.LT),
    "le": _ordered(CompareOp.LE),
    "gt": _ordered(CompareOp.GT),
    "ge": _ordered(CompareOp.GE),
    "where": lambda condition, a, b: select(truth(condition), a, b),
    "cast": cast,
    "stop_gradient": lambda x: x,
    "philox4x32": lambda *words, word: call(philox4x32(word), *words),
    "threefry2x32": lambda *words, word: call(threefry2x32(word), *words),
}

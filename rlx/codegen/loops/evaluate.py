"""Evaluation of expressions on NumPy arrays, exactly as the language defines them.

A scalar expression evaluates to an array of any batch shape, a vector to a last axis of its
lanes. The interpreter uses it one element at a time, `evaluate_function` on whole sweeps:

    y = evaluate_function(exp(Prim.F32), np.linspace(-5, 5, 1_000_000, dtype=np.float32))

What C leaves undefined (a zero divisor, a shift count out of range, a float without integer
value in range) raises `InternalError`: the builder of the expression must rule it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.loops.bf16_dots import expanded_bf16
from rlx.codegen.loops.byte_dots import expanded
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotBf16,
    DotBytes,
    Expr,
    Fma,
    Fold,
    Function,
    Lane,
    Load,
    LookupBytes,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Unary,
    UnaryOp,
    Var,
)
from rlx.errors import InternalError

Array: TypeAlias = NDArray[Any]
Loader: TypeAlias = Callable[[Load, Array], Array]

_CHUNK = 1 << 15  # elements per pass of a sweep: intermediates stay in the cache


def numpy_dtype(prim: Prim) -> np.dtype[Any]:
    """Return the NumPy dtype that holds a machine type."""
    kind = "?" if prim is Prim.BOOL else f"{'f' if prim.is_float else prim.value[0]}{prim.size}"
    return np.dtype(kind)


def evaluate_function(function: Function, *arrays: Array) -> Array:
    """Apply a pure function to every element of equally shaped arrays."""
    flat = [
        np.ascontiguousarray(array, numpy_dtype(param.type.prim)).ravel()
        for param, array in zip(function.params, arrays, strict=True)
    ]
    result = np.empty(flat[0].size, numpy_dtype(function.result.type.prim))
    with np.errstate(all="ignore"):
        for start in range(0, result.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            result[part] = apply(function, [array[part] for array in flat])
    return result.reshape(np.shape(arrays[0]))


def apply(function: Function, arguments: list[Array]) -> Array:
    """Evaluate a function's `lets` and result on arrays, all at once."""
    scope = {param.name: x for param, x in zip(function.params, arguments, strict=True)}
    for let in function.lets:
        scope[let.var.name] = evaluate(let.value, scope)
    return evaluate(function.result, scope)


def _no_loads(load: Load, index: Array) -> Array:
    raise InternalError(f"a function must not load, but reads {load.buffer.name}[{index}]")


def evaluate(expr: Expr, scope: Mapping[str, Array], load: Loader = _no_loads) -> Array:
    """Evaluate an expression whose variables are in `scope`."""

    def at(x: Expr) -> Array:
        return evaluate(x, scope, load)

    match expr:
        case Const():
            shape = () if expr.type.lanes == 1 else (expr.type.lanes,)
            return np.full(shape, expr.value, numpy_dtype(expr.type.prim))
        case Var():
            return scope[expr.name]
        case Load():
            return load(expr, at(expr.index))
        case Unary():
            return _UNARY[expr.op](at(expr.x))
        case Binary():
            return apply_binary(expr.op, at(expr.a), at(expr.b))
        case Compare():
            return np.asarray(_COMPARE[expr.op](at(expr.a), at(expr.b)))
        case Select():
            return np.where(at(expr.condition), at(expr.a), at(expr.b))
        case Fma():
            return fused_multiply_add(at(expr.a), at(expr.b), at(expr.c))
        case DotBytes():
            return at(expanded(expr))
        case LookupBytes():
            return _looked_up(expr.table, at(expr.x))
        case DotBf16():
            return at(expanded_bf16(expr))
        case Cast():
            return _cast(at(expr.x), expr.prim)
        case Bitcast():
            return _bitcast(at(expr.x), expr)
        case Splat():
            return np.repeat(np.asarray(at(expr.x))[..., None], expr.lanes, axis=-1)
        case Ramp():
            base = np.asarray(at(expr.base))
            return base[..., None] + np.arange(expr.lanes, dtype=base.dtype)
        case Lane():
            return np.asarray(at(expr.x)[..., expr.lane])
        case Fold():
            return fold_lanes(expr.op, at(expr.x))
        case Shuffle():
            return np.concatenate([at(expr.a), at(expr.b)], axis=-1)[..., list(expr.positions)]
        case Call():
            return apply(expr.function, [at(x) for x in expr.args])
        case _:
            assert_never(expr)


def _looked_up(table: tuple[int, ...], words: Array) -> Array:
    if np.any(words & 0xF0F0F0F0):
        raise InternalError(f"a byte counts past a table of {len(table)}")
    bytes = np.ascontiguousarray(words, "<u4").view(np.uint8)
    found = np.array(table, np.uint8)[bytes].view("<u4")
    return np.asarray(found.reshape(words.shape), words.dtype)


def fold_lanes(op: BinaryOp, x: Array) -> Array:
    """Combine lanes [0, n/2) with [n/2, n) until one is left."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = apply_binary(op, x[..., :half], x[..., half:])
    return np.asarray(x[..., 0])


def apply_binary(op: BinaryOp, a: Array, b: Array) -> Array:
    """`a op b` for arrays of one machine type."""
    return np.asarray(_BINARY[op](a, b), a.dtype)


def _negate(x: Array) -> Array:
    return np.asarray(np.negative(x), x.dtype)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b), a.dtype)
    _check_divisor(a, b)
    return np.asarray((a - np.fmod(a, b)) // b, a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    _check_divisor(a, b)
    return np.asarray(np.fmod(a, b), a.dtype)


def _check_divisor(a: Array, b: Array) -> None:
    if np.any(b == 0):
        raise InternalError("integer division by zero")
    if a.dtype.kind == "i" and np.any((a == np.iinfo(a.dtype).min) & (b == -1)):
        raise InternalError("integer division overflows: the least value by -1")


def _shift(shift: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def checked(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        if np.any((b < 0) | (b >= bits)):
            raise InternalError(f"shift count outside [0, {bits})")
        return shift(a, b)

    return checked


def _logical_shift_right(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.asarray(np.right_shift(a.astype(unsigned), b.astype(unsigned))).astype(a.dtype)


def _bitcast(x: Array, expr: Bitcast) -> Array:
    given, made = expr.x.type.lanes, expr.type.lanes
    outer = np.shape(x)[: np.ndim(x) - (given > 1)]
    target = numpy_dtype(expr.prim)
    return np.ascontiguousarray(x).view(target).reshape((*outer, made) if made > 1 else outer)


def _cast(x: Array, prim: Prim) -> Array:
    target = numpy_dtype(prim)
    if x.dtype.kind == "f" and prim.is_int:
        low, high = float(np.iinfo(target).min), float(int(np.iinfo(target).max) + 1)
        whole = np.trunc(x.astype(np.float64))
        if not np.all((whole >= low) & (whole < high)):
            raise InternalError(f"cast of a float outside the range of {prim}")
    return np.asarray(x != 0 if prim is Prim.BOOL else np.asarray(x).astype(target))


_UNARY: dict[UnaryOp, Callable[[Array], Array]] = {
    UnaryOp.NEG: _negate,
    UnaryOp.ABS: np.abs,
    UnaryOp.NOT: np.invert,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.FLOOR: np.floor,
    UnaryOp.CEIL: np.ceil,
    UnaryOp.TRUNC: np.trunc,
    UnaryOp.ROUND_EVEN: np.rint,
}
_BINARY: dict[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: _divide,
    BinaryOp.MOD: _remainder,
    BinaryOp.MIN: lambda a, b: np.where(a < b, a, b),
    BinaryOp.MAX: lambda a, b: np.where(a > b, a, b),
    BinaryOp.AND: np.bitwise_and,
    BinaryOp.OR: np.bitwise_or,
    BinaryOp.XOR: np.bitwise_xor,
    BinaryOp.SHL: _shift(np.left_shift),
    BinaryOp.SHR: _shift(np.right_shift),
    BinaryOp.LSHR: _shift(_logical_shift_right),
}
_COMPARE: dict[CompareOp, Callable[[Array, Array], Array]] = {
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.GT: np.greater,
    CompareOp.GE: np.greater_equal,
}


# Fused multiply-add with one rounding


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    return _fma_f32(a, b, c) if a.dtype == np.float32 else _fma_f64(a, b, c)


def _fma_f32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in f64. Their sum there is rounded a second time, to f32, which differs
    from one rounding only if the first one is the middle between two floats: such sums are
    rounded to odd (Boldo and Melquiond, 2008)."""
    product, wide = a.astype(np.float64) * b, c.astype(np.float64)
    total: Array = np.atleast_1d(product + wide)
    bits = total.view(np.int64)
    unsure = ((bits & _BELOW_F32) == _MIDDLE) | (np.abs(total) < _NORMAL)
    if unsure.any():
        at = unsure.reshape(product.shape)
        total[unsure] = _sum_rounded_to_odd(product[at], wide[at])
    return total.astype(np.float32).reshape(product.shape)


_BELOW_F32 = (1 << 29) - 1
"""Bits of an f64's significand that an f32 lacks."""

_MIDDLE = 1 << 28

_NORMAL = 2.0**-125
"""Below it an f32 has fewer bits, and the middle is elsewhere."""


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """`a + b` rounded, and the rounding error, exactly (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _sum_rounded_to_odd(a: Array, b: Array) -> Array:
    """`a + b` in f64, rounded to the neighbor with an odd significand unless exact."""
    total, error = _two_sum(a, b)
    bits = np.ascontiguousarray(total).view(np.int64).reshape(total.shape)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    plain = a * b + c
    exponents = [np.frexp(x)[1] for x in (a, b, c)]
    normal = (a != 0) & (b != 0) & (np.abs(exponents[0] + exponents[1]) < 900)
    fast = normal & ((c == 0) | (np.abs(exponents[2]) < 900)) & np.isfinite(plain)
    fast &= (np.abs(exponents[0]) < 900) & (np.abs(exponents[1]) < 900)
    result = np.where(fast, _fma_f64_in_range(a, b, c), plain)
    exact = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0) & ~fast
    for position in zip(*np.nonzero(np.atleast_1d(exact)), strict=True):
        at = position if exact.ndim else ()
        result[at] = _fma_exact(float(a[at]), float(b[at]), float(c[at]))
    return result


def _fma_f64_in_range(a: Array, b: Array, c: Array) -> Array:
    """Where neither overflow nor underflow happens (Boldo and Melquiond, 2008)."""
    product, low = _two_product(a, b)
    tail, tail_error = _two_sum(c, low)
    head, head_error = _two_sum(product, tail)
    return head + _sum_rounded_to_odd(tail_error, head_error)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """`a * b` rounded, and the rounding error, exactly (Dekker)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    product = a * b
    return product, a_low * b_low - (
        ((product - a_high * b_high) - a_low * b_high) - a_high * b_low
    )


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0  # 2**27 + 1 (Veltkamp)
    high = scaled - (scaled - x)
    return high, x - high


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")

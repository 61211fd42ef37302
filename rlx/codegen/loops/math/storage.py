"""Conversions between f32 and the 16-bit floats, by bits: branch-free and vectorizable."""

from __future__ import annotations

from rlx.codegen.loops.expr import E, call, const, lshr, maximum, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Call, Function, Prim
from rlx.ir.dtype import DType

_INFINITY = 0x7F800000


def _f16_to_f32(m: FunctionBuilder, h: E) -> E:
    bits = m.let("bits", h.cast(Prim.U32))
    moved = m.let("moved", (bits & 0x7FFF) << 13)
    scaled = (moved.bitcast(Prim.F32) * 2.0**112).bitcast(Prim.U32)  # normalizes subnormals
    special = (bits & 0x7C00).eq(0x7C00)
    magnitude = select(special, moved | _INFINITY, scaled)
    return (magnitude | ((bits & 0x8000) << 16)).bitcast(Prim.F32)


def _f32_to_f16(m: FunctionBuilder, x: E) -> E:
    bits = m.let("bits", x.bitcast(Prim.U32))
    magnitude = m.let("magnitude", bits & 0x7FFFFFFF)
    rounded = magnitude + (const(0xFFF, Prim.U32) + (lshr(magnitude, 13) & 1))
    normal = lshr(rounded - (112 << 23), 13)
    # Adding 1/2 leaves the multiple of 2**-24 that a subnormal result counts in the low bits.
    counted = (magnitude.bitcast(Prim.F32) + 0.5).bitcast(Prim.U32) - 0x3F000000
    finite = select(magnitude < 0x38800000, counted, normal)
    bounded = select(magnitude < 0x477FF000, finite, const(0x7C00, Prim.U32))
    nan = (lshr(magnitude, 13) & 0x3FF) | 0x7E00
    result = select(magnitude > _INFINITY, nan, bounded)
    return (result | (lshr(bits, 16) & 0x8000)).cast(Prim.U16)


def _bf16_to_f32(m: FunctionBuilder, h: E) -> E:
    return m.let("bits", h.cast(Prim.U32) << 16).bitcast(Prim.F32)


def _f32_to_bf16(m: FunctionBuilder, x: E) -> E:
    bits = m.let("bits", x.bitcast(Prim.U32))
    upper = m.let("upper", lshr(bits, 16))
    rounded = lshr(bits + ((upper & 1) + 0x7FFF), 16)
    is_nan = (bits & 0x7FFFFFFF) > _INFINITY
    return select(is_nan, upper | 0x40, rounded).cast(Prim.U16)


def _round_to_f16(m: FunctionBuilder, x: E) -> E:
    bits = m.let("bits", x.bitcast(Prim.U32))
    magnitude = m.let("magnitude", bits & 0x7FFFFFFF)
    normal = (magnitude + (const(0xFFF, Prim.U32) + (lshr(magnitude, 13) & 1))) & 0xFFFFE000
    # A subnormal is a multiple of 2**-24, which is the last bit of 1/2.
    small = ((magnitude.bitcast(Prim.F32) + 0.5) - 0.5).bitcast(Prim.U32)
    finite = select(magnitude < 0x38800000, small, normal)
    beyond = maximum(magnitude, const(_INFINITY, Prim.U32))  # a NaN stays
    result = select(magnitude < 0x477FF000, finite, beyond)
    return (result | (bits & 0x80000000)).bitcast(Prim.F32)


def _round_to_bf16(m: FunctionBuilder, x: E) -> E:
    bits = m.let("bits", x.bitcast(Prim.U32))
    rounded = bits + ((lshr(bits, 16) & 1) + 0x7FFF)
    is_nan = (bits & 0x7FFFFFFF) > _INFINITY
    return (select(is_nan, bits | 0x400000, rounded) & 0xFFFF0000).bitcast(Prim.F32)


def _round_sum_to_bf16(m: FunctionBuilder, x: E) -> E:
    bits = m.let("bits", x.bitcast(Prim.U32))
    return ((bits + ((lshr(bits, 16) & 1) + 0x7FFF)) & 0xFFFF0000).bitcast(Prim.F32)


def _f64_to_f32_odd(m: FunctionBuilder, x: E) -> E:
    """Rounding to odd keeps a second rounding, to 16 bits, from doubling the error."""
    near = m.let("near", x.cast(Prim.F32))
    back = m.let("back", near.cast(Prim.F64))
    bits = m.let("bits", near.bitcast(Prim.I32))
    adjust = (bits & 1).eq(0) & back.ne(x) & (abs(back) < float("inf"))
    step = select(abs(back) < abs(x), const(1, Prim.I32), const(-1, Prim.I32))
    return select(adjust, bits + step, bits).bitcast(Prim.F32)


_CONVERSIONS = {
    "f16_to_f32": (_f16_to_f32, Prim.U16, "The value of f16 bits, exactly."),
    "f32_to_f16": (_f32_to_f16, Prim.F32, "The bits of the nearest f16, ties to even."),
    "bf16_to_f32": (_bf16_to_f32, Prim.U16, "The value of bf16 bits, exactly."),
    "f32_to_bf16": (_f32_to_bf16, Prim.F32, "The bits of the nearest bf16, ties to even."),
    "round_to_f16": (_round_to_f16, Prim.F32, "The nearest f16, ties to even, as f32."),
    "round_to_bf16": (_round_to_bf16, Prim.F32, "The nearest bf16, ties to even, as f32."),
    "round_sum_to_bf16": (
        _round_sum_to_bf16,
        Prim.F32,
        "`round_to_bf16` of what arithmetic makes of bf16: its NaNs fit and need no care.",
    ),
    "f64_to_f32_odd": (_f64_to_f32_odd, Prim.F64, "The f32 beside x, odd unless exact."),
}


def _conversion(name: str) -> Function:
    build, prim, doc = _CONVERSIONS[name]
    builder = FunctionBuilder(Prim.F32)
    param = builder.parameter("x", prim)
    result = build(builder, E(param))
    return Function(name, (param,), tuple(builder.lets), result.node, doc)


f16_to_f32 = _conversion("f16_to_f32")
f32_to_f16 = _conversion("f32_to_f16")
bf16_to_f32 = _conversion("bf16_to_f32")
f32_to_bf16 = _conversion("f32_to_bf16")
round_to_f16 = _conversion("round_to_f16")
round_to_bf16 = _conversion("round_to_bf16")
round_sum_to_bf16 = _conversion("round_sum_to_bf16")
f64_to_f32_odd = _conversion("f64_to_f32_odd")


def from_storage(x: E, dtype: DType) -> E:
    """A loaded element as the machine type it is computed in: 16-bit floats become f32."""
    if not dtype.is_low_precision:
        return x
    return call(f16_to_f32 if dtype is DType.F16 else bf16_to_f32, x)


def to_storage(x: E, dtype: DType) -> E:
    """A computed element as it is stored: f32 is rounded to a 16-bit float's bits."""
    if not dtype.is_low_precision:
        return x
    if isinstance(x.node, Call) and x.node.function in _ROUNDINGS[dtype]:
        x = E(x.node.args[0])  # rounded once, not twice
    return call(f32_to_f16 if dtype is DType.F16 else f32_to_bf16, x)


def rounded(x: E, dtype: DType, *, is_arithmetic: bool = False) -> E:
    """A computed element with the precision of `dtype`, still in the type it is computed in.

    `is_arithmetic`: the machine computed it, without tricks of bits, from elements of `dtype`.
    """
    if not dtype.is_low_precision:
        return x
    careful, *plain = _ROUNDINGS[dtype]
    if isinstance(x.node, Call) and x.node.function in _ROUNDINGS[dtype]:
        return x
    return call(plain[0] if plain and is_arithmetic else careful, x)


_ROUNDINGS = {DType.F16: (round_to_f16,), DType.BF16: (round_to_bf16, round_sum_to_bf16)}
"""What makes f32 as coarse as a 16-bit float; the second for results of arithmetic alone."""

"""Conversions between f32 and floats of 8 and 16 bits, by bits: branch-free and vectorizable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlx.codegen.loops.expr import E, call, const, lshr, maximum, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Call, Function, Prim
from rlx.dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class _Byte:
    """A float of eight bits: its fraction, the bias of its exponent, and its last number."""

    fraction: int
    bias: int
    beyond: float
    """The least that is rounded to no number; `infinity` is what it becomes."""
    infinity: int
    nan: int

    def widen(self, m: FunctionBuilder, h: E) -> E:
        bits = m.let("bits", h.cast(Prim.U32))
        magnitude = m.let("magnitude", bits & 0x7F)
        moved = m.let("moved", magnitude << (23 - self.fraction))
        scaled = (moved.bitcast(Prim.F32) * 2.0 ** (127 - self.bias)).bitcast(Prim.U32)
        if self.infinity == self.nan:
            special, number = magnitude.eq(self.nan), moved | (_INFINITY | 0x400000)
        else:
            special, number = magnitude >= self.infinity, moved | _INFINITY
        return (select(special, number, scaled) | ((bits & 0x80) << 24)).bitcast(Prim.F32)

    def narrow(self, m: FunctionBuilder, x: E) -> E:
        lost = 23 - self.fraction
        bits = m.let("bits", x.bitcast(Prim.U32))
        magnitude = m.let("magnitude", bits & 0x7FFFFFFF)
        half = const((1 << (lost - 1)) - 1, Prim.U32)
        rounded = magnitude + (half + (lshr(magnitude, lost) & 1))
        normal = lshr(rounded - ((127 - self.bias) << 23), lost)
        # The last bit of this number is the least subnormal, as for f16.
        unit = 2.0 ** (24 - self.bias - self.fraction)
        counted = (magnitude.bitcast(Prim.F32) + unit).bitcast(Prim.U32) - _bits(unit)
        finite = select(magnitude < _bits(2.0 ** (1 - self.bias)), counted, normal)
        bounded = select(magnitude < _bits(self.beyond), finite, const(self.infinity, Prim.U32))
        result = select(magnitude > _INFINITY, const(self.nan, Prim.U32), bounded)
        return (result | (lshr(bits, 24) & 0x80)).cast(Prim.U8)


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


_BYTES = {
    DType.F8_E4M3FN: _Byte(3, 7, float(np.nextafter(np.float32(464), np.float32(500))), 0x7F, 0x7F),
    DType.F8_E5M2: _Byte(2, 15, 61440.0, 0x7C, 0x7E),
}
"""Floats of eight bits, by the parameters in which they differ."""


def _f64_to_f32_odd(m: FunctionBuilder, x: E) -> E:
    """Rounding to odd keeps a second rounding, to 16 bits, from doubling the error."""
    near = m.let("near", x.cast(Prim.F32))
    back = m.let("back", near.cast(Prim.F64))
    bits = m.let("bits", near.bitcast(Prim.I32))
    adjust = (bits & 1).eq(0) & back.ne(x) & (abs(back) < float("inf"))
    step = select(abs(back) < abs(x), const(1, Prim.I32), const(-1, Prim.I32))
    return select(adjust, bits + step, bits).bitcast(Prim.F32)


def _function(
    name: str, build: Callable[[FunctionBuilder, E], E], prim: Prim, doc: str
) -> Function:
    builder = FunctionBuilder(Prim.F32)
    param = builder.parameter("x", prim)
    result = build(builder, E(param))
    return Function(name, (param,), tuple(builder.lets), result.node, doc)


def _widening(name: str, build: Callable[[FunctionBuilder, E], E], bits: Prim) -> Function:
    return _function(f"{name}_to_f32", build, bits, f"The value of {name} bits, exactly.")


def _narrowing(name: str, build: Callable[[FunctionBuilder, E], E], more: str = "") -> Function:
    doc = f"The bits of the nearest {name}, ties to even{more}."
    return _function(f"f32_to_{name}", build, Prim.F32, doc)


def _rounding(name: str, build: Callable[[FunctionBuilder, E], E]) -> Function:
    doc = f"The nearest {name}, ties to even, as f32."
    return _function(f"round_to_{name}", build, Prim.F32, doc)


f16_to_f32 = _widening("f16", _f16_to_f32, Prim.U16)
f32_to_f16 = _narrowing("f16", _f32_to_f16)
round_to_f16 = _rounding("f16", _round_to_f16)
bf16_to_f32 = _widening("bf16", _bf16_to_f32, Prim.U16)
f32_to_bf16 = _narrowing("bf16", _f32_to_bf16)
round_to_bf16 = _rounding("bf16", _round_to_bf16)
round_sum_to_bf16 = _function(
    "round_sum_to_bf16", _round_sum_to_bf16, Prim.F32,
    "`round_to_bf16` of what arithmetic makes of bf16: its NaNs fit and need no care.",
)  # fmt: skip
f64_to_f32_odd = _function(
    "f64_to_f32_odd", _f64_to_f32_odd, Prim.F64, "The f32 next to x, odd unless exact."
)


@dataclass(frozen=True, slots=True)
class NarrowFloat:
    """The conversions between f32 and a float that is stored in fewer bits."""

    widen: Function
    narrow: Function
    round: Function
    """To the nearest float of the narrow type, as f32."""
    round_sum: Function
    """The same of what arithmetic makes of such floats."""

    @classmethod
    def of_byte(cls, name: str, byte: _Byte) -> NarrowFloat:
        """Return those of a float of eight bits.

        It is rounded to the byte and back: nothing is computed in these types, so nothing waits.
        """
        more = f"; NaN beyond {byte.beyond:.0f}" if byte.infinity == byte.nan else ""
        rounding = _rounding(name, lambda m, x: byte.widen(m, byte.narrow(m, x)))
        narrowing = _narrowing(name, byte.narrow, more)
        return cls(_widening(name, byte.widen, Prim.U8), narrowing, rounding, rounding)


NARROW_FLOATS = {
    DType.F16: NarrowFloat(f16_to_f32, f32_to_f16, round_to_f16, round_to_f16),
    DType.BF16: NarrowFloat(bf16_to_f32, f32_to_bf16, round_to_bf16, round_sum_to_bf16),
    **{dtype: NarrowFloat.of_byte(dtype.value, byte) for dtype, byte in _BYTES.items()},
}
"""Of each dtype that `is_low_precision`."""


def from_storage(x: E, dtype: DType) -> E:
    """A loaded element as the machine type it is computed in: narrow floats become f32."""
    return call(NARROW_FLOATS[dtype].widen, x) if dtype.is_low_precision else x


def to_storage(x: E, dtype: DType) -> E:
    """A computed element as it is stored: f32 is rounded to a narrow float's bits.

    What was loaded, and nothing computed from, is stored as it lay: no conversion there and back.
    """
    if not dtype.is_low_precision:
        return x
    if isinstance(x.node, Call) and x.node.function is NARROW_FLOATS[dtype].widen:
        return E(x.node.args[0])
    return call(NARROW_FLOATS[dtype].narrow, _unrounded(x, dtype))  # once, not twice


def rounded(x: E, dtype: DType, *, is_arithmetic: bool = False) -> E:
    """A computed element with the precision of `dtype`, still in the type it is computed in.

    `is_arithmetic`: the machine computed it, without tricks of bits, from elements of `dtype`.
    """
    if not dtype.is_low_precision or _unrounded(x, dtype) is not x:
        return x
    narrow = NARROW_FLOATS[dtype]
    return call(narrow.round_sum if is_arithmetic else narrow.round, x)


def _unrounded(x: E, dtype: DType) -> E:
    """What `rounded` was given to make x; x itself where it made no such call."""
    narrow = NARROW_FLOATS[dtype]
    if isinstance(x.node, Call) and x.node.function in (narrow.round, narrow.round_sum):
        return E(x.node.args[0])
    return x

"""Rules of elementwise operations, of StableHLO and CHLO."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.stablehlo.interpret import Operation, rule
from rlx.tracing.trace import element_type

_FUNCTIONS = {
    "stablehlo.abs": lax.abs,
    "stablehlo.add": lax.add,
    "stablehlo.and": lax.bitwise_and,
    "stablehlo.atan2": lax.atan2,
    "stablehlo.cbrt": lax.cbrt,
    "stablehlo.ceil": lax.ceil,
    "stablehlo.clamp": lax.clamp,
    "stablehlo.complex": lax.complex,
    "stablehlo.cosine": lax.cos,
    "stablehlo.count_leading_zeros": lax.clz,
    "stablehlo.divide": lax.div,
    "stablehlo.exponential": lax.exp,
    "stablehlo.exponential_minus_one": lax.expm1,
    "stablehlo.floor": lax.floor,
    "stablehlo.imag": lax.imag,
    "stablehlo.is_finite": lax.is_finite,
    "stablehlo.log": lax.log,
    "stablehlo.log_plus_one": lax.log1p,
    "stablehlo.logistic": lax.logistic,
    "stablehlo.maximum": lax.max,
    "stablehlo.minimum": lax.min,
    "stablehlo.multiply": lax.mul,
    "stablehlo.negate": lax.neg,
    "stablehlo.not": lax.bitwise_not,
    "stablehlo.or": lax.bitwise_or,
    "stablehlo.popcnt": lax.population_count,
    "stablehlo.power": lax.pow,
    "stablehlo.real": lax.real,
    "stablehlo.remainder": lax.rem,
    "stablehlo.rsqrt": lax.rsqrt,
    "stablehlo.select": lax.select,
    "stablehlo.shift_left": lax.shift_left,
    "stablehlo.shift_right_arithmetic": lax.shift_right_arithmetic,
    "stablehlo.shift_right_logical": lax.shift_right_logical,
    "stablehlo.sign": lax.sign,
    "stablehlo.sine": lax.sin,
    "stablehlo.sqrt": lax.sqrt,
    "stablehlo.subtract": lax.sub,
    "stablehlo.tan": lax.tan,
    "stablehlo.tanh": lax.tanh,
    "stablehlo.xor": lax.bitwise_xor,
    "chlo.acos": lax.acos,
    "chlo.acosh": lax.acosh,
    "chlo.asin": lax.asin,
    "chlo.asinh": lax.asinh,
    "chlo.atan": lax.atan,
    "chlo.atanh": lax.atanh,
    "chlo.bessel_i1e": lax.bessel_i1e,
    "chlo.conj": lax.conj,
    "chlo.cosh": lax.cosh,
    "chlo.digamma": lax.digamma,
    "chlo.erf": lax.erf,
    "chlo.erf_inv": lax.erf_inv,
    "chlo.erfc": lax.erfc,
    "chlo.is_inf": rnp.isinf,
    "chlo.is_neg_inf": rnp.isneginf,
    "chlo.is_pos_inf": rnp.isposinf,
    "chlo.lgamma": lax.lgamma,
    "chlo.mulhi": lax.mulhi,
    "chlo.next_after": lax.nextafter,
    "chlo.polygamma": lax.polygamma,
    "chlo.sinh": lax.sinh,
    "chlo.square": lax.square,
    "chlo.tan": lax.tan,
    "chlo.zeta": lax.zeta,
}
_OF_BOOLS = {
    "stablehlo.add": lax.bitwise_or,
    "stablehlo.maximum": lax.bitwise_or,
    "stablehlo.minimum": lax.bitwise_and,
    "stablehlo.multiply": lax.bitwise_and,
}
_BROADCASTING = (
    "add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "or", "power",
    "remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical",
    "subtract", "xor",
)  # fmt: skip
"""Operations of CHLO on operands that broadcast."""


def function_of(name: str, dtype: DType) -> Any:
    """Return the function of `rlx.lax` that an operation is for a dtype, or None."""
    is_bool = dtype is DType.BOOL and name in _OF_BOOLS
    return _OF_BOOLS[name] if is_bool else _FUNCTIONS.get(name)


def _applied(name: str) -> Any:
    def apply(_: Operation, *operands: Any) -> Any:
        return function_of(name, element_type(operands[0]).dtype)(*operands)

    return apply


for _name in _FUNCTIONS:
    rule(_name)(_applied(_name))


def _aligned(operation: Operation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return operands whose axes are aligned from the last on."""
    places = operation.attribute("broadcast_dimensions")
    if places is None or len(operands) != 2:
        return operands
    axes = operation.integers("broadcast_dimensions")
    ranks = [len(rnp.shape(x)) for x in operands]
    short, full = (0, 1) if ranks[0] < ranks[1] else (1, 0)
    if ranks[short] == ranks[full]:
        return operands
    shape = [1] * ranks[full]
    for axis, extent in zip(axes, rnp.shape(operands[short]), strict=True):
        shape[axis] = extent
    found = list(operands)
    found[short] = rnp.reshape(operands[short], tuple(shape))
    return tuple(found)


def _broadcasting(name: str) -> Any:
    apply = _applied(name)

    def aligned(operation: Operation, *operands: Any) -> Any:
        return apply(operation, *_aligned(operation, operands))

    return aligned


for _name in _BROADCASTING:
    rule(f"chlo.broadcast_{_name}")(_broadcasting(f"stablehlo.{_name}"))
for _name in ("next_after", "polygamma", "zeta"):
    rule(f"chlo.broadcast_{_name}")(_broadcasting(f"chlo.{_name}"))


_COMPARED = {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}


@rule("stablehlo.compare")
def compare(operation: Operation, a: Any, b: Any) -> Any:
    """A comparison; TOTALORDER is IEEE 754's total order of floats."""
    direction = operation.word("comparison_direction")
    is_float = element_type(a).dtype.is_float
    if operation.word("compare_type") != "TOTALORDER" or not is_float:
        return _COMPARED[direction](a, b)
    if direction in ("GT", "GE"):
        a, b = b, a
    if direction in ("EQ", "NE"):
        same = lax.total_order_eq(a, b)
        return same if direction == "EQ" else lax.bitwise_not(same)
    return (lax.total_order_lt if direction in ("LT", "GT") else lax.total_order_le)(a, b)


@rule("chlo.broadcast_compare")
def broadcast_compare(operation: Operation, a: Any, b: Any) -> Any:
    return compare(operation, *_aligned(operation, (a, b)))


@rule("stablehlo.convert")
def convert(operation: Operation, x: Any) -> Any:
    return lax.convert_element_type(x, operation.dtype().numpy)


@rule("stablehlo.bitcast_convert")
def bitcast_convert(operation: Operation, x: Any) -> Any:
    return lax.bitcast_convert_type(x, operation.dtype().numpy)


@rule("stablehlo.reduce_precision")
def reduce_precision(operation: Operation, x: Any) -> Any:
    return lax.reduce_precision(
        x, operation.integer("exponent_bits"), operation.integer("mantissa_bits")
    )


@rule("stablehlo.round_nearest_afz")
def round_nearest_afz(_: Operation, x: Any) -> Any:
    return lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


@rule("stablehlo.round_nearest_even")
def round_nearest_even(_: Operation, x: Any) -> Any:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@rule("chlo.constant_like")
def constant_like(operation: Operation, x: Any) -> Any:
    value = operation.attribute("value")
    return lax.full_like(x, np.asarray(value.value, operation.dtype().numpy))

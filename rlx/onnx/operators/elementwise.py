"""Arithmetic, comparisons, selection, casts and activations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.op import OpDef
from rlx.onnx.registry import Static, operator
from rlx.onnx.types import dtype_of, numpy_dtype
from rlx.tracing.apply import emit


def _unary(definition: OpDef) -> Any:
    return lambda x: emit(definition, x)


for _name, _definition in {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "IsNaN": ops.is_nan,
    "Log": ops.log,
    "Mish": ops.mish,
    "Neg": ops.neg,
    "Not": ops.logical_not,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Softplus": ops.softplus,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
}.items():
    operator(_name)(_unary(_definition))


def _placed(x: Any, y: Any, axis: int | None) -> Any:
    """Return `y` with the axes that it lacks at its end: broadcasting below opset 7."""
    if axis is None:
        return y
    trailing = x.ndim - axis - y.ndim
    return rnp.reshape(y, (*y.shape, *(1,) * trailing))


def _binary(definition: OpDef) -> Any:
    def apply(a: Any, b: Any) -> Any:
        return emit(definition, a, b)

    return apply


def _binary_with_axis(definition: OpDef) -> Any:
    def apply(a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        return emit(definition, a, _placed(a, b, axis if broadcast else None))

    return apply


for _name, _definition in {
    "Add": ops.add,
    "Sub": ops.sub,
    "Mul": ops.mul,
    "Div": ops.div,
    "And": ops.logical_and,
    "Or": ops.logical_or,
    "Xor": ops.logical_xor,
    "Equal": ops.eq,
    "Greater": ops.gt,
    "Less": ops.lt,
}.items():
    operator(_name, since=7)(_binary(_definition))
    operator(_name)(_binary_with_axis(_definition))

for _name, _definition in {
    "GreaterOrEqual": ops.ge,
    "LessOrEqual": ops.le,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
}.items():
    operator(_name)(_binary(_definition))


def _folded(definition: OpDef) -> Any:
    def apply(*inputs: Any) -> Any:
        return functools.reduce(lambda a, b: emit(definition, a, b), inputs)

    return apply


operator("Max")(_folded(ops.maximum))
operator("Min")(_folded(ops.minimum))
operator("Sum")(_folded(ops.add))


@operator("Mean")
def mean(*inputs: Any) -> Any:
    total = functools.reduce(lambda a, b: emit(ops.add, a, b), inputs)
    return emit(ops.div, total, np.asarray(len(inputs), total.dtype))


@operator("Pow")
def power(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """The dtype is that of the base; it is computed in the one to which both promote.

    A known exponent that is a small whole number makes products of single or double precision.
    """
    y = _placed(x, y, axis if broadcast else None)
    is_known = isinstance(y, np.ndarray) and y.size == 1 and y.ndim <= x.ndim
    if is_known and x.dtype in (np.float32, np.float64) and y.item() in (2, 3, 4):
        return rnp.power(x, int(y.item()))
    return rnp.astype(emit(ops.pow, *_met(x, y)), x.dtype)


def _met(x: Any, y: Any) -> tuple[Any, Any]:
    common = np.promote_types(x.dtype, y.dtype) if x.dtype != y.dtype else x.dtype
    return rnp.astype(x, common), rnp.astype(y, common)


@operator("Mod")
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The sign is that of the divisor, with `fmod` that of the dividend."""
    return rnp.fmod(a, b) if fmod else emit(ops.mod, a, b)


@operator("BitShift")
def bit_shift(x: Any, y: Any, *, direction: str) -> Any:
    return emit(ops.shift_left if direction == "LEFT" else ops.shift_right, x, y)


@operator("BitwiseNot")
def bitwise_not(x: Any) -> Any:
    return rnp.bitwise_not(x)


@operator("BitCast")
def bit_cast(x: Static, *, to: int) -> Any:
    return x.view(numpy_dtype(to))


@operator("IsInf")
def is_inf(x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    infinities = rnp.isinf(x)
    if detect_negative and detect_positive:
        return infinities
    if not detect_negative and not detect_positive:
        return rnp.logical_and(infinities, False)
    signed = rnp.less(x, 0) if detect_negative else rnp.greater(x, 0)
    return rnp.logical_and(infinities, signed)


@operator("Where")
def where(condition: Any, x: Any, y: Any) -> Any:
    return emit(ops.where, condition, x, y)


@operator("Identity")
def identity(x: Any) -> Any:
    return x


@operator("Clip")
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = emit(ops.maximum, x, rnp.astype(rnp.reshape(low, ()), x.dtype))
    if high is not None:
        x = emit(ops.minimum, x, rnp.astype(rnp.reshape(high, ()), x.dtype))
    return x


@operator("Cast")
def cast(x: Any, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    del saturate, round_mode  # of dtypes with 8 bits, which `host` casts
    return rnp.astype(x, dtype_of(to))


@operator("CastLike")
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    del saturate, round_mode
    return rnp.astype(x, like.dtype)


# Activations


@operator("LeakyRelu")
def leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    return emit(ops.leaky_relu, x, slope=alpha)


@operator("Elu")
def elu(x: Any, *, alpha: float = 1.0) -> Any:
    return emit(ops.elu, x, alpha=alpha)


@operator("Celu")
def celu(x: Any, *, alpha: float = 1.0) -> Any:
    return rnp.multiply(nn.elu(rnp.divide(x, alpha)), alpha)


@operator("Selu")
def selu(x: Any, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Any:
    return rnp.multiply(emit(ops.elu, x, alpha=alpha), gamma)


@operator("PRelu")
def prelu(x: Any, slope: Any, *, node: Any) -> Any:
    """Below opset 7 the slope is one per channel; later models that mean this are taken, too."""
    is_old = node.opset < 7 or (x.ndim > 2 and slope.shape == (x.shape[1],) != x.shape[-1:])
    if is_old and slope.ndim == 1:
        slope = rnp.reshape(slope, (-1, *(1,) * (x.ndim - 2)))
    return rnp.where(rnp.less(x, 0), rnp.multiply(x, slope), x)


@operator("HardSigmoid")
def hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return rnp.clip(rnp.add(rnp.multiply(x, alpha), beta), 0, 1)


@operator("HardSwish")
def hard_swish(x: Any) -> Any:
    return emit(ops.hard_swish, x)


@operator("Softsign")
def softsign(x: Any) -> Any:
    return nn.soft_sign(x)


@operator("Shrink")
def shrink(x: Any, *, lambd: float = 0.5, bias: float = 0.0) -> Any:
    below, above = rnp.less(x, -lambd), rnp.greater(x, lambd)
    moved = rnp.where(below, rnp.add(x, bias), rnp.subtract(x, bias))
    kept = rnp.logical_or(below, above)
    return rnp.astype(rnp.where(kept, moved, 0), x.dtype)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, *, alpha: float = 1.0) -> Any:
    return rnp.where(rnp.greater(x, alpha), x, 0)


@operator("Gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return nn.gelu(x, approximate=approximate == "tanh")


@operator("Swish")
def swish(x: Any, *, alpha: float = 1.0) -> Any:
    return emit(ops.silu, x) if alpha == 1 else rnp.multiply(x, nn.sigmoid(rnp.multiply(x, alpha)))


@operator("Dropout")
def dropout(
    x: Any,
    ratio: Static = None,
    training: Static = None,
    *,
    seed: int | None = None,
) -> Any:
    """The identity, as always outside of training; random masks belong to a runtime's own."""
    del seed
    if training is not None and bool(training) and (ratio is None or float(ratio) > 0):
        raise DTypeError(
            "drops at random in training mode, which has no defined result",
            remedy="export the model for inference",
        )
    return x, rnp.ones(x.shape, "bool")

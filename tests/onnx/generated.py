"""Random nodes of the standard's operators: shapes, attributes and numbers by a seed.

case = random_case("MaxPool", np.random.default_rng(0))
case.inputs, case.attributes
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


@dataclass
class NodeCase:
    """A node: what flows in, what is known, and its attributes."""

    inputs: list[Array]
    known: list[Any] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 21
    domain: str = ""


Generator = Callable[[Rng], NodeCase]
GENERATORS: dict[str, Generator] = {}


def generates(*names: str) -> Callable[[Generator], Generator]:
    def register(made: Generator) -> Generator:
        GENERATORS.update(dict.fromkeys(names, made))
        return made

    return register


def random_case(name: str, rng: Rng) -> NodeCase:
    return GENERATORS[name](rng)


def one_of(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def number(rng: Rng, low: int, high: int) -> int:
    """Return an integer, `high` included."""
    return int(rng.integers(low, high + 1))


def numbers(rng: Rng, count: int, low: int, high: int) -> list[int]:
    return [number(rng, low, high) for _ in range(count)]


def floats(rng: Rng, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.asarray(values, np.int64)


def some_shape(rng: Rng, low: int = 1, high: int = 4) -> list[int]:
    return numbers(rng, number(rng, low, high), 1, 5)


def any_axis(rng: Rng, rank: int) -> int:
    return number(rng, -rank, rank - 1)


@generates(
    "Abs", "Acosh", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish",
    "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "Sqrt", "Tan", "Tanh", "IsNaN", "IsInf", "Identity", "Log",
)  # fmt: skip
def unary(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng)) * 3
    x.flat[0] = one_of(rng, np.nan, np.inf, -np.inf, -0.0, 0.5)
    return NodeCase([x], opset=22)


@generates("Mish")
def finite(rng: Rng) -> NodeCase:
    """At -inf the formula is NaN; rlx gives its limit."""
    return NodeCase([floats(rng, *some_shape(rng)) * 3])


@generates("Elu", "LeakyRelu", "Selu", "ThresholdedRelu", "Celu")
def with_alpha(rng: Rng) -> NodeCase:
    return NodeCase([floats(rng, *some_shape(rng))], attributes={"alpha": float(rng.random())})


@generates("HardSigmoid", "Shrink")
def two_numbers(rng: Rng) -> NodeCase:
    return NodeCase([floats(rng, *some_shape(rng))])


def broadcast(rng: Rng, count: int) -> list[list[int]]:
    """Return shapes that broadcast against each other."""
    shape = some_shape(rng)
    return [
        [one_of(rng, extent, extent, 1) for extent in shape[number(rng, 0, len(shape)) :]]
        for _ in range(count)
    ]


@generates("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "Greater", "Equal", "LessOrEqual")
def binary(rng: Rng) -> NodeCase:
    dtype = one_of(rng, np.float32, np.float64, np.int32, np.int64)
    a, b = ((floats(rng, *shape) * 9).astype(dtype) for shape in broadcast(rng, 2))
    return NodeCase([a, np.where(b == 0, np.ones((), dtype), b).astype(dtype)])


@generates("Pow")
def power(rng: Rng) -> NodeCase:
    a, b = broadcast(rng, 2)
    return NodeCase([np.abs(floats(rng, *a)), floats(rng, *b)])


@generates("Mod")
def modulus(rng: Rng) -> NodeCase:
    fmod = number(rng, 0, 1)
    dtype = one_of(rng, np.int32, np.int64, *([np.float32] if fmod else []))
    a, b = ((floats(rng, *shape) * 9).astype(dtype) for shape in broadcast(rng, 2))
    b = np.where(b == 0, np.full((), 3, dtype), b).astype(dtype)
    return NodeCase([a, b], attributes={"fmod": fmod})


@generates("BitShift")
def shift(rng: Rng) -> NodeCase:
    a, b = (rng.integers(0, 8, s).astype(np.uint32) for s in broadcast(rng, 2))
    return NodeCase([a, b], attributes={"direction": one_of(rng, "LEFT", "RIGHT")})


@generates("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(rng: Rng) -> NodeCase:
    return NodeCase([rng.integers(-99, 99, s).astype(np.int32) for s in broadcast(rng, 2)])


@generates("Where")
def where(rng: Rng) -> NodeCase:
    c, a, b = broadcast(rng, 3)
    return NodeCase([np.asarray(rng.random(c) < 0.5), floats(rng, *a), floats(rng, *b)])


@generates("Sum", "Mean")
def variadic(rng: Rng) -> NodeCase:
    return NodeCase([floats(rng, *s) for s in broadcast(rng, number(rng, 1, 4))])


@generates("Clip")
def clip(rng: Rng) -> NodeCase:
    low = one_of(rng, None, np.float32(-0.5))
    return NodeCase([floats(rng, *some_shape(rng))], [low, np.float32(0.7)])


@generates(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def reduction(rng: Rng) -> NodeCase:
    x = np.abs(floats(rng, *some_shape(rng))) + 0.1
    axes = sorted({int(a) for a in rng.integers(0, x.ndim, number(rng, 0, x.ndim))})
    how = {"keepdims": number(rng, 0, 1), "noop_with_empty_axes": number(rng, 0, 1)}
    return NodeCase([x], [ints(*axes)] if axes or number(rng, 0, 1) else [], how)


@generates("ArgMax", "ArgMin")
def extreme(rng: Rng) -> NodeCase:
    x = rng.integers(0, 3, some_shape(rng)).astype(np.float32)
    how = {"keepdims": number(rng, 0, 1), "select_last_index": number(rng, 0, 1)}
    return NodeCase([x], [], {**how, "axis": any_axis(rng, x.ndim)})


@generates("Softmax", "LogSoftmax", "Hardmax")
def normalized(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    return NodeCase([x], [], {"axis": any_axis(rng, x.ndim)}, opset=one_of(rng, 11, 13, 21))


@generates("CumSum")
def running(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    how = {"exclusive": number(rng, 0, 1), "reverse": number(rng, 0, 1)}
    return NodeCase([x], [np.asarray(any_axis(rng, x.ndim))], how)


@generates("TopK")
def largest(rng: Rng) -> NodeCase:
    x = rng.integers(0, 9, some_shape(rng)).astype(np.float32)
    axis = any_axis(rng, x.ndim)
    how = {"axis": axis, "largest": number(rng, 0, 1)}
    return NodeCase([x], [ints(number(rng, 0, x.shape[axis]))], how, outputs=2)


@generates("Transpose")
def transposed(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    return NodeCase([x], [], {"perm": [int(p) for p in rng.permutation(x.ndim)]})


@generates("Slice")
def sliced(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axes = [int(a) for a in rng.permutation(x.ndim)[: number(rng, 1, x.ndim)]]
    count = len(axes)
    steps = [one_of(rng, 1, 2, -1, -2) for _ in axes]
    return NodeCase(
        [x], [ints(*numbers(rng, count, -7, 7)), ints(*numbers(rng, count, -7, 7)),
              ints(*axes), ints(*steps)],
    )  # fmt: skip


@generates("Pad")
def padded(rng: Rng) -> NodeCase:
    x = floats(rng, *numbers(rng, number(rng, 1, 4), 3, 5))
    mode = one_of(rng, "constant", "reflect", "edge", "wrap")
    low = -1 if mode == "constant" else 0
    pads = ints(*numbers(rng, 2 * x.ndim, low, 2))
    return NodeCase([x], [pads, np.float32(1.5)], {"mode": mode})


@generates("Gather")
def gathered(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    extent = x.shape[axis]
    places = rng.integers(-extent, extent, some_shape(rng, 0, 2))
    return NodeCase([x, np.asarray(places)], [], {"axis": axis})


@generates("GatherElements")
def gathered_elements(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    shape = [number(rng, 1, extent) for extent in x.shape]
    return NodeCase([x, rng.integers(-x.shape[axis], x.shape[axis], shape)], [], {"axis": axis})


@generates("GatherND")
def gathered_parts(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng, 2, 4))
    batch = number(rng, 0, 1)
    depth = number(rng, 1, x.ndim - batch)
    lead = [*x.shape[:batch], number(rng, 1, 3)]
    parts = [rng.integers(-e, e, lead) for e in x.shape[batch : batch + depth]]
    return NodeCase([x, np.stack(parts, -1)], [], {"batch_dims": batch})


@generates("ScatterElements")
def scattered(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    reduction = one_of(rng, "none", "add", "mul", "max", "min")
    shape = [number(rng, 1, extent) for extent in x.shape]
    # Without a reduction, places are taken once: which of equal ones wins is left open.
    places = rng.integers(-x.shape[axis], x.shape[axis], shape)
    if reduction == "none":
        places = np.argsort(rng.random(shape), axis)
    return NodeCase(
        [x, places, floats(rng, *shape)], [], {"axis": axis, "reduction": reduction}, opset=18
    )


@generates("ScatterND")
def scattered_parts(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng, 1, 3))
    count = number(rng, 1, x.shape[0])
    places = rng.permutation(x.shape[0])[:count, None].astype(np.int64)
    reduction = one_of(rng, "none", "add", "mul", "max", "min")
    return NodeCase(
        [x, places, floats(rng, count, *x.shape[1:])], [], {"reduction": reduction}, opset=18
    )


@generates("Concat")
def joined(rng: Rng) -> NodeCase:
    shape = some_shape(rng)
    axis = any_axis(rng, len(shape))
    parts = []
    for _ in range(number(rng, 1, 3)):
        shape[axis] = number(rng, 0, 3)
        parts.append(floats(rng, *shape))
    return NodeCase(parts, [], {"axis": axis})


@generates("Tile")
def tiled(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    return NodeCase([x], [ints(*numbers(rng, x.ndim, 0, 3))])


@generates("Expand")
def expanded(rng: Rng) -> NodeCase:
    a, b = broadcast(rng, 2)
    return NodeCase([floats(rng, *a)], [ints(*b)])


@generates("DepthToSpace")
def unfolded(rng: Rng) -> NodeCase:
    x = floats(rng, number(rng, 1, 2), 4 * number(rng, 1, 3), *numbers(rng, 2, 1, 3))
    return NodeCase([x], [], {"blocksize": 2, "mode": one_of(rng, "DCR", "CRD")})


@generates("SpaceToDepth")
def folded(rng: Rng) -> NodeCase:
    x = floats(rng, 1, number(rng, 1, 3), *(2 * n for n in numbers(rng, 2, 1, 3)))
    return NodeCase([x], [], {"blocksize": 2})


@generates("Trilu")
def triangle(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng, 2, 3))
    return NodeCase([x], [np.asarray(number(rng, -4, 4))], {"upper": number(rng, 0, 1)})


@generates("Flatten")
def flattened(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    return NodeCase([x], [], {"axis": number(rng, -x.ndim, x.ndim)})


@generates("OneHot")
def one_hot(rng: Rng) -> NodeCase:
    places = rng.integers(-5, 5, some_shape(rng, 1, 2))
    return NodeCase(
        [places], [np.asarray(4), floats(rng, 2)], {"axis": any_axis(rng, places.ndim + 1)}
    )


@generates("ReverseSequence")
def reversed_rows(rng: Rng) -> NodeCase:
    x = floats(rng, *numbers(rng, 3, 1, 5))
    batch = number(rng, 0, 1)
    lengths = rng.integers(1, x.shape[1 - batch] + 1, x.shape[batch])
    return NodeCase([x, lengths], [], {"batch_axis": batch, "time_axis": 1 - batch})


@generates("Compress")
def compressed(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    kept = np.asarray(rng.random(number(rng, 1, x.shape[axis])) < 0.6)
    return NodeCase([x, kept], [], {"axis": axis})


@generates("NonZero")
def non_zero(rng: Rng) -> NodeCase:
    return NodeCase([rng.integers(0, 2, some_shape(rng)).astype(np.float32)])


@generates("Unique")
def unique(rng: Rng) -> NodeCase:
    x = rng.integers(0, 3, some_shape(rng, 1, 2)).astype(np.float32)
    how = {} if number(rng, 0, 1) else {"axis": any_axis(rng, x.ndim)}
    return NodeCase([x], [], {**how, "sorted": number(rng, 0, 1)}, outputs=4)


@generates("MatMul")
def product(rng: Rng) -> NodeCase:
    m, k, n = numbers(rng, 3, 1, 7)
    a, b = broadcast(rng, 2)
    return NodeCase([floats(rng, *a[:2], m, k), floats(rng, *b[:0], k, n)])


@generates("Gemm")
def general_product(rng: Rng) -> NodeCase:
    m, k, n = numbers(rng, 3, 1, 7)
    left, right = number(rng, 0, 1), number(rng, 0, 1)
    c = one_of(rng, (), (n,), (m, 1), (m, n))
    how = {"transA": left, "transB": right, "alpha": 0.5, "beta": float(rng.random())}
    a = floats(rng, *((k, m) if left else (m, k)))
    return NodeCase([a, floats(rng, *((n, k) if right else (k, n))), floats(rng, *c)], [], how)


def windows(rng: Rng, rank: int, *, dilated: bool) -> dict[str, Any]:
    """Return a kernel, and how it moves over an image."""
    kernel = numbers(rng, rank, 1, 3)
    how: dict[str, Any] = {"kernel_shape": kernel, "strides": numbers(rng, rank, 1, 3)}
    pad = one_of(rng, "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if pad == "NOTSET":
        ends = [number(rng, 0, extent - 1) for extent in kernel * 2]
        how["pads"] = ends
        if dilated:
            how["dilations"] = numbers(rng, rank, 1, 2)
    else:
        how["auto_pad"] = pad
    return how


@generates("Conv")
def convolution(rng: Rng) -> NodeCase:
    rank, group = number(rng, 1, 3), number(rng, 1, 2)
    how = windows(rng, rank, dilated=True)
    inner, outer = number(rng, 1, 3), group * number(rng, 1, 3)
    x = floats(rng, number(rng, 1, 2), inner * group, *numbers(rng, rank, 5, 8))
    w = floats(rng, outer, inner, *how["kernel_shape"])
    return NodeCase([x], [w, floats(rng, outer)], {**how, "group": group})


@generates("ConvTranspose")
def transposed_convolution(rng: Rng) -> NodeCase:
    rank, group = number(rng, 1, 2), number(rng, 1, 2)
    how = windows(rng, rank, dilated=True)
    if how.get("auto_pad", "").startswith("SAME"):  # the peer's extents are not the standard's
        how["strides"] = [1] * rank  # where taps are fewer than steps
    inner, outer = group * number(rng, 1, 2), number(rng, 1, 2)
    x = floats(rng, 1, inner, *numbers(rng, rank, 3, 5))
    return NodeCase([x], [floats(rng, inner, outer, *how["kernel_shape"])], {**how, "group": group})


@generates("MaxPool")
def maxima(rng: Rng) -> NodeCase:
    rank = number(rng, 1, 3)
    how = windows(rng, rank, dilated=True) | {"ceil_mode": number(rng, 0, 1)}
    return NodeCase([floats(rng, 1, 2, *numbers(rng, rank, 5, 8))], [], how)


@generates("AveragePool")
def means(rng: Rng) -> NodeCase:
    rank = number(rng, 1, 3)
    how = windows(rng, rank, dilated=True) | {"ceil_mode": number(rng, 0, 1)}
    how["count_include_pad"] = number(rng, 0, 1)
    if how.get("auto_pad") == "VALID":
        how["ceil_mode"] = 0  # the peer adds a window to what the standard says
    return NodeCase([floats(rng, 1, 2, *numbers(rng, rank, 5, 8))], [], how, opset=19)


@generates("LpPool")
def norms(rng: Rng) -> NodeCase:
    rank = number(rng, 1, 2)
    how = windows(rng, rank, dilated=False) | {"p": number(rng, 1, 3)}
    if how.get("auto_pad", "").startswith("SAME"):
        how["strides"] = [1] * rank  # the peer pads by less than nothing where steps exceed taps
    return NodeCase([np.abs(floats(rng, 1, 2, *numbers(rng, rank, 5, 8)))], [], how, opset=18)


@generates("GlobalAveragePool", "GlobalMaxPool")
def whole(rng: Rng) -> NodeCase:
    return NodeCase([floats(rng, 2, 3, *numbers(rng, number(rng, 1, 3), 1, 6))])


@generates("Resize")
def resized(rng: Rng) -> NodeCase:
    mode = one_of(rng, "nearest", "linear", "cubic")
    where = one_of(rng, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    how = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        how["nearest_mode"] = one_of(
            rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
        )
    x = floats(rng, 1, 2, *numbers(rng, 2, 3, 6))
    # With scales, the peer aligns corners by the rounded extent, not by the scale.
    if where != "align_corners" and number(rng, 0, 1):
        scales = np.asarray([1, 1, *(rng.random(2) * 2 + 0.5)], np.float32)
        return NodeCase([x], [None, scales], how, opset=18)
    return NodeCase([x], [None, None, ints(1, 2, *numbers(rng, 2, 2, 9))], how, opset=18)


@generates("GridSample")
def sampled(rng: Rng) -> NodeCase:
    how = {
        "mode": one_of(rng, "linear", "nearest", "cubic"),
        "padding_mode": one_of(rng, "zeros", "border", "reflection"),
        "align_corners": number(rng, 0, 1),
    }
    x = floats(rng, 1, 2, *numbers(rng, 2, 3, 6))
    grid = (rng.random((1, *numbers(rng, 2, 1, 4), 2)) * 2.4 - 1.2).astype(np.float32)
    return NodeCase([x, grid], [], how, opset=20)


@generates("RoiAlign")
def aligned(rng: Rng) -> NodeCase:
    x = floats(rng, 2, 3, 8, 9)
    low = rng.random((3, 2)) * 5
    rois = np.concatenate([low, low + rng.random((3, 2)) * 4 + 0.1], 1).astype(np.float32)
    how = {
        "output_height": number(rng, 1, 4), "output_width": number(rng, 1, 4),
        "sampling_ratio": number(rng, 0, 3), "spatial_scale": float(rng.random() + 0.5),
        "coordinate_transformation_mode": one_of(rng, "half_pixel", "output_half_pixel"),
    }  # fmt: skip
    return NodeCase([x, rois, ints(0, 1, 1)], [], how, opset=16)


@generates("LayerNormalization")
def layer_norm(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    shape = x.shape[axis % x.ndim :]
    return NodeCase([x], [floats(rng, *shape), floats(rng, *shape)], {"axis": axis}, opset=17)


@generates("InstanceNormalization")
def instance_norm(rng: Rng) -> NodeCase:
    x = floats(rng, 2, 3, *numbers(rng, number(rng, 1, 3), 2, 5))
    return NodeCase([x], [floats(rng, 3), floats(rng, 3)], {"epsilon": 1e-3})


@generates("BatchNormalization")
def batch_norm(rng: Rng) -> NodeCase:
    x = floats(rng, 2, 3, *numbers(rng, number(rng, 0, 3), 1, 5))
    known = [floats(rng, 3), floats(rng, 3), floats(rng, 3), np.abs(floats(rng, 3))]
    return NodeCase([x], [*known], {"epsilon": 1e-3})


@generates("LRN")
def local_norm(rng: Rng) -> NodeCase:
    x = floats(rng, 1, number(rng, 1, 7), 3, 3)
    return NodeCase([x], [], {"size": one_of(rng, 1, 3, 5), "alpha": 0.1, "bias": 1.5})


@generates("LpNormalization")
def lp_norm(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng))
    return NodeCase([x], [], {"axis": any_axis(rng, x.ndim), "p": number(rng, 1, 2)})


def codes(rng: Rng, dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@generates("QuantizeLinear")
def quantized(rng: Rng) -> NodeCase:
    x = floats(rng, *some_shape(rng)) * 40
    dtype, axis = one_of(rng, np.int8, np.uint8, np.int16, np.uint16), any_axis(rng, x.ndim)
    shape = one_of(rng, (), (x.shape[axis],))
    scale = (rng.random(shape) + 0.1).astype(np.float32)
    return NodeCase([x], [scale, codes(rng, dtype, *shape)], {"axis": axis})


@generates("DequantizeLinear")
def dequantized(rng: Rng) -> NodeCase:
    dtype = one_of(rng, np.int8, np.uint8)
    x = codes(rng, dtype, *some_shape(rng))
    axis = any_axis(rng, x.ndim)
    shape = one_of(rng, (), (x.shape[axis],))
    return NodeCase([x], [floats(rng, *shape), codes(rng, dtype, *shape)], {"axis": axis})


@generates("DynamicQuantizeLinear")
def quantized_by_range(rng: Rng) -> NodeCase:
    return NodeCase([floats(rng, *some_shape(rng)) * 7], outputs=3)


@generates("MatMulInteger")
def integer_product(rng: Rng) -> NodeCase:
    m, k, n = numbers(rng, 3, 1, 9)
    left, right = np.uint8, one_of(rng, np.uint8, np.int8)
    zeros = [codes(rng, left), codes(rng, right, *one_of(rng, (), (n,)))]
    return NodeCase([codes(rng, left, m, k)], [codes(rng, right, k, n), *zeros])


@generates("QLinearMatMul")
def quantized_product(rng: Rng) -> NodeCase:
    m, k, n = numbers(rng, 3, 1, 9)
    dtype = one_of(rng, np.uint8, np.int8)
    scales = [np.float32(s) for s in rng.random(3) * 0.1 + 0.01]
    return NodeCase(
        [codes(rng, dtype, m, k)],
        [scales[0], codes(rng, dtype), codes(rng, dtype, k, n), scales[1], codes(rng, dtype),
         np.float32(scales[2] * 50), codes(rng, dtype)],
    )  # fmt: skip


@generates("ConvInteger")
def integer_convolution(rng: Rng) -> NodeCase:
    how = windows(rng, 2, dilated=True)
    x = codes(rng, np.uint8, 1, 2, *numbers(rng, 2, 5, 8))
    w = codes(rng, np.uint8, 3, 2, *how["kernel_shape"])
    return NodeCase([x], [w, codes(rng, np.uint8), codes(rng, np.uint8)], how)


def recurrent(name: str, rng: Rng) -> NodeCase:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, width, hidden = numbers(rng, 4, 1, 4)
    direction = one_of(rng, "forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    x = floats(rng, steps, batch, width)
    known: list[Any] = [
        floats(rng, ways, gates * hidden, width), floats(rng, ways, gates * hidden, hidden),
        floats(rng, ways, 2 * gates * hidden),
        one_of(rng, None, rng.integers(1, steps + 1, batch).astype(np.int32)),
        floats(rng, ways, batch, hidden),
    ]  # fmt: skip
    how: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if name == "LSTM":
        known += [floats(rng, ways, batch, hidden), floats(rng, ways, 3 * hidden)]
    if name == "GRU":
        how["linear_before_reset"] = number(rng, 0, 1)
    return NodeCase([x], known, how, outputs=3 if name == "LSTM" else 2)


@generates("GlobalLpPool")
def whole_norm(rng: Rng) -> NodeCase:
    x = floats(rng, 2, 3, *numbers(rng, number(rng, 1, 3), 1, 6))
    return NodeCase([x], [], {"p": number(rng, 1, 3)})


def learned(rng: Rng, **how: Any) -> NodeCase:
    """Return a node of ai.onnx.ml on rows of four numbers."""
    return NodeCase([floats(rng, number(rng, 1, 5), 4)], [], how, domain="ai.onnx.ml")


@generates("Normalizer")
def normalizer(rng: Rng) -> NodeCase:
    return learned(rng, norm=one_of(rng, "MAX", "L1", "L2"))


@generates("Scaler")
def scaler(rng: Rng) -> NodeCase:
    count = one_of(rng, 1, 4)
    return learned(rng, offset=floats(rng, count).tolist(), scale=floats(rng, count).tolist())


@generates("Binarizer")
def binarizer(rng: Rng) -> NodeCase:
    return learned(rng, threshold=float(rng.normal()))


@generates("Imputer")
def imputer(rng: Rng) -> NodeCase:
    missing = one_of(rng, float("nan"), 2.0)
    values = floats(rng, one_of(rng, 1, 4)).tolist()
    case = learned(rng, imputed_value_floats=values, replaced_value_float=missing)
    case.inputs[0][0, 1:3] = missing
    return case


@generates("LinearRegressor")
def linear_regressor(rng: Rng) -> NodeCase:
    targets = number(rng, 1, 3)
    weights = {"coefficients": floats(rng, 4 * targets).tolist()}
    bias = {"intercepts": floats(rng, targets).tolist()} if number(rng, 0, 1) else {}
    return learned(rng, **weights, **bias, targets=targets)


@generates("LinearClassifier")
def linear_classifier(rng: Rng) -> NodeCase:
    classes = number(rng, 3, 5)
    case = learned(
        rng, coefficients=floats(rng, 4 * classes).tolist(),
        intercepts=floats(rng, classes).tolist(), classlabels_ints=numbers(rng, classes, 0, 9),
        post_transform=one_of(rng, "NONE", "LOGISTIC", "SOFTMAX"),
    )  # fmt: skip
    case.outputs = 2
    return case


@generates("FeatureVectorizer")
def joined_features(rng: Rng) -> NodeCase:
    case = learned(rng, inputdimensions=[4, 3])
    case.inputs.append(floats(rng, case.inputs[0].shape[0], 3))
    return case


GENERATORS |= {name: functools.partial(recurrent, name) for name in ("LSTM", "GRU", "RNN")}


@generates("DFT")
def transform(rng: Rng) -> NodeCase:
    x = floats(rng, number(rng, 1, 3), *numbers(rng, number(rng, 1, 2), 1, 9), 1)
    how = {"onesided": number(rng, 0, 1)}
    return NodeCase([x], [None, np.asarray(number(rng, 1, x.ndim - 2))], how, opset=20)


@generates("STFT")
def short_transform(rng: Rng) -> NodeCase:
    length = one_of(rng, 4, 8, 6)
    x = floats(rng, 1, number(rng, 12, 30), 1)
    window = np.hanning(length).astype(np.float32)
    how = {"onesided": number(rng, 0, 1)}
    return NodeCase([x], [np.asarray(number(rng, 1, 5)), window, np.asarray(length)], how, opset=17)


@generates("Einsum")
def summed(rng: Rng) -> NodeCase:
    sizes = dict(zip("ijkb", numbers(rng, 4, 1, 4), strict=True))
    equation = one_of(
        rng, "ij,jk->ik", "bij,bjk->bik", "ij,ij->", "bij,jk", "ij->ji", "...i,i->..."
    )
    terms = equation.split("->")[0].split(",")
    shapes = [[sizes[c] for c in term.replace("...", "b")] for term in terms]
    return NodeCase([floats(rng, *shape) for shape in shapes], [], {"equation": equation})


@generates("NonMaxSuppression")
def suppressed(rng: Rng) -> NodeCase:
    count = number(rng, 1, 12)
    low = rng.random((1, count, 2))
    boxes = np.concatenate([low, low + rng.random((1, count, 2))], -1).astype(np.float32)
    scores = rng.permutation(2 * count).reshape(1, 2, count).astype(np.float32) / (2 * count)
    known = [ints(number(rng, 1, count)), np.float32(0.3), np.float32(0.2)]
    return NodeCase([boxes, scores], [*known], {"center_point_box": number(rng, 0, 1)})

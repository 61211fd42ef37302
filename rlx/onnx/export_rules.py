"""Our ops as operators of ONNX: a line each, where the two mean the same."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from rlx.errors import NoRuleError
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Node
from rlx.ir.shape import normalize_axis, product

Rule = Callable[..., str | list[str]]
"""(writer, node, names of the operands) -> names of the results."""

_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin",
    "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "cos": "Cos",
    "cosh": "Cosh", "eq": "Equal", "erf": "Erf", "exp": "Exp",
    "ge": "GreaterOrEqual", "gt": "Greater", "is_nan": "IsNaN", "le": "LessOrEqual",
    "log": "Log", "logical_and": "And", "logical_not": "Not", "logical_or": "Or",
    "logical_xor": "Xor", "lt": "Less", "matmul": "MatMul", "maximum": "Max", "minimum": "Min",
    "mish": "Mish", "mul": "Mul", "neg": "Neg", "pow": "Pow", "reciprocal": "Reciprocal",
    "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "stop_gradient": "Identity", "sub": "Sub", "tan": "Tan", "tanh": "Tanh",
    "where": "Where",
}  # fmt: skip
_FOLDS = {
    "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean", "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
}  # fmt: skip

RULES: dict[str, Rule] = {}
"""Rules by the name of the op."""


def _same(operator: str) -> Rule:
    return lambda writer, node, *x: writer.emit(operator, x)


def _fold(operator: str) -> Rule:
    def rule(writer: Any, node: Node, x: str) -> str:
        axes = writer.integers(_axes(node))
        keeps = int(node.attribute("keepdims"))
        return str(writer.emit(operator, [x, axes], keepdims=keeps, noop_with_empty_axes=1))

    return rule


def _axes(node: Node) -> list[int]:
    return sorted({normalize_axis(a, node.operands[0].rank) for a in node.attribute("axes")})


def export_rule(name: str) -> Callable[[Rule], Rule]:
    """Register the rule of an op."""

    def register(rule: Rule) -> Rule:
        RULES[name] = rule
        return rule

    return register


RULES.update({name: _same(operator) for name, operator in _SAME.items()})
RULES.update({name: _fold(operator) for name, operator in _FOLDS.items()})


@export_rule("constant")
def constant(writer: Any, node: Node) -> str:
    return str(writer.array(node.attribute("value").array))


@export_rule("iota")
def iota(writer: Any, node: Node) -> str:
    type, axis = node.attribute("type"), node.attribute("axis")
    shape = type.static_shape
    numbers = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return str(writer.array(np.broadcast_to(numbers, shape).astype(type.dtype.numpy)))


@export_rule("extent")
def extent(writer: Any, node: Node) -> str:
    return str(writer.array(np.asarray(node.attribute("value"), np.int64)))


@export_rule("square")
def square(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Mul", [x, x]))


@export_rule("rsqrt")
def rsqrt(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Reciprocal", [writer.emit("Sqrt", [x])]))


@export_rule("exp2")
def exp2(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Pow", [_number(writer, node, 2), x]))


@export_rule("log2")
def log2(writer: Any, node: Node, x: str) -> str:
    logarithm = writer.emit("Log", [x])
    return str(writer.emit("Div", [logarithm, _number(writer, node, np.log(2))]))


@export_rule("log1p")
def log1p(writer: Any, node: Node, x: str) -> str:
    """`log(u) x / (u - 1)` of `u = 1 + x`: what u loses of x cancels (Kahan)."""
    one = _number(writer, node, 1)
    u = writer.emit("Add", [x, one])
    exact = writer.emit("Div", [x, writer.emit("Sub", [u, one])])
    found = writer.emit("Mul", [writer.emit("Log", [u]), exact])
    found = writer.emit("Where", [writer.emit("IsInf", [u], detect_negative=0), u, found])
    return str(writer.emit("Where", [writer.emit("Equal", [u, one]), x, found]))


@export_rule("expm1")
def expm1(writer: Any, node: Node, x: str) -> str:
    """`(u - 1) x / log(u)` of `u = exp(x)`, but where u is 1, infinite, or negligible next to 1."""
    one = _number(writer, node, 1)
    u = writer.emit("Exp", [x])
    less = writer.emit("Sub", [u, one])
    found = writer.emit("Mul", [less, writer.emit("Div", [x, writer.emit("Log", [u])])])
    is_least = writer.emit("Equal", [less, _number(writer, node, -1)])
    is_end = writer.emit("Or", [writer.emit("IsInf", [u]), is_least])
    found = writer.emit("Where", [is_end, less, found])
    return str(writer.emit("Where", [writer.emit("Equal", [u, one]), x, found]))


def _whole(operator: str) -> Rule:
    """Rounding: operators take floats alone, and integers are whole."""
    return lambda writer, node, x: writer.emit("Identity" if _is_whole(node) else operator, [x])


def _is_whole(node: Node) -> bool:
    return not node.result.dtype.is_float


RULES.update({name: _whole(name.title()) for name in ("ceil", "floor", "round")})


@export_rule("trunc")
def trunc(writer: Any, node: Node, x: str) -> str:
    if _is_whole(node):
        return str(writer.emit("Identity", [x]))
    whole = writer.emit("Floor", [writer.emit("Abs", [x])])
    return str(writer.emit("Mul", [writer.emit("Sign", [x]), whole]))


def _number(writer: Any, node: Node, value: Any) -> str:
    return str(writer.array(np.asarray(value, node.result.dtype.numpy)))


@export_rule("ne")
def ne(writer: Any, node: Node, a: str, b: str) -> str:
    return str(writer.emit("Not", [writer.emit("Equal", [a, b])]))


@export_rule("cast")
def cast(writer: Any, node: Node, x: str) -> str:
    if node.attribute("rounding") != "trunc":
        x = writer.emit("Round", [x])
    return str(
        writer.emit("Cast", [x], to=helper.np_dtype_to_tensor_dtype(node.result.dtype.numpy))
    )


@export_rule("softmax")
def softmax(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Softmax", [x], axis=node.attribute("axis")))


@export_rule("log_softmax")
def log_softmax(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("LogSoftmax", [x], axis=node.attribute("axis")))


@export_rule("gelu")
def gelu(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Gelu", [x]))


@export_rule("gelu_approx")
def gelu_approx(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Gelu", [x], approximate="tanh"))


@export_rule("silu")
def silu(writer: Any, node: Node, x: str) -> str:
    """The limit at -inf is -0, where the product is NaN."""
    found = writer.emit("Mul", [x, writer.emit("Sigmoid", [x])])
    is_least = writer.emit("IsInf", [x], detect_positive=0)
    return str(writer.emit("Where", [is_least, _number(writer, node, -0.0), found]))


@export_rule("is_finite")
def is_finite(writer: Any, node: Node, x: str) -> str:
    either = writer.emit("Or", [writer.emit("IsNaN", [x]), writer.emit("IsInf", [x])])
    return str(writer.emit("Not", [either]))


@export_rule("dot_general")
def dot_general(writer: Any, node: Node, a: str, b: str) -> str:
    """A letter for each axis of the result, and for each that is contracted."""
    fold, letters = fold_map(node), string.ascii_letters
    assert fold is not None, "products are folds"
    left, right = ("".join(letters[i.axis or 0] for i in each) for each in fold.positions)
    equation = f"{left},{right}->{letters[: node.result.rank]}"
    return str(writer.emit("Einsum", [a, b], equation=equation))


@export_rule("layer_norm")
def layer_norm(writer: Any, node: Node, x: str, gamma: str, beta: str) -> str:
    axis = normalize_axis(node.attribute("axis"), node.operands[0].rank)
    if axis != node.operands[0].rank - 1:
        raise NoRuleError("layer_norm along an inner axis", remedy="transpose the axis to the end")
    eps = node.attribute("eps")
    return str(writer.emit("LayerNormalization", [x, gamma, beta], axis=axis, epsilon=eps))


# Movement


@export_rule("reshape")
def reshape(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Reshape", [x, writer.integers(node.result.shape)], allowzero=1))


@export_rule("expand")
def expand(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Expand", [x, writer.integers(node.result.shape)]))


@export_rule("transpose")
def transpose(writer: Any, node: Node, x: str) -> str:
    return str(writer.emit("Transpose", [x], perm=node.attribute("perm")))


@export_rule("concat")
def concat(writer: Any, node: Node, *x: str) -> str:
    return str(writer.emit("Concat", x, axis=node.attribute("axis")))


@export_rule("narrow")
def narrow(writer: Any, node: Node, x: str) -> str:
    start, length = node.attribute("start"), node.attribute("length")
    bounds = ([start], [start + length], [node.attribute("axis")])
    return str(writer.emit("Slice", [x, *map(writer.integers, bounds)]))


@export_rule("slice")
def slice_(writer: Any, node: Node, x: str) -> str:
    axes = range(node.result.rank)
    bounds = (node.attribute("start"), node.attribute("stop"), tuple(axes), node.attribute("step"))
    return str(writer.emit("Slice", [x, *map(writer.integers, bounds)]))


@export_rule("reverse")
def reverse(writer: Any, node: Node, x: str) -> str:
    return str(writer.reversed(x, *_axes(node)))


@export_rule("pad")
def pad(writer: Any, node: Node, x: str) -> str:
    widths = writer.integers((*node.attribute("low"), *node.attribute("high")))
    value = writer.array(np.asarray(node.attribute("value"), node.result.dtype.numpy))
    return str(writer.emit("Pad", [x, widths, value]))


@export_rule("gather")
def gather(writer: Any, node: Node, table: str, indices: str) -> str:
    if node.operands[1].dtype.is_float:
        indices = writer.emit("Cast", [indices], to=helper.np_dtype_to_tensor_dtype(np.dtype("i8")))
    return str(writer.emit("Gather", [table, indices], axis=node.attribute("axis")))


# Searches and running folds


def _search(operator: str) -> Rule:
    def rule(writer: Any, node: Node, x: str) -> str:
        axis, keeps = node.attribute("axis"), int(node.attribute("keepdims"))
        return str(writer.emit(operator, [x], axis=axis, keepdims=keeps))

    return rule


RULES["argmax"] = _search("ArgMax")
RULES["argmin"] = _search("ArgMin")


@export_rule("cumsum")
def cumsum(writer: Any, node: Node, x: str) -> str:
    axis = writer.array(np.asarray(node.attribute("axis"), np.int64))
    how = {name: int(node.attribute(name)) for name in ("exclusive", "reverse")}
    return str(writer.emit("CumSum", [x, axis], **how))


@export_rule("topk")
def topk(writer: Any, node: Node, x: str) -> list[str]:
    found: list[str] = writer.emit_all("TopK", [x, writer.integers([node.attribute("k")])], 2)
    return found


# Windows


@export_rule("conv")
def conv(writer: Any, node: Node, x: str, w: str) -> str:
    if any(spread != 1 for spread in node.attribute("input_dilation")):
        raise NoRuleError("conv with input_dilation", remedy="write zeros between the elements")
    return str(writer.emit("Conv", [x, w], group=node.attribute("groups"), **_window(node)))


@export_rule("max_pool")
def max_pool(writer: Any, node: Node, x: str) -> str:
    return _pooled(writer, node, x, "MaxPool")


@export_rule("mean_pool")
def mean_pool(writer: Any, node: Node, x: str) -> str:
    divisor = node.attribute("divisor")
    padded = any(width for pair in node.attribute("padding") for width in pair)
    if divisor == "window" and (padded or node.attribute("ceil_mode")):
        raise NoRuleError("mean_pool by the window's size", remedy="pass divisor='padded'")
    includes = int(divisor != "inside")
    return _pooled(writer, node, x, "AveragePool", count_include_pad=includes)


def _pooled(writer: Any, node: Node, x: str, name: str, **how: int) -> str:
    """Pool planes; axes in front of them other than batch and channels are taken for channels."""
    given, planes = node.operands[0].type.shape, len(node.attribute("kernel_size"))
    lead = given[: len(given) - planes]
    if len(lead) != 2:
        shape = (1, product(lead), *given[len(lead) :])
        x = writer.emit("Reshape", [x, writer.integers(shape)], allowzero=1)
    y = writer.emit(name, [x], **how, **_pooling(node))
    if len(lead) != 2:
        y = writer.emit("Reshape", [y, writer.integers(node.result.shape)], allowzero=1)
    return str(y)


def _window(node: Node) -> dict[str, Any]:
    """Return strides, pads and dilations; empty lists mean the defaults of both."""
    found: dict[str, Any] = {}
    if node.attribute("stride"):
        found["strides"] = node.attribute("stride")
    if node.attribute("dilation"):
        found["dilations"] = node.attribute("dilation")
    if node.attribute("padding"):
        low, high = zip(*node.attribute("padding"), strict=True)
        found["pads"] = (*low, *high)
    return found


def _pooling(node: Node) -> dict[str, Any]:
    if node.attribute("inner"):
        raise NoRuleError("pooling with inner axes", remedy="transpose the channels to axis 1")
    taps = node.attribute("kernel_size")
    ceil = int(node.attribute("ceil_mode"))
    return {"kernel_shape": taps, "ceil_mode": ceil, **_window(node)}

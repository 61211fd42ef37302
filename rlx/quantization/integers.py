"""Products of dequantized codes, requantized at once, as one op: `qmatmul` or `qconv`.

    %2 = matmul (dequantize %q) (dequantize %w)
    %3 = quantize (%2 + bias)                    ->  %3 = qmatmul %q %w (bias in units of the sums)

`integer_graph` does that after `cancel_pairs`, so that what is between two products stays in
eight bits. Other products of dequantized codes become ones of integers when they are compiled:
`rlx.passes.lowering.scaled_products`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import normalize_axis, product
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.dead_code import dead_code
from rlx.quantization.propagate import cancel_pairs
from rlx.quantization.requirements import require_graph

_PRODUCTS = (ops.matmul, ops.conv)
_LARGEST_BIAS = 2**30
"""A folded bias, and sums without it, that i32 holds together."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A product of codes, and what makes a float of it."""

    node: Node
    x: Value
    w: Value
    x_zero: int
    w_zero: int
    scales: NDArray[np.float32]
    """One, or one for each column or channel."""

    @property
    def fits(self) -> bool:
        """True if no sum reaches 2^30: an op of integers wraps where a sum of floats would not."""
        axes = self.w.shape[:1] if self.node.op is ops.matmul else self.w.shape[1:]
        terms = product(axes)
        largest = (128 + abs(self.x_zero)) * (128 + abs(self.w_zero))
        return isinstance(terms, int) and terms * largest < _LARGEST_BIAS

    @property
    def trailing(self) -> int:
        return self.node.result.rank - 2 if self.node.op is ops.conv else 0


def integer_graph(graph: Graph) -> Graph:
    """Return `graph` with pairs cancelled, and requantized products of codes as one op each."""
    require_graph("integer_graph", graph)
    return requantized_products(cancel_pairs(graph))


@graph_pass
def requantized_products(graph: Graph) -> Rewritten:
    """Make one op of a product of codes, its bias, relu, and rounding to eight bits."""
    return apply_rewrites(graph, (_requantized,)).then(dead_code)


@rewrite(ops.quantize)
def _requantized(node: Node) -> Value | None:
    if node.attribute("axis") is not None:
        return None
    value, clipped, bias = node.operands[0], False, None
    if value.op is ops.relu:
        clipped, value = True, value.node.operands[0]
    if value.op is ops.add and value.node.operands[1].op is ops.constant:
        value, bias = value.node.operands
    zero = (node.attribute("zero_points") or (0,))[0]
    if clipped and not -128 <= zero <= 127:
        return None
    found = _sum_of(value.node) if value.op in _PRODUCTS else None
    if found is None or not found.fits:
        return None
    folded = _folded(found, bias)
    if folded is None:
        return None
    multiplier = found.scales / np.float32(node.attribute("scales")[0])
    codes = _product(found, folded, tuple(multiplier.tolist()), zero)
    if not clipped:
        return codes
    return ops.maximum(codes, codes.graph.constant(zero, DType.I8))


def _product(found: _Sum, bias: Value, multiplier: tuple[float, ...], zero: int) -> Value:
    attributes = found.node.attrs.as_dict()
    attributes.pop("input_dilation", None)
    definition = ops.qconv if found.node.op is ops.conv else ops.qmatmul
    result: Value = definition(
        found.x, found.w, bias, multiplier=multiplier, x_zero_point=found.x_zero,
        w_zero_point=found.w_zero, out_zero_point=zero, **attributes,
    )  # fmt: skip
    return result


def _folded(found: _Sum, bias: Value | None) -> Value | None:
    """Return the bias in units of the sums, `[channels]`; None where it does not fit."""
    channels = found.w.shape[1 if found.node.op is ops.matmul else 0]
    dilated = found.node.op is ops.conv and set(found.node.attribute("input_dilation")) - {1}
    if not isinstance(channels, int) or found.w.rank != 2 + found.trailing or dilated:
        return None
    numbers = np.zeros(channels, np.float64)
    if bias is not None:
        array = bias.node.attribute("value").array
        if array.size not in (1, channels) or array.shape[-1 - found.trailing :][:1] not in (
            (), (1,), (channels,),
        ):  # fmt: skip
            return None
        numbers = numbers + array.reshape(-1) / found.scales
    if np.abs(numbers).max(initial=0.0) > _LARGEST_BIAS:
        return None
    return found.x.graph.constant(np.rint(numbers).astype(np.int32))


def _sum_of(node: Node) -> _Sum | None:
    """Return what a product of two dequantized operands is made of."""
    x, w = node.operands
    if x.op is not ops.dequantize or w.op is not ops.dequantize:
        return None
    if x.node.attribute("axis") is not None or not _along_results(node, w):
        return None
    points = w.node.attribute("zero_points") or (0,)
    if len(set(points)) > 1:
        return None
    factors = np.array(w.node.attribute("scales"), np.float32)
    scale = np.float32(x.node.attribute("scales")[0])
    zero = (x.node.attribute("zero_points") or (0,))[0]
    return _Sum(node, x.node.operands[0], w.node.operands[0], zero, points[0], factors * scale)


def _along_results(node: Node, w: Value) -> bool:
    """True if the scales of weights are for columns, or for output channels."""
    axis = w.node.attribute("axis")
    if axis is None:
        return True
    return bool(normalize_axis(axis, w.rank) == (w.rank - 1 if node.op is ops.matmul else 0))

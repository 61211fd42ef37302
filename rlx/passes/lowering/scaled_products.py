"""Quantized products: those of dequantized integers become integer products, scaled afterwards.

    %2: f32[M, N] = matmul (cast %q * s) (cast %w * t)
        ->  %3: i32[M, N] = matmul %q %w
            %2: f32[M, N] = cast %3 * (s * t)

`dequantize` is such a scaling, and so is `DequantizeLinear`: a network that rounds its activations
and dequantizes them again multiplies its codes, wherever it comes from. Sums of integers are
exact, so that one rounding of floats is left where there was one for each term.
"""

from __future__ import annotations

from typing import Any

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import Extent, product
from rlx.passes.lowering.integer_ranges import range_of
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.dead_code import dead_code

_MOST_STEPS = 4
"""Transposes, reshapes and scalings that are followed from a product towards integers."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Integers, and the factor of each as a value of the same rank; None for 1."""

    integers: Value
    factor: Value | None = None

    def is_uniform_along(self, *axes: int) -> bool:
        """True if the factor does not change along `axes`."""
        return self.factor is None or all(self.factor.shape[axis] == 1 for axis in axes)


@graph_pass
def scaled_products(graph: Graph) -> Rewritten:
    """Multiply integers first and scale their sums.

    %2: f32[M, N] = matmul (cast %q * s) (cast %w * t)  ->  %3: i32[M, N] = matmul %q %w
                                                            %2: f32[M, N] = cast %3 * (s * t)
    """
    found = apply_rewrites(graph, (_matmul, _conv))
    return found if found.graph is graph else found.then(dead_code)


def _is_of_integers(node: Node) -> bool:
    """True if both operands are integers but for a factor."""
    return all(_scaled(value) is not None for value in node.operands)


@rewrite(ops.matmul, when=_is_of_integers)
def _matmul(node: Node) -> Value | None:
    x, w = map(_scaled, node.operands)
    if x is None or w is None or w.integers.rank != 2 or x.integers.rank < 2:
        return None
    if not x.is_uniform_along(-1) or not w.is_uniform_along(0):
        return None
    return _product(node, x, w, node.operands[0].shape[-1], w.factor)


@rewrite(ops.conv, when=_is_of_integers)
def _conv(node: Node) -> Value | None:
    x, w = map(_scaled, node.operands)
    rank = node.result.rank
    if x is None or w is None:
        return None
    if not x.is_uniform_along(*range(1, rank)) or not w.is_uniform_along(*range(1, rank)):
        return None
    factor = w.factor
    if factor is not None:
        factor = ops.reshape(factor, shape=(factor.shape[0], *(1,) * (rank - 2)))
    return _product(node, x, w, product(w.integers.shape[1:]), factor)


def _product(
    node: Node, x: _Scaled, w: _Scaled, terms: Extent, columns: Value | None
) -> Value | None:
    """Return the product of the integers times the factors; None where sums may not fit."""
    ranges = range_of(x.integers), range_of(w.integers)
    if ranges[0] is None or ranges[1] is None or not isinstance(terms, int):
        return None
    if terms * ranges[0].magnitude * ranges[1].magnitude >= 2**31:
        return None
    graph = node.result.graph
    (total,) = graph.append(node.op, (x.integers, w.integers), node.attrs, scope=node.scope)
    factors = [factor for factor in (x.factor, columns) if factor is not None]
    result = ops.cast(total, to=DType.F32)
    if factors:
        result = result * (factors[0] if len(factors) == 1 else factors[0] * factors[1])
    return result


def _scaled(value: Value, steps: int = _MOST_STEPS) -> _Scaled | None:
    """Return what integers an f32 value is made of by casts, factors and transposes."""
    if steps == 0 or value.dtype is not DType.F32:
        return None
    operands: Any = value.node.operands
    if value.op is ops.cast and operands[0].dtype is DType.I32:
        return _Scaled(operands[0])
    if value.op is ops.mul:
        return _times(operands[0], operands[1], value, steps) or _times(
            operands[1], operands[0], value, steps
        )
    if value.op in (ops.transpose, ops.reshape):
        inner = _scaled(operands[0], steps - 1)
        return None if inner is None else _moved(inner, value)
    return None


def _times(made: Value, factor: Value, value: Value, steps: int) -> _Scaled | None:
    """Return what `made` consists of, times `factor`, where that spreads over its shape."""
    inner = _scaled(made, steps - 1)
    if inner is None or inner.integers.shape != value.shape:
        return None
    missing = value.rank - factor.rank
    if missing:
        factor = ops.reshape(factor, shape=(*(1,) * missing, *factor.shape))
    return _Scaled(inner.integers, factor if inner.factor is None else inner.factor * factor)


def _moved(inner: _Scaled, value: Value) -> _Scaled | None:
    """Return integers and factor as `value`, a transpose or reshape, moves them."""
    node, graph, factor = value.node, value.graph, inner.factor
    if factor is not None and value.op is ops.transpose:
        factor = ops.transpose(factor, perm=node.attribute("perm"))
    elif factor is not None:
        if not inner.is_uniform_along(*range(factor.rank)):
            return None
        factor = ops.reshape(factor, shape=(1,) * value.rank)
    return _Scaled(graph.append(node.op, (inner.integers,), node.attrs)[0], factor)

"""Mixed precision: casts around the ops that a policy computes in 16 bits.

    %2: f32[8, 4] = matmul %0, %1  ->  %2: bf16[8, 3] = cast %0    %3: bf16[3, 4] = cast %1
                                       %4: bf16[8, 4] = matmul %2, %3
                                       %5: f32[8, 4] = cast %4

Values between such ops are f32, and so are all inputs, params and outputs: applied to what
autodiff made, it leaves master weights and their updates in f32. A cast back that the next
op's cast undoes goes away with it. What is cast of params only runs in `setup`.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.errors import DTypeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.types import TensorType
from rlx.passes.precision.policy import FINITE, MixedPrecision, Precision, as_policy
from rlx.passes.rewrite import (
    GraphPass,
    LocalRewrite,
    Replacement,
    Rewritten,
    apply_rewrites,
    graph_pass,
    rewrite,
)
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.simplify_arithmetic import cast_of_exact_cast, cast_to_same_dtype

Observer = Callable[[Node], None]
"""Called with each node that is lowered."""


def at_precision(graph: Graph, precision: Precision, seen: Observer | None = None) -> Graph:
    """Return `graph` computed as `precision` says; itself for None."""
    policy = as_policy(precision)
    if precision == FINITE:
        return structural_zeros(graph)
    return graph if policy is None else mixed_precision(policy, seen)(graph)


@graph_pass
def structural_zeros(graph: Graph) -> Rewritten:
    """Make all zeros of constants structural: products with them are zero, whatever they multiply.

    constant [1.0, 0.0]      ->      constant structural [1.0, 0.0]
    """
    return apply_rewrites(graph, [_made_structural, _padded_by_structural])


@rewrite(ops.pad)
def _padded_by_structural(node: Node) -> Value | None:
    if node.attribute("structural") or node.attribute("value") != 0:
        return None
    return ops.pad(*node.operands, **{**node.attrs.as_dict(), "structural": True})


@rewrite(ops.constant)
def _made_structural(node: Node) -> Value | None:
    array = node.attribute("value").array
    if node.attribute("structural") or not node.result.dtype.is_float or array.all():
        return None
    return node.result.graph.constant(array, node.result.dtype, structural=True)


def mixed_precision(policy: MixedPrecision, seen: Observer | None = None) -> GraphPass:
    """Return the pass for `policy`; bodies of loops and branches are lowered like the rest."""

    def rule(node: Node) -> Replacement:
        found = lowered(node, policy)
        if found is not None and seen is not None:
            seen(node)
        return found

    rules = (LocalRewrite((), rule), cast_to_same_dtype, cast_of_exact_cast)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, rules).then(common_subexpressions)

    return GraphPass("mixed-precision", run, __doc__ or "")


def lowered(node: Node, policy: MixedPrecision) -> tuple[Value, ...] | None:
    """Return the results of `node` computed in 16 bits, or None if it stays as it is."""
    if not policy.lowers(node.op) or not _computes_f32(node) or not _has_form(node, policy.dtype):
        return None
    operands = tuple(_cast_between(o, DType.F32, policy.dtype) for o in node.operands)
    results = node.results[0].graph.append(node.op, operands, node.attrs)
    return tuple(_cast_between(result, policy.dtype, DType.F32) for result in results)


def _computes_f32(node: Node) -> bool:
    """True if `node` makes f32 of f32: comparisons and casts to other dtypes do not."""
    return all(
        any(value.dtype is DType.F32 for value in values)
        for values in (node.operands, node.results)
    )


def _has_form(node: Node, low: DType) -> bool:
    """True if the op takes operands of 16 bits, and its results follow them."""
    try:
        found = node.op.infer_types(tuple(_at(o.type, low) for o in node.operands), node.attrs)
    except DTypeError:
        return False
    return found == tuple(_at(result.type, low) for result in node.results)


def _at(kind: TensorType, low: DType) -> TensorType:
    return kind.with_dtype(low) if kind.dtype is DType.F32 else kind


def _cast_between(value: Value, source: DType, target: DType) -> Value:
    """Return `value`, cast to `target` if it is of `source`."""
    if value.dtype is not source:
        return value
    return ops.cast(value, to=target)

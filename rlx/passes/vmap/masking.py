"""Masked execution of batched loops: finished examples take steps whose results are discarded.

All examples go every way that any of them goes. What one would not have computed alone may have
no value: an index may be out of range, a matrix singular. Such an example borrows the operands of
one that goes that way, so that the step succeeds and its result, and its derivative, can be
thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.types import TensorType
from rlx.passes.rewrite import bodies_of
from rlx.passes.vmap.batching import Batching


def borrowed(
    at: Batching, values: Sequence[Value], batched: Sequence[bool], goes: Value
) -> list[Value]:
    """Return `values`; examples that `goes` does not mark have those of the first that it does."""
    if at.size == 0:
        return list(values)
    own = at.graph.iota(type=TensorType(DType.I64, (at.size,)))
    first = ops.cast(ops.argmax(ops.cast(goes, to=DType.I32), axis=0), to=DType.I64)
    lender = ops.where(goes, own, first)
    return [
        ops.gather(value, lender, axis=0) if has_axis else value
        for value, has_axis in zip(values, batched, strict=True)
    ]


def may_fail(body: Graph) -> bool:
    """True if a run of `body` may end with an error status, by its operands."""
    return any(_fails(node) or any(map(may_fail, bodies_of(node.attrs))) for node in body.nodes)


def _fails(node: Node) -> bool:
    policy = node.attrs.get("on_singular", "error")
    return node.op.has(Trait.MAY_FAULT) and policy == "error"

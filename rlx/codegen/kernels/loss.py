"""Softmax cross-entropy against class labels, and its gradient."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.indexing import checked_index
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.row_region import compute_by_formula, row_number
from rlx.codegen.kernels.slices import slices
from rlx.codegen.loops.expr import E
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType


@kernel("softmax_cross_entropy_with_logits")
def softmax_cross_entropy(scope: Scope, logits: Reader, labels: Reader, y: Writer) -> None:
    """`max + log(sum(exp(logits - max))) - logits[label]` of each row."""
    split, formula = slices(logits.shape, -1), _log_of_sum(logits.type)
    source = logits.grouped(split.groups[:2])
    target = y.grouped(split.groups[:1])
    assert logits.memory is not None
    with rows(scope.k, "row", source.extent(0), logits.type.elements) as row:
        label = _checked_label(scope, logits, labels, row)
        total = row_number(scope, logits.memory, formula, row)
        target.write(row, value=total - source.at(row).read_real(label))


@kernel("softmax_cross_entropy_backward")
def softmax_cross_entropy_backward(
    scope: Scope, logits: Reader, labels: Reader, *_: Reader | Writer
) -> None:
    """`(softmax(logits) - onehot(label)) * d_loss` of each row."""
    compute_by_formula(scope, lambda row: _checked_label(scope, logits, labels, row))


def _checked_label(scope: Scope, logits: Reader, labels: Reader, row: E) -> E:
    split = slices(logits.shape, -1)
    chosen = labels.grouped(split.groups[:1])
    return checked_index(scope, chosen, row, scope.extents(split.length), "label")


def _log_of_sum(logits: TensorType) -> Graph:
    """Return the graph of `max + log(sum(exp(logits - max)))`, unrounded."""
    graph = Graph("rows")
    x = graph.input_of("logits", logits)
    x = ops.cast(x, to=DType.F32) if x.dtype.is_low_precision else x
    largest = ops.reduce_max(x, axes=(-1,), keepdims=True)
    total = ops.reduce_sum(ops.exp(x - largest), axes=(-1,), keepdims=True)
    graph.set_outputs([largest + ops.log(total)])
    return graph

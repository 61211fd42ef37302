"""Softmax cross-entropy against class labels, and its gradient."""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.along import Row
from rlx.codegen.kernels.indexing import checked_index
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import slices
from rlx.codegen.kernels.softmax import exponential, peak
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.expr import E, const, select
from rlx.codegen.loops.nodes import LoopKind
from rlx.codegen.loops.scalar import scalar_function


def _folded(scope: Scope, logits: Reader, row: GroupedReader, at: E) -> tuple[E, E]:
    """Return the maximum of a row, and the sum of its exponentials relative to that."""
    line = Row(scope, logits, row)
    largest = peak(line, logits)
    return largest(at), line.sum(exponential(largest))(at)


@kernel("softmax_cross_entropy_with_logits")
def softmax_cross_entropy(scope: Scope, logits: Reader, labels: Reader, y: Writer) -> None:
    """`max + log(sum(exp(logits - max))) - logits[label]` of each row."""
    k = scope.k
    split = slices(logits.shape, -1)
    source = logits.grouped(split.groups[:2])
    chosen, target = labels.grouped(split.groups[:1]), y.grouped(split.groups[:1])
    with rows(k, "row", source.extent(0), logits.type.elements) as row:
        logits_row = source.at(row)
        label = checked_index(scope, chosen, row, logits_row.extent(0), "label")
        largest, total = _folded(scope, logits, logits_row, row)
        log_sum = scalar_function("log")(total)
        target.write(row, value=largest + log_sum - logits_row.read_real(label))


@kernel("softmax_cross_entropy_backward")
def softmax_cross_entropy_backward(
    scope: Scope, logits: Reader, labels: Reader, d_loss: Reader, y: Writer
) -> None:
    """`(softmax(logits) - onehot(label)) * d_loss` of each row."""
    k = scope.k
    split = slices(logits.shape, -1)
    source, target = logits.grouped(split.groups[:2]), y.grouped(split.groups[:2])
    chosen, upstream = labels.grouped(split.groups[:1]), d_loss.grouped(split.groups[:1])
    with rows(k, "row", source.extent(0), logits.type.elements) as row:
        logits_row, y_row = source.at(row), target.at(row)
        label = checked_index(scope, chosen, row, logits_row.extent(0), "label")
        largest, total = _folded(scope, logits, logits_row, row)
        scale = k.let("scale", 1.0 / total)
        gradient = k.let("gradient", upstream.read_real(row))
        zero, one = const(0.0, logits.prim), const(1.0, logits.prim)
        with k.loop("i", logits_row.extent(0), kind=LoopKind.SIMD) as i:
            probability = exp_weight(logits_row.read_real(i) - largest) * scale
            expected = select(i.eq(label), one, zero)
            y_row.write(i, value=(probability - expected) * gradient)

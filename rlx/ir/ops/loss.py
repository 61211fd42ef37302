"""Softmax cross-entropy of logits against class labels."""

from __future__ import annotations

from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import cast, eq, where
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.reduction import log_softmax, reduce_sum, softmax_formula
from rlx.ir.ops.requirements import (
    require_dtype,
    require_nonempty_axis,
    require_rank,
    require_same_dtype,
    require_shape,
)
from rlx.ir.ops.shape import reshape
from rlx.ir.types import TensorType

_FAMILY = "loss"


@in_single_precision
def softmax_cross_entropy_formula(logits: Value, labels: Value) -> Value:
    """For derivatives only: it reads a label outside its range as no class at all."""
    logarithms = log_softmax(logits, axis=-1)
    zero = logits.graph.constant(0.0, logits.dtype)  # a product with 0 would spoil masked logits
    return -reduce_sum(where(_is_class(logits, labels), logarithms, zero), axes=(-1,))


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, decompose=softmax_cross_entropy_formula)
def softmax_cross_entropy_with_logits(logits: TensorType, labels: TensorType) -> TensorType:
    """`logsumexp(logits[i]) - logits[i, labels[i]]` for logits `[..., C]` and labels `[...]`.

    Labels are i32, i64, or f32 truncated towards zero; outside [0, C) they are an
    `IndexOutOfRangeError`.
    """
    _require_labels(logits, labels)
    return logits.with_shape(labels.shape)


@in_single_precision
def softmax_cross_entropy_backward_formula(logits: Value, labels: Value, d_loss: Value) -> Value:
    """For derivatives only, as `softmax_cross_entropy_formula`."""
    difference = softmax_formula(logits, axis=-1) - one_hot(logits, labels)
    return difference * reshape(d_loss, shape=(*d_loss.shape, 1))


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, decompose=softmax_cross_entropy_backward_formula)
def softmax_cross_entropy_backward(
    logits: TensorType, labels: TensorType, d_loss: TensorType
) -> TensorType:
    """Gradient of the loss by the logits: `(softmax(logits) - onehot(labels)) * d_loss`."""
    _require_labels(logits, labels)
    require_same_dtype(logits, d_loss)
    require_shape(d_loss, labels.shape, "d_loss")
    return logits


def one_hot(logits: Value, labels: Value) -> Value:
    """Return 1 at each label's class and 0 elsewhere, like `logits`."""
    return cast(_is_class(logits, labels), to=logits.dtype)


def _is_class(logits: Value, labels: Value) -> Value:
    """Return True at each label's class, in the shape of `logits`."""
    class_type = TensorType(DType.I64, (logits.shape[-1],))
    classes = logits.graph.iota(type=class_type)
    column = reshape(cast(labels, to=DType.I64), shape=(*labels.shape, 1))
    return eq(column, classes)


def _require_labels(logits: TensorType, labels: TensorType) -> None:
    require_dtype(logits, "float", "logits")
    require_dtype(labels, "index", "labels")
    require_rank(logits, 1, "logits")
    require_nonempty_axis(logits, -1)
    require_shape(labels, logits.shape[:-1], "labels")

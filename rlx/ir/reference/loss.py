"""Softmax cross-entropy in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.indexing import decoded
from rlx.ir.reference.registry import Array, reference


@reference(ops.softmax_cross_entropy_with_logits)
def softmax_cross_entropy_with_logits(logits: Array, labels: Array) -> Array:
    classes = decoded(labels, logits.shape[-1], "label")[..., None]
    largest = np.max(logits, axis=-1)
    total = np.sum(np.exp(logits - largest[..., None]), axis=-1)
    return largest + np.log(total) - np.take_along_axis(logits, classes, axis=-1)[..., 0]


@reference(ops.softmax_cross_entropy_backward)
def softmax_cross_entropy_backward(logits: Array, labels: Array, d_loss: Array) -> Array:
    classes = decoded(labels, logits.shape[-1], "label")[..., None]
    weights = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    weights /= np.sum(weights, axis=-1, keepdims=True)
    own = np.take_along_axis(weights, classes, axis=-1)
    np.put_along_axis(weights, classes, own - 1, axis=-1)
    return weights * d_loss[..., None]

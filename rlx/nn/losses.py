"""Losses, one number per example: average them for a scalar loss."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.nn.activations import log_sigmoid, log_softmax
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact


@function
def softmax_cross_entropy(logits: Any, labels: Any) -> Array:
    """Cross-entropy over the last axis.

    `labels` are class numbers (integers, one axis less than the logits) or probabilities.
    """
    (logits,) = inexact(logits)
    labels = as_tracer(labels)
    if labels.value.dtype.is_int:
        index = labels if labels.value.dtype is DType.I32 else convert(labels, DType.I64)
        return emit(ops.softmax_cross_entropy_with_logits, logits, index)
    return rnp.negative(rnp.sum(rnp.multiply(labels, log_softmax(logits)), -1))


@function
def sigmoid_cross_entropy(logits: Any, labels: Any) -> Array:
    """Cross-entropy of independent probabilities, elementwise."""
    positive = rnp.multiply(labels, log_sigmoid(logits))
    negative = rnp.multiply(rnp.subtract(1, labels), log_sigmoid(rnp.negative(logits)))
    return rnp.negative(rnp.add(positive, negative))


@function
def squared_error(predictions: Any, targets: Any = None) -> Array:
    """Squared difference, or the square of `predictions` without targets; elementwise."""
    return rnp.square(predictions if targets is None else rnp.subtract(predictions, targets))


@function
def mean_squared_error(predictions: Any, targets: Any) -> Array:
    """Mean of the squared differences of all elements."""
    return rnp.mean(squared_error(predictions, targets))


@function
def huber(predictions: Any, targets: Any, delta: float = 1.0) -> Array:
    """Half the squared difference up to `delta`, linear beyond; elementwise."""
    error = rnp.subtract(predictions, targets)
    distance = rnp.abs(error)
    near = rnp.less_equal(distance, delta)
    inner = rnp.where(near, error, 0)  # without abs, whose second derivative at 0 is 0
    linear = rnp.multiply(delta, rnp.subtract(distance, 0.5 * delta))
    return rnp.where(near, rnp.multiply(0.5, rnp.square(inner)), linear)

"""Losses, element by element or row by row: take the mean of them."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx import nn
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function


@function
def l2_loss(predictions: Any, targets: Any = None) -> Array:
    """Half of `squared_error`."""
    return 0.5 * nn.squared_error(predictions, targets)


@function
def huber_loss(predictions: Any, targets: Any = None, *, delta: float = 1.0) -> Array:
    """`l2_loss` near zero, straight lines from `delta` on: `rlx.nn.huber`."""
    return nn.huber(predictions, 0 if targets is None else targets, delta)


@function
def log_cosh(predictions: Any, targets: Any = None) -> Array:
    """`log(cosh(error))`."""
    errors = predictions if targets is None else rnp.subtract(predictions, targets)
    return rnp.logaddexp(errors, rnp.negative(errors)) - math.log(2.0)


@function
def hinge_loss(predictor_outputs: Any, targets: Any) -> Array:
    """`max(0, 1 - outputs * targets)`, of targets -1 and 1."""
    return rnp.maximum(0, 1 - rnp.multiply(predictor_outputs, targets))


@function
def perceptron_loss(predictor_outputs: Any, targets: Any) -> Array:
    """`max(0, -outputs * targets)`, of targets -1 and 1."""
    return rnp.maximum(0, rnp.negative(rnp.multiply(predictor_outputs, targets)))


@function
def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: int = -1
) -> Array:
    """The cosine of the angle between rows; norms below `epsilon` count as that."""
    norms = [
        rnp.maximum(rnp.linalg.norm(x, axis=axis, keepdims=True), epsilon)
        for x in (predictions, targets)
    ]
    return rnp.sum(rnp.divide(predictions, norms[0]) * rnp.divide(targets, norms[1]), axis)


@function
def cosine_distance(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: int = -1
) -> Array:
    """`1 - cosine_similarity`."""
    return 1.0 - cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis)


@function
def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Array:
    """The cross entropy of independent bits: `rlx.nn.sigmoid_cross_entropy`."""
    return nn.sigmoid_cross_entropy(logits, rnp.astype(labels, logits.dtype))


@function
def sigmoid_focal_loss(
    logits: Any, labels: Any, *, alpha: float | None = None, gamma: float = 2.0
) -> Array:
    """`sigmoid_binary_cross_entropy`, less of it where the prediction is right already."""
    labels = rnp.astype(labels, logits.dtype)
    loss = sigmoid_binary_cross_entropy(logits, labels)
    right = nn.sigmoid(logits)
    wrong = right * (1 - labels) + (1 - right) * labels
    loss = loss * rnp.power(wrong, gamma)
    return loss if alpha is None else (alpha * labels + (1 - alpha) * (1 - labels)) * loss


@function
def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Array:
    """The cross entropy of rows of probabilities `labels`."""
    return rnp.negative(rnp.sum(rnp.multiply(labels, nn.log_softmax(logits, axis)), axis))


@function
def safe_softmax_cross_entropy(logits: Any, labels: Any) -> Array:
    """`softmax_cross_entropy` where a label of 0 makes nothing of a logit of -inf."""
    logarithms = nn.log_softmax(logits, -1)
    none = rnp.equal(labels, 0)
    product = rnp.multiply(labels, rnp.where(none, 0, logarithms))
    return rnp.negative(rnp.sum(rnp.where(none, 0, product), -1))


@function
def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1) -> Array:
    """The cross entropy of rows of classes."""
    picked = rnp.take_along_axis(logits, rnp.expand_dims(labels, axis), axis)
    return rnp.subtract(nn.logsumexp(logits, axis), rnp.squeeze(picked, axis))


@function
def smooth_labels(labels: Any, alpha: float, *, axis: int = -1) -> Array:
    """Labels mixed with `alpha` of the uniform distribution."""
    return rnp.add((1.0 - alpha) * labels, alpha / labels.shape[axis])


@function
def kl_divergence(log_predictions: Any, targets: Any, axis: int = -1) -> Array:
    """The divergence of rows of logarithms from rows of probabilities."""
    some = rnp.greater(targets, 0)
    logarithms = rnp.log(rnp.where(some, targets, 1))
    return rnp.sum(targets * (logarithms - log_predictions), axis)


@function
def kl_divergence_with_log_targets(log_predictions: Any, log_targets: Any, axis: int = -1) -> Array:
    """`kl_divergence` of targets given as logarithms."""
    return rnp.sum(rnp.exp(log_targets) * rnp.subtract(log_targets, log_predictions), axis)


@function
def convex_kl_divergence(log_predictions: Any, targets: Any, axis: int = -1) -> Array:
    """`kl_divergence` that is convex also where rows do not sum to 1."""
    rest = rnp.exp(log_predictions) - targets
    return kl_divergence(log_predictions, targets, axis) + rnp.sum(rest, axis)


@function
def poly_loss_cross_entropy(
    logits: Any, labels: Any, epsilon: float = 2.0, axis: int = -1
) -> Array:
    """The cross entropy and `epsilon` times the probability that was missed (PolyLoss)."""
    hit = rnp.sum(rnp.multiply(labels, nn.softmax(logits, axis)), axis)
    return softmax_cross_entropy(logits, labels, axis) + epsilon * (1 - hit)


@function
def triplet_margin_loss(
    anchors: Any, positives: Any, negatives: Any, axis: int = -1, norm_degree: float = 2,
    margin: float = 1.0, eps: float = 1e-6,
) -> Array:  # fmt: skip
    """How much farther than a margin the positives are than the negatives."""

    def distance(others: Any) -> Any:
        powers = rnp.power(rnp.abs(rnp.subtract(anchors, others)), norm_degree)
        return rnp.power(rnp.sum(powers, axis) + eps, 1 / norm_degree)

    return rnp.maximum(distance(positives) - distance(negatives) + margin, 0)

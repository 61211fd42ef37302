"""Support vector machines: kernels with all support vectors are products of matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.onnx.operators.scores import Labels, transformed, two_classes
from rlx.onnx.registry import operator
from rlx.transforms.control import while_loop

_DOMAIN = "ai.onnx.ml"
_ROUNDS = 100
"""Rounds after which coupled probabilities count as found, as in libsvm."""
_SURE = 1e-7
"""Probabilities of pairs keep this distance from 0 and 1."""

Array = np.ndarray[Any, Any]


def _kernel(x: Any, vectors: Array, kind: str, params: Any) -> Any:
    """Return the kernel of every row with every vector, `[rows, vectors]`."""
    gamma, offset, degree = params or (0.0, 0.0, 0.0)
    if kind == "RBF":
        apart = rnp.expand_dims(x, 1) - vectors
        return rnp.exp(-gamma * rnp.sum(apart * apart, -1))
    products = rnp.matmul(x, vectors.T)
    if kind == "LINEAR":
        return products
    moved = products * gamma + offset
    if kind == "POLY":
        return rnp.power(moved, float(int(degree)))
    if kind == "SIGMOID":
        return rnp.tanh(moved)
    raise FormatError(
        f"kernel_type {kind!r}", remedy="the standard has LINEAR, POLY, RBF and SIGMOID"
    )


def _floats(values: Any, *shape: int) -> Array:
    return np.asarray(values if values is not None else (), np.float32).reshape(shape)


@operator("SVMRegressor", domain=_DOMAIN)
def svm_regressor(
    x: Any,
    *,
    coefficients: Any = (),
    kernel_params: Any = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Any = (0.0,),
    support_vectors: Any = (),
) -> Any:
    """A weighted sum of kernels; in a machine of one class, its sign."""
    x, weights = rnp.astype(x, "f32"), _floats(coefficients, -1, 1)
    if n_supports:
        x = _kernel(x, _floats(support_vectors, n_supports, -1), kernel_type, kernel_params)
    y = rnp.matmul(x, weights) + np.float32(rho[0])
    if one_class:
        y = rnp.where(rnp.greater(y, 0), np.float32(1), np.float32(-1))
    return transformed(y, post_transform)


@operator("SVMClassifier", domain=_DOMAIN)
def svm_classifier(
    x: Any,
    *,
    classlabels_ints: Any = None,
    classlabels_strings: Any = None,
    coefficients: Any = (),
    kernel_params: Any = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Any = None,
    prob_b: Any = None,
    rho: Any = (),
    support_vectors: Any = None,
    vectors_per_class: Any = None,
) -> Any:
    """Every pair of classes votes; without support vectors, every class has a score."""
    classes = max(len(classlabels_ints or classlabels_strings or ()), 1)
    labels = Labels.of(classlabels_ints, classlabels_strings, classes)
    x, shift = rnp.astype(x, "f32"), _floats(rho, -1)
    if not vectors_per_class:
        scores = votes = rnp.matmul(x, _floats(coefficients, classes, -1).T) + shift[0]
    else:
        vectors = _floats(support_vectors, sum(vectors_per_class), -1)
        kernels = _kernel(x, vectors, kernel_type, kernel_params)
        scores = rnp.matmul(kernels, _pair_weights(coefficients, vectors_per_class)) + shift
        votes = _votes(scores, classes)
    if prob_a and vectors_per_class:
        pairs = _pair_probabilities(scores, _floats(prob_a, -1), _floats(prob_b, -1))
        scores = _coupled(pairs, classes)
    if labels.size == 1:  # one class: its score says whether it is
        positive = rnp.greater(votes[:, 0], 0)
        return rnp.astype(positive, "i64"), transformed(scores, post_transform)
    chosen = labels.at(rnp.argmax(votes, -1))
    if scores.shape[-1] == 1:
        is_share = post_transform != "NONE"  # as ONNX Runtime has it
        return chosen, two_classes(scores, post_transform, is_share=is_share)
    return chosen, transformed(scores, post_transform)


def _pairs(classes: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(classes), 2))


def _pair_weights(coefficients: Any, counts: Any) -> Array:
    """Return the weight of each support vector in the decision between each pair of classes."""
    table = _floats(coefficients, -1, sum(counts))
    ends = np.cumsum(counts)
    blocks = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    pairs = _pairs(len(counts))
    weights = np.zeros((sum(counts), len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        weights[blocks[i], column] = table[j - 1, blocks[i]]
        weights[blocks[j], column] = table[i, blocks[j]]
    return weights


def _votes(scores: Any, classes: int) -> Any:
    """Return for every class the pairs that chose it."""
    pairs = np.asarray(_pairs(classes))
    first, second = (np.eye(classes, dtype=np.float32)[pairs[:, side]] for side in (0, 1))
    wins = rnp.astype(rnp.greater(scores, 0), "f32")
    return rnp.matmul(wins, first) + rnp.matmul(1 - wins, second)


def _pair_probabilities(scores: Any, a: Array, b: Array) -> Any:
    """Return the probability of the first class of each pair (Platt, 1999)."""
    likely = 1 - 1 / (1 + rnp.exp(-(scores * a + b)))
    return rnp.clip(likely, _SURE, 1 - _SURE)


def _coupled(pairs: Any, classes: int) -> Any:
    """Return probabilities of classes that agree best with those of pairs (Wu et al., 2004)."""
    against = _against(pairs, classes)
    eye = np.eye(classes, dtype=np.float32)
    squares = rnp.sum(against * against, 1)
    q = rnp.expand_dims(squares, -1) * eye - against * rnp.swapaxes(against, 1, 2)
    start = rnp.full((pairs.shape[0], classes), np.float32(1 / classes))

    def is_open(p: Any) -> Any:
        """True for the rows that are not found yet."""
        qp = rnp.sum(q * rnp.expand_dims(p, 1), -1)
        error = rnp.abs(qp - rnp.sum(p * qp, -1, keepdims=True))
        return rnp.greater_equal(rnp.max(error, -1, keepdims=True), np.float32(0.005 / classes))

    def goes_on(state: Any) -> Any:
        return rnp.logical_and(
            rnp.less(state[0], max(_ROUNDS, classes)), rnp.any(is_open(state[1]))
        )

    def one_round(state: Any) -> Any:
        number, p = state
        return number + 1, rnp.where(is_open(p), _improved(q, p, classes), p)

    return while_loop(goes_on, one_round, (np.int32(0), rnp.asarray(start)))[1]


def _against(pairs: Any, classes: int) -> Any:
    """Return `[rows, i, j]`: the probability of class i where i or j is the class; 0 for i = j."""
    columns = {pair: number for number, pair in enumerate(_pairs(classes))}

    def entry(i: int, j: int) -> Any:
        if i == j:
            return rnp.zeros_like(pairs[:, 0])
        return pairs[:, columns[i, j]] if i < j else 1 - pairs[:, columns[j, i]]

    rows = [rnp.stack([entry(i, j) for j in range(classes)], -1) for i in range(classes)]
    return rnp.stack(rows, 1)


def _improved(q: Any, p: Any, classes: int) -> Any:
    """Solve for one probability after the other, the rest given."""
    qp = rnp.sum(q * rnp.expand_dims(p, 1), -1)
    total = rnp.sum(p * qp, -1, keepdims=True)
    for t in range(classes):
        own = q[:, t, t : t + 1]
        step = (total - qp[:, t : t + 1]) / own
        total = (total + step * (step * own + 2 * qp[:, t : t + 1])) / (1 + step) ** 2
        p = (p + step * np.eye(classes, dtype=np.float32)[t]) / (1 + step)
        qp = (qp + step * q[:, t]) / (1 + step)
    return p

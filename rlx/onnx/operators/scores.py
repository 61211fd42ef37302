"""What the classifiers of ai.onnx.ml make of scores: post transforms, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError, UnsupportedError

_BY_NUMBER = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ZERO = 1e-7
"""Scores as small as this stay zero in SOFTMAX_ZERO."""


def transformed(scores: Any, post_transform: str | int) -> Any:
    """Apply a post transform, by its name or number, to rows of scores."""
    name = post_transform if isinstance(post_transform, str) else _BY_NUMBER[post_transform]
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return 1 / (1 + rnp.exp(-scores))
    if name == "PROBIT":
        return _probit(scores)
    if name not in ("SOFTMAX", "SOFTMAX_ZERO"):
        raise FormatError(
            f"post_transform {name!r}", remedy=f"the standard has: {', '.join(_BY_NUMBER)}"
        )
    most = rnp.max(scores, -1, keepdims=True)
    raised = rnp.exp(scores - most)
    if name == "SOFTMAX_ZERO":
        raised = rnp.where(rnp.abs(scores) > _ZERO, raised, scores * rnp.exp(-most))
    return raised / rnp.sum(raised, -1, keepdims=True)


def _probit(p: Any) -> Any:
    """The quantile of the normal distribution, by the approximation that ONNX Runtime has."""
    x = p * 2 - 1
    log = rnp.log((1 - x) * (1 + x))
    v = 2 / (np.pi * 0.147) + 0.5 * log
    root = rnp.sqrt(-v + rnp.sqrt(v * v - log / 0.147))
    return 1.41421356 * rnp.sign(x) * root


def two_classes(score: Any, post_transform: str | int, *, is_share: bool) -> Any:
    """Return the scores of two classes from the one of the second `[rows, 1]`.

    A share of 1 leaves the rest to the first class; other scores are their negatives. Of the post
    transforms LOGISTIC alone applies to such a pair, as ONNX Runtime has it.
    """
    if post_transform in ("LOGISTIC", _BY_NUMBER.index("LOGISTIC")):
        return transformed(rnp.concatenate([-score, score], -1), post_transform)
    return rnp.concatenate([1 - score if is_share else -score, score], -1)


def numbers_as_labels(ints: Any, strings: Any, count: int) -> Any:
    """Return the labels of classes; strings are refused."""
    if strings:
        raise UnsupportedError(
            "labels that are strings: rlx compiles numbers", remedy="use integers as labels"
        )
    return np.asarray(ints if ints else range(count), np.int64)

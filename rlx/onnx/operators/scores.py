"""What the classifiers of ai.onnx.ml make of scores: post transforms, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.onnx.values import deferred

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


@dataclass(frozen=True)
class Labels:
    """The labels of classes, integers or strings."""

    values: np.ndarray[Any, Any]

    @classmethod
    def of(cls, ints: Any, strings: Any, count: int) -> Labels:
        """Return the labels that a node has; else the numbers of `count` classes."""
        if strings:
            return cls(np.asarray(strings, object))
        return cls(np.asarray(ints if ints else range(count), np.int64))

    @property
    def size(self) -> int:
        return self.values.size

    def at(self, numbers: Any) -> Any:
        """Return the labels of classes by their numbers; strings are put in after the run."""
        if self.values.dtype == object:
            labels = tuple(self.values.tolist())
            return deferred(numbers, self.values.take, labels, is_elementwise=True)
        return rnp.take(self.values, numbers)

"""Operators whose result sizes depend on data: choices among boxes, counts of words."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.onnx.registry import Static, operator

Array = np.ndarray[Any, Any]


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Static,
    scores: Static,
    most: Static = None,
    overlap: Static = None,
    least: Static = None,
    *,
    center_point_box: int = 0,
) -> Any:
    """Triples (image, class, box) of the best boxes that overlap no better one too much."""
    limit = 0 if most is None else int(np.reshape(most, ()))
    highest = 0.0 if overlap is None else float(np.reshape(overlap, ()))
    threshold = -np.inf if least is None else float(np.reshape(least, ()))
    found = []
    for image, corners in enumerate(_corners(boxes, bool(center_point_box))):
        for kind, row in enumerate(scores[image]):
            for box in _best(corners, row, limit, highest, threshold):
                found.append((image, kind, box))
    return np.asarray(found, np.int64).reshape(-1, 3)


def _corners(boxes: Array, by_center: bool) -> Array:
    """Return boxes as (low, low, high, high)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if by_center:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _best(boxes: Array, scores: Array, limit: int, highest: float, threshold: float) -> list[int]:
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if scores[box] <= threshold or len(kept) >= limit:
            break
        if all(_overlap(boxes[box], boxes[other]) <= highest for other in kept):
            kept.append(int(box))
    return kept


def _overlap(a: Array, b: Array) -> float:
    """Return the shared area, as a part of what both cover."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    total = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared
    return shared / total if total > 0 else 0.0


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Any,
    *,
    mode: str,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    ngram_counts: Any,
    ngram_indexes: Any,
    pool_int64s: Any = None,
    pool_strings: Any = None,
    weights: Any = None,
) -> Any:
    """Count the known n-grams of each row, with up to `max_skip_count` numbers left out."""
    del pool_strings
    rows = rnp.reshape(x, (1, -1)) if x.ndim == 1 else x
    size = max(ngram_indexes) + 1
    columns: list[Any] = [rnp.zeros(rows.shape[0], "f32")] * size
    for number, gram in enumerate(_grams(pool_int64s, ngram_counts)):
        if min_gram_length <= len(gram) <= max_gram_length:
            column = ngram_indexes[number]
            columns[column] = columns[column] + _occurrences(rows, gram, max_skip_count)
    counts = rnp.stack(columns, 1)
    factors = np.ones(size, np.float32)
    if weights is not None and mode != "TF":
        factors[list(ngram_indexes)] = weights
    y = rnp.astype(rnp.greater(counts, 0), "f32") if mode == "IDF" else counts
    y = y if mode == "TF" else y * factors
    return y[0] if x.ndim == 1 else y


def _grams(pool: Any, starts: Any) -> list[tuple[int, ...]]:
    """Return the n-grams of a pool that lists those of one number, of two, ..."""
    found = []
    bounds = [*starts, len(pool)]
    for length, (first, last) in enumerate(itertools.pairwise(bounds), start=1):
        for start in range(first, last, length):
            found.append(tuple(pool[start : start + length]))
    return found


def _occurrences(rows: Any, gram: tuple[int, ...], most_skipped: int) -> Any:
    total: Any = 0
    for apart in range(1, (most_skipped if len(gram) > 1 else 0) + 2):
        count = rows.shape[1] - (len(gram) - 1) * apart
        if count <= 0:
            break
        matches: Any = True
        for place, word in enumerate(gram):
            part = rows[:, place * apart : place * apart + count]
            matches = rnp.logical_and(matches, rnp.equal(part, word))
        total = total + rnp.sum(rnp.astype(matches, "f32"), 1)
    return total

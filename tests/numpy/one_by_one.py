"""Folds of NumPy's functions of two arrays, computed one pair of numbers at a time.

NumPy's own `reduce` is no oracle: on machines with AVX-512, `arctan2.reduce` and `power.reduce` of
a contiguous axis differ from the fold in NumPy 2.4.6, while `accumulate` and calls with scalars are
right. Shapes, dtypes, identities and refused calls are NumPy's here; values are folded.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


class OneByOne:
    """`reduce` and `accumulate` of a ufunc by calls with two scalars; the rest is the ufunc's."""

    def __init__(self, ufunc: Any) -> None:
        self.ufunc = ufunc
        self.identity, self.outer, self.at = ufunc.identity, ufunc.outer, ufunc.at

    def reduce(self, x: Any, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
        like = np.asarray(self.ufunc.reduce(x, axis, keepdims=keepdims, **options))
        mask = np.broadcast_to(options.get("where", True), x.shape)
        rows, masks = self._rows(x, axis), self._rows(mask, axis)
        initial = options.get("initial", self.identity)
        found = [
            self._last([*([] if initial is None else [initial]), *row[mask]], default)
            for row, mask, default in zip(rows, masks, like.ravel(), strict=True)
        ]
        return np.array(found, like.dtype).reshape(like.shape)

    def accumulate(self, x: Any, axis: Any = 0) -> Any:
        like = self.ufunc.accumulate(x, axis)
        axis = 0 if axis is None else axis[0] if isinstance(axis, tuple) else axis
        lines = np.moveaxis(x, axis, -1)
        found = [list(itertools.accumulate(row, self.ufunc)) for row in self._rows(x, axis)]
        return np.moveaxis(np.array(found, like.dtype).reshape(lines.shape), -1, axis)

    def _last(self, numbers: list[Any], default: Any) -> Any:
        """The fold of some numbers; of none it is NumPy's identity."""
        return list(itertools.accumulate(numbers, self.ufunc))[-1] if numbers else default

    def _rows(self, x: Any, axis: Any) -> Any:
        """The elements that are folded to each element of the result, in order."""
        axes = tuple(range(x.ndim)) if axis is None else np.atleast_1d(axis).astype(int).tolist()
        kept = [i for i in range(x.ndim) if i not in {a % x.ndim for a in axes}]
        order = [*kept, *sorted(a % x.ndim for a in axes)]
        count = int(np.prod([x.shape[i] for i in kept], dtype=int))
        return np.transpose(x, order).reshape(count, -1) if count else np.zeros((0, 0), x.dtype)

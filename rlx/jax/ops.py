"""`jax.ops`: folds by segments; ids outside are left out, as in JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.public_names import names_of as _names_of


def _dropping(fold: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fold)
    def call(
        data: Any, segment_ids: Any, num_segments: int | None = None,
        indices_are_sorted: bool = False, unique_indices: bool = False,
        bucket_size: int | None = None, mode: Any = None,
    ) -> Any:  # fmt: skip
        del indices_are_sorted, unique_indices, bucket_size
        return fold(data, segment_ids, num_segments, mode=mode or "drop")

    return call


segment_sum, segment_prod = _dropping(rnp.segment_sum), _dropping(rnp.segment_prod)
segment_max, segment_min = _dropping(rnp.segment_max), _dropping(rnp.segment_min)

__dir__ = _names_of(__name__)

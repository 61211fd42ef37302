"""`jax.Array`: what `isinstance` asks for, of numbers and of traced arrays alike."""

from __future__ import annotations

from typing import Any

import rlx
from rlx.tracing.trace import TracedArray


class _Arrays(type):
    """Every array of rlx is an instance."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (rlx.Array, TracedArray))


class Array(metaclass=_Arrays):
    """An array, traced or not."""

"""`jax.typing`: what annotations of programs name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rlx.jax.arrays import Array as Array

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]

__all__ = ["Array", "ArrayLike", "DTypeLike"]

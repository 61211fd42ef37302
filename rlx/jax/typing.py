"""`jax.typing`: what annotations of programs name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rlx.jax.arrays import Array as Array
from rlx.public_names import names_of as _names_of

ArrayLike: TypeAlias = Array | np.ndarray[Any, Any] | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]

__all__ = ["Array", "ArrayLike", "DTypeLike"]

__dir__ = _names_of(__name__)

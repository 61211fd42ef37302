"""`jax.dtypes`: types of elements and how they promote."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import DTypeError
from rlx.numpy.dtypes import finfo as finfo
from rlx.numpy.dtypes import issubdtype as issubdtype
from rlx.numpy.dtypes import promote_types as promote_types
from rlx.numpy.dtypes import result_type as result_type
from rlx.public_names import names_of as _names_of

TypePromotionError = DTypeError
bfloat16, iinfo = rnp.bfloat16, rnp.iinfo
float0 = np.dtype([("float0", np.void, 0)])
"""Of JAX's derivatives by integers; ours have their integers' zeros."""


class extended(np.generic):  # noqa: N801  JAX's name
    """A kind of dtype that no array of rlx has."""


class prng_key(extended):  # noqa: N801  JAX's name
    """The kind of JAX's typed keys; those of `rlx.random` are arrays of u32."""


def itemsize_bits(dtype: Any) -> int:
    """Return how many bits an element has."""
    return 8 * np.dtype(rnp.result_type(dtype)).itemsize


def canonicalize_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that an array has for which `dtype` is asked."""
    return np.dtype(rnp.result_type(dtype))


__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "promote_types",
    "result_type",
]

__dir__ = _names_of(__name__)

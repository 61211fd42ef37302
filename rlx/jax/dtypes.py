"""`jax.dtypes`: types of elements and how they promote."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.numpy.dtypes import finfo as finfo
from rlx.numpy.dtypes import issubdtype as issubdtype
from rlx.numpy.dtypes import promote_types as promote_types
from rlx.numpy.dtypes import result_type as result_type

bfloat16, iinfo = rnp.bfloat16, rnp.iinfo


def canonicalize_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that an array has for which `dtype` is asked."""
    return np.dtype(rnp.result_type(dtype))


__all__ = [
    "bfloat16",
    "canonicalize_dtype",
    "finfo",
    "iinfo",
    "issubdtype",
    "promote_types",
    "result_type",
]

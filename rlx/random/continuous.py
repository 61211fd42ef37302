"""Distributions of real numbers that are functions of one uniform number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy import elementwise as e
from rlx.random.keys import Shape, shape_of_draw
from rlx.random.uniforms import float_dtype, uniform
from rlx.tracing.apply import emit, function
from rlx.tracing.tracer import Tracer


@function
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Normally distributed with mean 0 and variance 1."""
    return standard_normal(key, shape_of_draw(shape), float_dtype(dtype, "normal"))


def standard_normal(key: Any, shape: Shape, dtype: DType) -> Tracer:
    """Return normals by the inverse of their distribution, as JAX does."""
    one = np.ones((), dtype.numpy)
    low = np.nextafter(-one, 0 * one)
    drawn = uniform(key, shape, dtype, low, one)
    root = np.asarray(np.sqrt(2), dtype.numpy)
    normals: Tracer = e.multiply(root, emit(ops.erf_inv, drawn))
    return normals

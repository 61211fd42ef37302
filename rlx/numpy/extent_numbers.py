"""Extents as numbers: a program reads them off its shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.shape import Dim, Extent, needs_a_trace, set_number_of_extents
from rlx.tracing.apply import as_tracer, emit
from rlx.tracing.trace import current_trace


def extent_number(extent: Extent) -> Any:
    """Return an extent as an i64: a traced one where the extent is symbolic."""
    return np.int64(extent) if isinstance(extent, int) else emit(ops.extent, value=extent)


def _traced(extent: Dim) -> Any:
    """Return an extent as a traced integer of a weak type, like a number of Python's."""
    if current_trace() is None:
        raise needs_a_trace(extent)
    return as_tracer(extent)


set_number_of_extents(_traced)

"""Errors in the use of traced arrays, or in arguments of transformations."""

from __future__ import annotations

from rlx.errors import MutationError as MutationError
from rlx.errors import RlxError


class TraceError(RlxError, TypeError):
    """Root of the errors in the use of traced arrays."""


class ConcretizationError(TraceError):
    """A Python value was asked of a traced array, which has none while the graph is built."""


class LeakedTracerError(TraceError):
    """A traced array was used after its trace had ended."""


class StaticArgumentError(TraceError):
    """A static argument that cannot be one: unhashable, or no such argument."""

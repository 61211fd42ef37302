"""Errors of batching."""

from __future__ import annotations

from rlx.errors import GraphError, NoRuleError, RlxError, ShapeError


class VmapError(RlxError):
    """Root of the errors that batching raises on purpose."""


class UnknownInputError(VmapError, GraphError):
    """`in_axes` does not fit the inputs: an unknown name, a param, a wrong count."""


class AxisError(VmapError, ShapeError):
    """A batch axis or size that the graph's inputs or outputs cannot have."""


class DonationError(VmapError, GraphError):
    """A leaf that an output replaces in place, and batching gave only one of them the axis."""


class ImpureOpError(VmapError, NoRuleError):
    """An op whose equal nodes need not have equal values, and that has no batching rule."""


class UnknownRuleError(VmapError, NoRuleError):
    """A call whose batching rule was stated in another process."""

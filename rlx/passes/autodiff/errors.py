"""Errors of differentiation."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.errors import DTypeError, GraphError, NoRuleError, RlxError, Source


class AutodiffError(RlxError):
    """Root of the errors that differentiation raises on purpose."""


class MissingGradientError(AutodiffError, GraphError):
    """Values in `wrt` that the loss does not depend on; `names` lists them."""

    def __init__(
        self,
        message: str,
        *,
        names: Sequence[str] = (),
        source: Source | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, source=source, remedy=remedy)
        self.names = tuple(names)


class NonDifferentiableError(AutodiffError, DTypeError):
    """A derivative of, or with respect to, a value whose dtype carries none."""


class UnknownInputError(AutodiffError, GraphError):
    """A value or name that the graph does not have, or that is not a leaf."""


class NoDerivativeError(AutodiffError, NoRuleError):
    """An op between `wrt` and the loss has no derivative."""

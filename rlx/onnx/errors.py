"""What stops an import: values that only a run knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rlx.errors import Source, UnsupportedError


class ValueNeededError(UnsupportedError):
    """A shape or a branch depends on numbers that are known at run time only."""

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
        """The values that are needed, by their names in the model; none: all of the node."""

    def located(self, context: str, source: Source | None) -> Self:
        error = super().located(context, source)
        error.names = self.names
        return error


class ForeignDTypeError(ValueNeededError):
    """A dtype of files that our ops lack: what has it is computed where all inputs are known."""

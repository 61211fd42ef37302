"""Errors of the importer: values known at run time only, unknown operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx.errors import RlxError, Source, UnsupportedError


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


class ForeignDTypeError(ValueNeededError):
    """A dtype of files that our ops lack: what has it is computed where all inputs are known."""


_SEARCH = (
    "export the decoder without the search (in transformers: without "
    "convert_generation), and call its session in a loop that chooses the tokens"
)
_REMEDIES = {
    "WhisperBeamSearch": _SEARCH,
    **dict.fromkeys(("MoE", "QMoE"), "export the experts as products of their tokens"),
}
"""By operators of `com.microsoft` that are no decompositions."""


def unknown_operator(proto: Any, domain: str, version: int) -> RlxError:
    """Return the error of a node whose operator has no translator and no function."""
    full = f"{domain}.{proto.op_type}" if domain else proto.op_type
    remedy = "docs/onnx.md lists the operators; write the model with others, or as a function"
    if domain == "com.microsoft":
        remedy = _REMEDIES.get(proto.op_type, remedy)
    return UnsupportedError(f"operator {full} of opset {version} is not known", remedy=remedy)


def relocated(error: RlxError, context: str, source: Source) -> RlxError:
    """Return `error` at `source`, and with its context once."""
    has_context = error.message.startswith(context)
    message = error.message if has_context else f"{context}: {error.message}"
    return error.rewritten(message, source)

"""The error hierarchy, by what the user can do about it.

Every error carries a `message` (what is wrong, both values, the rule), optionally the
`source` line of the user's file that built the faulty node, and a `remedy`. Each class
also inherits the builtin that a Python user would catch.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Self

from rlx.dataclass import dataclass
from rlx.public_names import names_of as _names_of

_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Controls, marks that turn the direction of writing, and halves of surrogate pairs."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's program: the line that built a node."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def printable(text: str) -> str:
    """Return `text` with what controls a terminal spelled out: names in files may hold anything.

    Ends of lines and tabulators remain.
    """
    return re.sub(_CONTROLS, lambda found: found[0].encode("unicode_escape").decode(), text)


class RlxError(Exception):
    """Root of all errors that rlx raises on purpose."""

    def __init__(
        self, message: str, *, source: Source | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.message]
        if self.source is not None:
            lines.append(f"  at {self.source}")
        if self.remedy is not None:
            lines.append(f"  {self.remedy}")
        return printable("\n".join(lines))

    def located(self, context: str, source: Source | None) -> Self:
        """Return this error prefixed with `context` (an op's name) and placed at `source`."""
        return self.rewritten(f"{context}: {self.message}", self.source or source)

    def rewritten(self, message: str, source: Source | None) -> Self:
        """Return a copy with another message and source; all other fields are kept."""
        error = copy.copy(self)
        error.args, error.message, error.source = (message,), message, source
        return error


class ShapeError(RlxError, ValueError):
    """Shapes, axes or extents that do not fit together."""


class DTypeError(RlxError, TypeError):
    """A dtype that an op does not take."""


class MutationError(RlxError, TypeError, ValueError):
    """An assignment into an array that cannot be changed: a traced one, or a result."""


class GraphError(RlxError, ValueError):
    """A malformed graph: what the verifier reports, wrong names, wrong counts."""


class NoRuleError(RlxError, NotImplementedError):
    """An op has no rule for a transform; names the op, the transform and what to do.

    It is a `NotImplementedError`, too, so that code that does not import rlx can catch it.
    """


class UnsupportedError(RlxError, NotImplementedError):
    """A valid program that this backend or target cannot run; also a `NotImplementedError`."""


class SymbolicExtentError(ShapeError, UnsupportedError):
    """An extent is symbolic where a number is needed, or its bounds do not decide a comparison.

    The same program with numbers for its extents may be valid.
    """


class ToolchainError(RlxError, RuntimeError):
    """A missing or failing compiler or library: the command, its exit code, its own words."""


class MissingPackageError(ToolchainError, AttributeError):
    """An optional package is not installed; `hasattr(rlx, "onnx")` is False then."""


class InputError(RlxError, TypeError):
    """Arrays given at call time that do not fit the compiled signature, or data faults."""


class ReentryError(RlxError, RuntimeError):
    """A function was called from within its own run in the same thread."""


class IndexOutOfRangeError(InputError, IndexError):
    """A run-time index, label or expert id outside its range."""


class SingularMatrixError(InputError, ArithmeticError):
    """The matrix of a linear solve is exactly singular."""


class CommunicationError(RlxError, ConnectionError):
    """A collective failed, or the ranks of a program do not agree."""


class ForeignCallError(RlxError, RuntimeError):
    """A registered C function returned an error code."""


class BusyError(RlxError, TimeoutError):
    """All arenas of a session are in use."""


class NonFiniteError(RlxError, FloatingPointError):
    """A kernel made a NaN or an infinity from finite numbers, in a run that looks for them."""


class CheckError(RlxError, ValueError):
    """A check of a running program failed; `rlx.jax.experimental.checkify` makes it a result."""


class FailedCheckError(CheckError):
    """A predicate of the user's does not hold."""


class NaNError(CheckError):
    """An op made a NaN, or passed one on."""


class DivisionByZeroError(CheckError):
    """A divisor is zero."""


class OOBError(CheckError):
    """An index is out of range."""


class MissedFusionError(RlxError, AssertionError):
    """Values are stored between kernels that should be one; `missed` has the pairs and reasons."""

    def __init__(
        self,
        message: str,
        *,
        missed: tuple[Any, ...] = (),
        source: Source | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, source=source, remedy=remedy)
        self.missed = missed


class FormatError(RlxError, ValueError):
    """A file or text that is not what it claims to be."""


class LimitError(FormatError):
    """A file needs more than its loader's limits allow: see `rlx.LoadLimits`.

    `limit` is the name of the limit, `value` what the file needs (None where it is not known),
    `allowed` the limit itself.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        value: float | None = None,
        allowed: float | None = None,
        source: Source | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, source=source, remedy=remedy)
        self.limit = limit
        self.value = value
        self.allowed = allowed


class InternalError(RlxError, RuntimeError):
    """A fault of rlx itself; names the pass. Please report it."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n  {_HOW_TO_REPORT}"


_HOW_TO_REPORT = (
    "this is a fault of rlx, not of your program: please report it with the lines that show it "
    "and the output of `rlx doctor`"
)


class blamed:  # noqa: N801  # a context manager, entered for every node that a rule looks at
    """Place faults of rlx itself that surface in the block: `context` says what it does.

    What is no error of ours, nor of the environment, becomes an InternalError.
    """

    __slots__ = ("_context", "_source")

    def __init__(self, context: str, source: Source | None) -> None:
        self._context = context
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, InternalError):
            if error.source is None and self._source is not None:
                raise error.located(self._context, self._source) from error
        elif isinstance(error, Exception) and not isinstance(error, _NOT_OURS):
            message = f"{self._context}: {type(error).__name__}: {error}"
            raise InternalError(message, source=self._source) from error


_NOT_OURS = (RlxError, OSError, MemoryError)
"""Errors that are no faults of rlx; any other is."""


__dir__ = _names_of(__name__)

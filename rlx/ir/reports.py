"""Messages of checks, by the number that each op `check` has as an attribute.

A report is data: two equal ones have one number, which holds in this process. What a compiled
program is kept by (`ir.digest`) has the content of its reports in place of their numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import CheckError, GraphError, Source
from rlx.signal_safe_lock import reentrant_lock


@dataclass(frozen=True)
class Report(ABC):
    """The error of a check, and its line in the user's program."""

    error: type[CheckError]
    source: Source | None = field(default=None, kw_only=True)

    @abstractmethod
    def message(self, values: Sequence[Any]) -> str:
        """Say what is wrong, by the values that the check was given."""

    def summary(self) -> str:
        """Say what is checked, without values: what an artifact in C has of the message."""
        return str(self.error.__doc__).partition("\n")[0]

    def content(self) -> str:
        """Return what the report is in every process: its kind and fields, but not its line."""
        fields = (name for name in self.__dataclass_fields__ if name not in ("error", "source"))
        parts = (f"{name}={getattr(self, name)!r}" for name in fields)
        return " ".join((type(self).__qualname__, self.error.__qualname__, *parts))

    def raised(self, values: Sequence[Any]) -> CheckError:
        """Return the error to raise."""
        return self.error(self.message(values), source=self.source)


_lock = reentrant_lock()
_numbers: dict[Report, int] = {}
_reports: list[Report] = []


def number_of(report: Report) -> int:
    """Return the number of a report."""
    with _lock:
        if report not in _numbers:
            _numbers[report] = len(_reports)
            _reports.append(report)
        return _numbers[report]


def report_of(number: int) -> Report:
    """Return the report of a number, or raise GraphError where this process has none."""
    if not 0 <= number < len(_reports):
        raise GraphError(
            f"report {number} of a check is not known in this process",
            remedy="trace the function here, instead of loading its graph",
        )
    return _reports[number]

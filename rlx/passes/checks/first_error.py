"""The first error of a program, while it is made: its number and the payload of each check.

The number is 0 while nothing has failed, and then 1 and the position of the report. What the
check of a report reports is its payload, which loops carry and branches return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.reports import Report
from rlx.ir.types import TensorType
from rlx.passes.algebra import zeros

NUMBER = TensorType(DType.I32, ())


@dataclass(slots=True)
class FirstError:
    """The first error of what has been appended to `graph`."""

    graph: Graph
    number: Value
    reports: list[Report] = field(default_factory=list)
    payloads: list[tuple[Value, ...]] = field(default_factory=list)
    """For each report, the values in its text."""

    @classmethod
    def none(cls, graph: Graph) -> FirstError:
        return cls(graph, graph.constant(0, DType.I32))

    def note(self, failed: Value, report: Report, values: Sequence[Value]) -> None:
        """Take in a check."""
        one = self.graph.constant(1, DType.I32)
        self.merge(ops.where(failed, one, 0), [report], [tuple(values)])

    def merge(
        self, number: Value, reports: Sequence[Report], payloads: Sequence[tuple[Value, ...]]
    ) -> None:
        """Take in the first error of what comes next, whose reports are numbered from 1."""
        if self.reports:
            shifted = ops.where(ops.eq(number, 0), 0, number + len(self.reports))
            self.number = ops.where(ops.eq(self.number, 0), shifted, self.number)
        else:
            self.number = number
        self.reports += reports
        self.payloads += payloads

    @property
    def values(self) -> tuple[Value, ...]:
        """The error number and the payloads of all checks: the carries of a loop."""
        return self.number, *(value for values in self.payloads for value in values)


def by_report(values: Sequence[Value], counts: Sequence[int]) -> list[tuple[Value, ...]]:
    """Split the payloads of all checks by `counts` of values."""
    rest = iter(values)
    return [tuple(next(rest) for _ in range(count)) for count in counts]


def carried_on(before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
    """Return the state after a step: `before`, where that has an error, else that of the step."""
    is_first = ops.eq(before[0], 0)
    pairs = zip(before, after, strict=True)
    return [ops.where(is_first, new, old) for old, new in pairs]


def nothing_yet(graph: Graph, types: Sequence[TensorType]) -> list[Value]:
    """Return a state of these types that has no error."""
    return [zeros(graph, type) for type in types]

"""Status codes of native code as exceptions: what each means to the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rlx.codegen.entry import failing_node
from rlx.codegen.loops.nodes import DETAIL_WORDS, Status
from rlx.dataclass import dataclass
from rlx.errors import (
    CommunicationError,
    IndexOutOfRangeError,
    InputError,
    InternalError,
    RlxError,
    SingularMatrixError,
)
from rlx.ir import ops
from rlx.ir.graph import Node
from rlx.ir.reports import report_of
from rlx.runtime.foreign import raised_by
from rlx.runtime.signature import Array

COMBINED = -(1 << 63)
"""The combined index of several, one per axis, of which one is out of range."""

FAULT_WORDS = (0, 1, 2, *DETAIL_WORDS)
"""The words of the arena's header that hold a record."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one status is reported."""

    error: type[RlxError]
    words: str
    remedy: str


_KINDS: Mapping[Status, Kind] = {
    Status.INDEX_OUT_OF_RANGE: Kind(
        IndexOutOfRangeError,
        "index out of range",
        "keep indices within the extent, for example with rlx.numpy.clip",
    ),
    Status.SINGULAR_MATRIX: Kind(
        SingularMatrixError,
        "singular matrix",
        "add a small multiple of the identity, or leave such matrices out",
    ),
    Status.INVALID_DISTRIBUTION: Kind(
        InputError,
        "logits without a distribution",
        "rows of logits need a number above -inf, and none that is NaN or +inf",
    ),
    Status.COLLECTIVE_FAILED: Kind(
        CommunicationError, "MPI returned an error", "see what MPI says of this error code"
    ),
    Status.EXTENT_OUT_OF_RANGE: Kind(
        InputError, "extent out of range", "give arrays within the bounds of their Dim"
    ),
}


@dataclass(frozen=True, slots=True)
class Record:
    """What a fault leaves in the arena's header."""

    origin: int
    """The number of the node among all of the program; see `ir.numbering`."""
    position: int
    found: int
    limit: int

    @staticmethod
    def take(header: Array) -> Record:
        """Read the record."""
        found, limit = (int(header[word]) for word in DETAIL_WORDS)
        return Record(int(header[1]), int(header[2]), found, limit)


def describe_fault(
    name: str,
    status: int,
    nodes: Sequence[Node],
    record: Record,
    operands_of: Callable[[int], Sequence[Array | None]],
) -> BaseException:
    """Return the exception for a status that program `name` returned, with the node at fault.

    `operands_of` returns what the operands of a node hold, by its number; None where that is lost.
    """
    node = _blamed(nodes[record.origin]) if 0 <= record.origin < len(nodes) else None
    source = None if node is None else node.source
    if status == Status.FOREIGN_CALL_FAILED:
        return _raised_outside(record.position, node)
    if status == Status.CHECK_FAILED and node is not None and node.op is ops.check:
        return _failed_check(node, operands_of(record.origin)[1:])
    kind = _KINDS.get(Status(status))
    if kind is None:
        return InternalError(f"{name} returned status {Status(status).name}", source=source)
    words = f"{kind.words} at position {record.position}"
    if kind.error is CommunicationError:
        words = f"{kind.words} (code {record.position})"
    if kind.error is IndexOutOfRangeError and record.limit:
        words += f": {_index(record)} for an axis of extent {record.limit}"
    return kind.error(f"{_title(node)}: {words}", source=source, remedy=kind.remedy)


def _raised_outside(code: int, node: Node | None) -> BaseException:
    """Return what a target raised; an error of ours that names no line gets that of the call."""
    error = raised_by(code, "a target" if node is None else str(node.attribute("target")))
    if isinstance(error, RlxError) and error.source is None:
        return error.located(_title(node), None if node is None else node.source)
    return error


def _failed_check(node: Node, values: Sequence[Array | None]) -> RlxError:
    """Return the error of a check, with its values where all are there."""
    report = report_of(node.attribute("report"))
    if any(value is None for value in values):
        return report.error(report.summary(), source=report.source)
    return report.raised(values)


def _index(record: Record) -> str:
    """Return the index at fault; rlx.numpy has added the extent to a negative one."""
    if record.found >= 0:
        return str(record.found)
    if record.found == COMBINED:
        return "one of several indices that pick together"
    return f"{record.found} ({record.found - record.limit} as a negative index from the end)"


def _blamed(node: Node) -> Node:
    """Return what can fail in a fused node or a loop in one kernel: a node of its body."""
    failing = failing_node(node)
    if failing is not node:
        return replace(failing, name=node.name, scope=node.scope)
    anchor = ops.anchor_of(node.attribute("body")) if node.is_one_kernel else None
    return node if anchor is None else replace(anchor, name=node.name, scope=node.scope)


def _title(node: Node | None) -> str:
    if node is None:
        return "a kernel"
    return node.title if node.name is None else f"{node.title} {node.name!r}"

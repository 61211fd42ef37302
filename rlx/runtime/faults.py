"""What a status of native code means to the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlx.codegen.loops.nodes import Status
from rlx.errors import (
    IndexOutOfRangeError,
    InputError,
    InternalError,
    RlxError,
    SingularMatrixError,
)
from rlx.ir.graph import Node

_FAULTS: Mapping[Status, tuple[type[RlxError], str]] = {
    Status.INDEX_OUT_OF_RANGE: (IndexOutOfRangeError, "index out of range"),
    Status.SINGULAR_MATRIX: (SingularMatrixError, "singular matrix"),
    Status.INVALID_DISTRIBUTION: (InputError, "logits without a distribution"),
    Status.EXTENT_OUT_OF_RANGE: (InputError, "extent out of range"),
}


def describe_fault(
    name: str, status: int, nodes: Sequence[Node], origin: int, position: int
) -> RlxError:
    """Return the exception for a status that program `name` returned, with the node at fault."""
    if Status(status) not in _FAULTS:
        return InternalError(f"{name} returned status {Status(status).name}")
    kind, words = _FAULTS[Status(status)]
    node = nodes[origin] if origin < len(nodes) else None
    source = None if node is None else node.source
    return kind(f"{_title(node)}: {words} at position {position}", source=source)


def _title(node: Node | None) -> str:
    if node is None:
        return "a kernel"
    return node.op.name if node.name is None else f"{node.op.name} {node.name!r}"

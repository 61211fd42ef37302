"""Structural hash of a graph: the name under which its compiled form is kept.

    graph_digest(graph)      # 64 hex digits, or None for a graph with a user's ops without version

Equal for graphs that differ in source lines only. Values of inputs and params are no part of a
graph; constants are, by their bytes. `serialize.fingerprint` is the slower digest of the text form.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import marshal
from typing import Any

from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.literal import Literal
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.reports import report_of

_AS_THEY_ARE = frozenset({bool, int, float, complex, str, bytes, type(None)})
_SMALL = 256
VERSIONS: dict[str, str] = {}
"""Op that a user defined -> what changes whenever its rules or its kernel do."""
_MARSHAL_VERSION = 2
"""The last version without back references, which differ for equal and identical objects."""


def graph_digest(graph: Graph) -> str | None:
    """Return the digest of `graph`; None if it is not known what one of its ops means.

    The kernel of an op that a user defined is code, for which its version has to do, and what a
    function from outside is called by is known to this process alone. So is the number of a
    check's report: the digest has the report's content instead, and says which checks share one.
    """
    try:
        return graph.once(_digest)[0].hex()
    except _OpaqueError:
        return None


def _digest(graph: Graph) -> tuple[bytes, tuple[int, ...]]:
    """Return the digest, and the numbers of the reports of checks by their first use."""
    forms = _Forms()
    form = marshal.dumps(forms.graph(graph), _MARSHAL_VERSION)
    return hashlib.sha256(form).digest(), tuple(forms.reports)


class _OpaqueError(Exception):
    """Something whose meaning is not data."""


class _Forms:
    """Graphs as what `marshal` writes; a body that several nodes hold is written once."""

    def __init__(self) -> None:
        self.reports: dict[int, int] = {}
        """Number of a report in this process -> its place among those of the graph."""

    def graph(self, graph: Graph) -> list[Any]:
        return [
            graph.name,
            [self._node(node) for node in graph.nodes],
            [(output.node.index, output.index) for output in graph.outputs],
            list(graph.donations.items()),
            [(name, self._plain(axis)) for name, axis in graph.communicators.items()],
        ]

    def _node(self, node: Node) -> tuple[Any, ...]:
        operands = [(operand.node.index, operand.index) for operand in node.operands]
        version = "" if _is_ours(node.op) else VERSIONS.get(node.op.name)
        is_check = node.op.name == "check"
        if version is None or (node.op.has(Trait.FOREIGN) and not is_check):
            raise _OpaqueError
        lowering = self._plain(node.lowering)
        attributes = self._check(node) if is_check else self._attributes(node.attrs)
        return node.op.name + version, operands, attributes, node.name, node.scope, lowering

    def _check(self, node: Node) -> list[Any]:
        number = node.attribute("report")
        try:
            content = report_of(number).content()
        except GraphError as error:  # of another process
            raise _OpaqueError from error
        return [content, self._place(number)]

    def _place(self, report: int) -> int:
        return self.reports.setdefault(report, len(self.reports))

    def _attributes(self, attrs: Attrs) -> list[Any]:
        return [self._plain(getattr(attrs, name)) for name in attrs.__dataclass_fields__]

    def _plain(self, value: Any) -> Any:
        """Return an attribute as what `marshal` writes; lists are what is no tuple by itself."""
        if value.__class__ in _AS_THEY_ARE:
            return value
        if isinstance(value, tuple):
            return tuple(map(self._plain, value))
        if isinstance(value, Literal):
            return _literal(value)
        if isinstance(value, enum.Enum):
            return [value.__class__.__name__, value.name]
        if isinstance(value, Graph):
            digest, reports = value.once(_digest)
            return ["body", digest, *map(self._place, reports)]
        if dataclasses.is_dataclass(value):
            fields = (getattr(value, field) for field in value.__dataclass_fields__)
            return [value.__class__.__name__, *map(self._plain, fields)]
        raise _OpaqueError


def _is_ours(definition: OpDef) -> bool:
    return getattr(ops, definition.name, None) is definition


def _literal(literal: Literal) -> list[Any]:
    array = literal.array
    content = array.tobytes() if array.nbytes <= _SMALL else literal.digest
    return [array.dtype.str, array.dtype.name, array.shape, content]

"""Scopes: the values that the nodes of a graph see, and the rules they follow."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import field
from typing import Any

from rlx.dataclass import dataclass
from rlx.ir.shape import symbols_of
from rlx.onnx import operators as operators  # registers them
from rlx.onnx.values import (
    Extents,
    traced_in,
)
from rlx.tracing.trace import as_value


@dataclass(frozen=True)
class Scope:
    """The values that the nodes of a graph see, and the rules they follow."""

    values: MutableMapping[str, Any]
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Values of a function's attributes, as protos by name."""

    def inner(self) -> Scope:
        """Return the scope of a sub-graph, which sees this one."""
        return Scope(ChainMap({}, self.values), self.opsets, self.attributes)


def extents_read(proto: Any, scope: Scope) -> str:
    """Return the symbols of the extents that a node reads, or of its operands, as text."""
    values = [scope.values.get(name) for name in proto.input]
    shapes = [as_value(value).shape for value in traced_in(values)]
    shapes += [tuple(value.flat) for value in values if isinstance(value, Extents)]
    return ", ".join(dict.fromkeys(s.name for shape in shapes for s in symbols_of(shape)))

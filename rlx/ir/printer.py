"""The text form of a graph, which `rlx.ir.parser` reads back.

    graph @mlp {
      dim n in 0..128
      %0: f32[n, 784] = input "x"
      %1: f32[784, 10] = param "w"
      %2: f32[n, 10] = matmul %0, %1
      %3: f32[n, 10] = softmax %2 {axis = -1} in "head"
      return %3
    }

A node may end with `lowering = schedule(rows = 8, ...)`, `as "name"`, `in "scope"` and
`at "file":line "function"`. Sub-graphs are
printed in place, literals exactly. The short form (`full=False`) leaves out attributes that
have their default and elides long literals.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.attributes import exact, parts
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from rlx.ir.literal import Literal
from rlx.ir.literal_text import element_texts, float_text
from rlx.ir.lowering import Lowering
from rlx.ir.op import Attrs, Trait
from rlx.ir.shape import Dim, Symbol, symbols_of
from rlx.ir.types import TensorType

INLINE_ELEMENTS = 16
"""Literals up to this size are written as numbers."""
INDENT = "  "
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def format_graph(graph: Graph, *, full: bool = True, sources: bool = False) -> str:
    """Return the text form; `sources` adds the user's line to every node."""
    style = Style(full=full, sources=sources, long_literal=hex_literal if full else elided_literal)
    return style.graph(graph)


def format_node(node: Node, *, indent: str = "") -> str:
    """Return one node in the short form, for messages; `indent` precedes its further lines."""
    style = Style(full=False, sources=False, long_literal=elided_literal)
    return style.node(node, indent)


def format_attributes(attrs: Attrs) -> str:
    """Return the attributes that differ from their defaults, as the text form has them."""
    return Style(full=False, sources=False, long_literal=elided_literal).attributes(attrs)


def format_lowering(lowering: Lowering) -> str:
    """Return a lowering record as the text form has it."""
    return Style(full=True, sources=False, long_literal=elided_literal).lowering(lowering)


def hex_literal(literal: Literal) -> str:
    """Write a literal's bytes in hexadecimal."""
    return f'hex "{literal.array.tobytes().hex()}"'


def elided_literal(_: Literal) -> str:
    """Leave a literal's elements out."""
    return "..."


def symbols_in(graph: Graph) -> list[Symbol]:
    """Return the symbols of all types and attributes, those of sub-graphs included, sorted."""
    return sorted(graph.once(_symbols))


@dataclass(frozen=True, slots=True)
class Style:
    """How much is printed, and how a literal too long for numbers is written."""

    full: bool
    sources: bool
    long_literal: Callable[[Literal], str]

    def graph(self, graph: Graph) -> str:
        """Print a whole graph with the declarations of its symbols."""
        declarations = [f"{INDENT}{_declaration(symbol)}" for symbol in symbols_in(graph)]
        return self._block(graph, declarations, "")

    def _block(self, graph: Graph, declarations: list[str], indent: str) -> str:
        inner = indent + INDENT
        lines = [f"graph @{_graph_name(graph.name)} {{", *declarations]
        lines += [inner + self.node(node, inner) for node in graph.nodes]
        outputs = ", ".join(output.label for output in graph.outputs)
        lines += [f"{inner}return {outputs}".rstrip()]
        lines += [
            f"{inner}donate {quoted(name)} -> {position}"
            for name, position in sorted(graph.donations.items())
        ]
        lines += [
            f"{inner}connect {quoted(name)} -> {quoted(axis.name)} {axis.size} by {axis.stride}"
            for name, axis in sorted(graph.communicators.items())
        ]
        return "\n".join([*lines, f"{indent}}}"])

    def node(self, node: Node, indent: str) -> str:
        """Print one node; lines of sub-graphs after the first start with `indent`."""
        results = ", ".join(f"{result.label}: {result.type}" for result in node.results)
        return f"{results} = {self._application(node, indent)}{self._suffixes(node, indent)}"

    def _application(self, node: Node, indent: str) -> str:
        if node.op.has(Trait.NAMED):
            return f"{node.op.name} {quoted(node.attribute('name'))}"
        if node.op.name == "constant":
            kind = "structural " if node.attribute("structural") else ""
            return f"constant {kind}{self._elements(node.attribute('value'))}"
        text = node.op.name
        if node.operands:
            text += " " + ", ".join(operand.label for operand in node.operands)
        attributes = self.attributes(node.attrs, indent)
        return f"{text} {{{attributes}}}" if attributes else text

    def attributes(self, attrs: Attrs, indent: str = "") -> str:
        """Print `name = value, ...`."""
        return ", ".join(
            f"{f.name} = {self.value(getattr(attrs, f.name), indent)}"
            for f in dataclasses.fields(attrs)
            if self.full or exact(getattr(attrs, f.name)) != exact(f.default)
        )

    def _suffixes(self, node: Node, indent: str) -> str:
        text = ""
        if node.lowering is not None:
            text += f" lowering = {self.lowering(node.lowering, indent)}"
        if node.name is not None and not node.op.has(Trait.NAMED):
            text += f" as {quoted(str(node.name))}"
        if node.scope is not None:
            text += f" in {quoted(node.scope)}"
        if self.sources and node.source is not None:
            source = node.source
            text += f" at {quoted(source.file)}:{source.line} {quoted(source.function)}"
        return text

    def lowering(self, lowering: Lowering, indent: str = "") -> str:
        """Print a record as `schedule(rows = 8, columns = 32, lanes = 16)`, without defaults."""
        listed = ", ".join(
            f"{f.name} = {self.value(getattr(lowering, f.name), indent)}"
            for f in dataclasses.fields(lowering)
            if exact(getattr(lowering, f.name)) != exact(f.default)
        )
        return f"{lowering.name}({listed})"

    def value(self, value: Any, indent: str) -> str:
        """Print an attribute's value."""
        if isinstance(value, tuple):
            inner = ", ".join(self.value(item, indent) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, Graph):
            return self._block(value, [], indent)
        if isinstance(value, Literal):
            return f"literal {value.type} {self._elements(value)}"
        if dataclasses.is_dataclass(value) and not isinstance(value, (Dim, TensorType)):
            fields = ", ".join(
                f"{f.name} = {self.value(getattr(value, f.name), indent)}"
                for f in dataclasses.fields(value)
            )
            return f"{type(value).__name__}({fields})"
        return _scalar_text(value)

    def _elements(self, literal: Literal) -> str:
        if literal.array.size > INLINE_ELEMENTS:
            return self.long_literal(literal)
        return f"[{', '.join(element_texts(literal.array, literal.dtype))}]"


def quoted(text: str) -> str:
    """Return `text` in quotes, with JSON escapes and in ASCII."""
    return json.dumps(text)


def _scalar_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return quoted(value)
    if isinstance(value, enum.Enum) and not isinstance(value, DType):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (int, Dim, DType, TensorType)):
        return str(value)
    raise InternalError(f"an attribute of type {type(value).__name__} has no text form")


def _graph_name(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else quoted(name)


def _declaration(symbol: Symbol) -> str:
    most = "" if symbol.max is None else symbol.max
    return f"dim {symbol.name} in {symbol.min}..{most}"


_PLAIN = frozenset({bool, int, float, complex, str, DType, type(None)})
"""Types of most attributes: no symbol is in them."""


def _symbols(graph: Graph) -> frozenset[Symbol]:
    shapes = {result.type.shape for node in graph.nodes for result in node.results}
    found = {symbol for shape in shapes for symbol in symbols_of(shape)}
    for node in graph.nodes:
        for value in node.attrs.as_dict().values():
            if type(value) in _PLAIN:
                continue
            for part in parts(value):
                if type(part) not in _PLAIN:
                    found.update(_symbols_of_value(part))
    return frozenset(found)


def _symbols_of_value(value: Any) -> Iterator[Symbol]:
    if isinstance(value, Graph):
        yield from value.once(_symbols)
    elif isinstance(value, Dim):
        yield from value.symbols
    elif isinstance(value, TensorType):
        yield from symbols_of(value.shape)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            for part in parts(getattr(value, field.name)):
                yield from _symbols_of_value(part)


def _short(graph: Graph) -> str:
    return format_graph(graph, full=False)


Graph.__str__ = _short  # type: ignore[method-assign, assignment]  # what `print` shows

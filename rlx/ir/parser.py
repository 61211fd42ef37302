"""Read the text form of a graph: `parse_graph(format_graph(g)) == g`.

    graph   := "graph" "@" name "{" dim* node* "return" values donate* connect* "}"
    dim     := "dim" word "in" int ".." [int]
    node    := result ("," result)* "=" op operands [attributes] ["lowering" "=" record]
               ["as" string] ["in" string] ["at" string ":" int string]
    result  := value ":" type
    donate  := "donate" string "->" int
    connect := "connect" string "->" string int "by" int
    extent  := ["-"] term (("+" | "-") term)*         in types and attributes
    term    := factor ("*" factor)*
    factor  := int | word | "floordiv" "(" extent "," int ")"

Values may have any name (`%x`); they are renumbered. Types are inferred again and must agree
with the written ones. All faults of the text are FormatErrors.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.errors import RlxError, Source
from rlx.ir.attribute_parser import AttributeParser
from rlx.ir.extensions import find_op
from rlx.ir.graph import Graph, Value
from rlx.ir.lexer import Token, TokenStream
from rlx.ir.lowering import RECORDS, Lowering
from rlx.ir.op import INFERENCE_FAULTS, Attrs, OpDef, Trait, make_attrs
from rlx.ir.ranks import RankAxis
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType
from rlx.limits import LoadLimits, loading


def parse_graph(
    text: str,
    *,
    file: str = "<text>",
    raw: bytes | memoryview = b"",
    limits: LoadLimits | None = None,
) -> Graph:
    """Return the graph that `text` spells; `raw` holds the literals it refers to by offset.

    A text that needs more than `limits` raises LimitError.
    """
    with loading(limits, file) as budget:
        budget.charge_bytes(len(text), "the text")
        stream = TokenStream(text, file, budget)
        graph = GraphParser(stream, AttributeParser(stream, raw), {}).graph()
        stream.expect_kind("end", "the end of the text")
        return graph


def parse_lowering(text: str) -> Lowering:
    """Return the record that `text` spells, as `format_lowering` prints it."""
    with loading(None, "<text>") as budget:
        stream = TokenStream(text, "<text>", budget)
        parser = GraphParser(stream, AttributeParser(stream, b""), {})
        found = parser.record()
        stream.expect_kind("end", "the end of the text")
        return found


class GraphParser:
    """Parses one graph; sub-graphs get a parser of their own that shares the symbols."""

    def __init__(
        self, stream: TokenStream, attributes: AttributeParser, dims: Mapping[str, Dim]
    ) -> None:
        self.stream = stream
        self.dims = dict(dims)
        self.attributes = attributes.within(self.dims, self._subgraph)
        self.values: dict[str, Value] = {}
        self._graph = Graph()

    def _subgraph(self) -> Graph:
        with self.stream.nested("graphs"):
            return GraphParser(self.stream, self.attributes, self.dims).graph()

    def graph(self) -> Graph:
        """Parse `graph @name { ... }`."""
        self.stream.expect("graph")
        self.stream.expect("@")
        self._graph.name = self._graph_name()
        self.stream.expect("{")
        while self.stream.at("dim"):
            self._dim()
        while self.stream.next.kind == "value":
            self._node()
        self._outputs()
        while self.stream.at("donate"):
            self._donation()
        while self.stream.at("connect"):
            self._connection()
        self.stream.expect("}")
        return self._graph

    def _graph_name(self) -> str:
        if self.stream.next.kind == "string":
            return self.stream.expect_string("a name")
        return self.stream.expect_kind("word", "the graph's name").text

    def _dim(self) -> None:
        self.stream.expect("dim")
        token = self.stream.expect_kind("word", "a symbol's name")
        self.stream.expect("in")
        least = self.stream.expect_int("the lower bound")
        self.stream.expect("..")
        bounded = self.stream.next.kind == "int"
        most = self.stream.expect_int("the upper bound") if bounded else None
        if token.text in self.dims:
            self.stream.fail(f"symbol {token.text} is declared twice", token.offset)
        try:
            self.dims[token.text] = Dim(token.text, min=least, max=most)
        except RlxError as error:
            raise self.stream.error(error.message, token.offset) from error

    def _node(self) -> None:
        self.stream.budget.charge_nodes()
        results = [self._result()]
        while self.stream.skip(","):
            results.append(self._result())
        self.stream.expect("=")
        token = self.stream.expect_kind("word", "an op")
        definition = find_op(token.text)
        if definition is None:
            remedy = "import the package that declares it, or install that package again"
            self.stream.fail(f"unknown op {token.text}", token.offset, remedy)
        operands = self._operands()
        attrs = self._attrs(definition, token, results[0][1])
        lowering = self._lowering()
        name = self._suffix("as", "a node's name")
        scope = self._suffix("in", "a scope")
        source = self._source() or Source(
            self.stream.file, self.stream.line_of(token.offset), self._graph.name
        )
        try:
            values = self._graph.append(
                definition,
                operands,
                attrs,
                name=name,
                source=source,
                scope=scope,
                lowering=lowering,
            )
        except INFERENCE_FAULTS as error:
            raise self.stream.error(f"{definition.name}: {_words(error)}", token.offset) from error
        self._define(results, values, token)

    def _result(self) -> tuple[Token, TensorType]:
        token = self.stream.expect_kind("value", "a value")
        self.stream.expect(":")
        return token, self.attributes.tensor_type()

    def _define(
        self, results: list[tuple[Token, TensorType]], values: tuple[Value, ...], op: Token
    ) -> None:
        if len(results) != len(values):
            self.stream.fail(
                f"{op.text} has {len(values)} results, {len(results)} are named", op.offset
            )
        for (token, declared), value in zip(results, values, strict=True):
            if token.text in self.values:
                self.stream.fail(f"value {token.text} is defined twice", token.offset)
            if declared != value.type:
                self.stream.fail(f"declared {declared}, inferred {value.type}", token.offset)
            self.values[token.text] = value

    def _operands(self) -> list[Value]:
        if self.stream.next.kind != "value":
            return []
        operands = [self._value()]
        while self.stream.skip(","):
            operands.append(self._value())
        return operands

    def _value(self) -> Value:
        token = self.stream.expect_kind("value", "a value")
        if token.text not in self.values:
            self.stream.fail(f"value {token.text} is not defined above", token.offset)
        return self.values[token.text]

    def _attrs(self, definition: OpDef, token: Token, declared: TensorType) -> Attrs:
        attributes: dict[str, object] = {}
        if definition.has(Trait.NAMED):
            attributes = {"name": self.stream.expect_string("its name"), "type": declared}
        elif definition.name == "constant":
            structural = self.stream.skip("structural")
            attributes = {"value": self.attributes.elements(declared), "structural": structural}
        elif self.stream.skip("{"):
            attributes = self.attributes.attributes(definition)
        try:
            return make_attrs(definition, attributes)
        except INFERENCE_FAULTS as error:
            raise self.stream.error(f"{definition.name}: {_words(error)}", token.offset) from error

    def _lowering(self) -> Lowering | None:
        if not self.stream.skip("lowering"):
            return None
        self.stream.expect("=")
        return self.record()

    def record(self) -> Lowering:
        """Parse `schedule(rows = 4, ...)`."""
        token = self.stream.expect_kind("word", "a lowering record")
        if token.text not in RECORDS:
            known = ", ".join(RECORDS)
            self.stream.fail(f"unknown lowering {token.text} (known: {known})", token.offset)
        lowering: Lowering = self.attributes.record(RECORDS[token.text])
        return lowering

    def _suffix(self, word: str, what: str) -> str | None:
        return self.stream.expect_string(what) if self.stream.skip(word) else None

    def _source(self) -> Source | None:
        if not self.stream.skip("at"):
            return None
        file = self.stream.expect_string("a file")
        self.stream.expect(":")
        line = self.stream.expect_int("a line")
        return Source(file, line, self.stream.expect_string("a function"))

    def _outputs(self) -> None:
        if not self.stream.at("return"):
            self.stream.expected("a value or 'return'")
        self.stream.take()
        self._graph.set_outputs(self._operands())

    def _donation(self) -> None:
        start = self.stream.expect("donate")
        name = self.stream.expect_string("a leaf's name")
        self.stream.expect("->")
        position = self.stream.expect_int("an output's position")
        if position >= len(self._graph.outputs):
            self.stream.fail(f"there is no output {position}", start.offset)
        try:
            self._graph.donate(name, position)
        except RlxError as error:
            raise self.stream.error(error.message, start.offset) from error

    def _connection(self) -> None:
        start = self.stream.expect("connect")
        name = self.stream.expect_string("an input's name")
        self.stream.expect("->")
        axis = self.stream.expect_string("the name of an axis of ranks")
        size = self.stream.expect_int("how many ranks there are along it")
        self.stream.expect("by")
        stride = self.stream.expect_int("the stride of their numbers")
        if size < 1 or stride < 1:
            self.stream.fail("an axis has one rank at least, and they differ", start.offset)
        try:
            self._graph.connect(name, RankAxis(axis, size, stride))
        except RlxError as error:
            raise self.stream.error(error.message, start.offset) from error


def _words(error: Exception) -> str:
    return error.message if isinstance(error, RlxError) else f"{type(error).__name__}: {error}"

"""Read types, extents, literals and attribute values of the text form."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlx.errors import RlxError
from rlx.ir.attributes import classes_in
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.layout import LAYOUTS
from rlx.ir.lexer import Token, TokenStream
from rlx.ir.literal import Literal
from rlx.ir.literal_text import QUIET_NAN, number_from_bits
from rlx.ir.op import OpDef
from rlx.ir.shape import Dim, Extent, floor_divide, product
from rlx.ir.types import TensorType

_WORDS: dict[str, bool | None] = {"none": None, "true": True, "false": False}
_MOST_FACTORS = 64


class AttributeParser:
    """Parses values in a node's types, its braces, and `constant`."""

    def __init__(self, stream: TokenStream, raw: bytes | memoryview) -> None:
        self.stream = stream
        self._raw = raw
        self._dims: Mapping[str, Dim] = {}
        self._classes: Mapping[str, type[Any]] = {}
        self._subgraph: Callable[[], Graph] | None = None

    def within(self, dims: Mapping[str, Dim], subgraph: Callable[[], Graph]) -> AttributeParser:
        """Return a parser for a graph with these symbols that reads bodies with `subgraph`."""
        inner = AttributeParser(self.stream, self._raw)
        inner._dims = dims
        inner._subgraph = subgraph
        return inner

    def attributes(self, definition: OpDef) -> dict[str, object]:
        """Parse `name = value, ...}` after the brace."""
        hints = {f.name: f.type for f in dataclasses.fields(definition.attrs)}
        found: dict[str, object] = {}
        while True:
            token = self.stream.expect_kind("word", "an attribute's name")
            if token.text in found or token.text not in hints:
                known = ", ".join(hints) or "none"
                problem = "is given twice" if token.text in found else f"(has: {known})"
                self.stream.fail(
                    f"{definition.name}: attribute {token.text} {problem}", token.offset
                )
            self.stream.expect("=")
            self._classes = classes_in(hints[token.text])
            found[token.text] = self.value()
            if self.stream.skip("}"):
                return found
            self._separator("}")

    def value(self) -> Any:
        """Parse any attribute value."""
        token = self.stream.next
        if token.kind == "string":
            return self.stream.expect_string("a string")
        if token.kind == "word" and token.text not in self._dims and token.text != "floordiv":
            return self._named()
        if self.stream.at("("):
            return self._tuple()
        return self._number()

    def _named(self) -> Any:
        token = self.stream.next
        if token.text == "graph" and self._subgraph is not None:
            return self._subgraph()
        if token.text in DType._value2member_map_:
            return self._dtype_or_type()
        if token.text in ("nan", "inf"):
            return self._float("")
        self.stream.take()
        if token.text in _WORDS:
            return _WORDS[token.text]
        if token.text == "literal":
            return self.elements(self.tensor_type())
        if token.text in self._classes:
            return self._instance(self._classes[token.text])
        raise self.stream.error(f"unknown word {token}", token.offset)

    def _dtype_or_type(self) -> DType | TensorType:
        dtype = DType(self.stream.take().text)
        if not self.stream.at("["):
            return dtype
        return self._with_layout(TensorType(dtype, self._extents()))

    def _instance(self, kind: type[Any]) -> Any:
        if not issubclass(kind, enum.Enum):
            return self.record(kind)
        self.stream.expect(".")
        token = self.stream.expect_kind("word", f"a member of {kind.__name__}")
        if token.text not in kind.__members__:
            self.stream.fail(f"{kind.__name__} has no member {token.text}", token.offset)
        return kind[token.text]

    def record(self, kind: type[Any]) -> Any:
        """Parse `(field = value, ...)`, the fields of a dataclass."""
        start = self.stream.expect("(")
        fields: dict[str, Any] = {}
        while not self.stream.skip(")"):
            name = self.stream.expect_kind("word", "a field's name").text
            self.stream.expect("=")
            fields[name] = self._nested()
            if not self.stream.at(")"):
                self._separator(")")
        try:
            return kind(**fields)
        except (RlxError, TypeError, ValueError) as error:
            raise self.stream.error(f"{kind.__name__}: {error}", start.offset) from error

    def _tuple(self) -> tuple[Any, ...]:
        self.stream.expect("(")
        items: list[Any] = []
        while not self.stream.skip(")"):
            items.append(self._nested())
            if not self.stream.at(")"):
                self._separator(")")
        return tuple(items)

    def _nested(self) -> Any:
        with self.stream.nested("values"):
            return self.value()

    def _separator(self, closing: str) -> None:
        if not self.stream.skip(","):
            self.stream.expected(f"',' or '{closing}'")

    # Types and extents

    def tensor_type(self) -> TensorType:
        """Parse `f32[n, 3]`, maybe with a layout."""
        token = self.stream.expect_kind("word", "a dtype")
        if token.text not in DType._value2member_map_:
            self.stream.fail(f"unknown dtype {token.text}", token.offset)
        return self._with_layout(TensorType(DType(token.text), self._extents()))

    def _with_layout(self, type: TensorType) -> TensorType:
        if not self.stream.skip("{"):
            return type
        token = self.stream.expect_kind("word", "a layout")
        if token.text not in LAYOUTS:
            self.stream.fail(f"unknown layout {token.text}", token.offset)
        placed = type.with_layout(self.record(LAYOUTS[token.text]))
        self.stream.expect("}")
        try:
            placed.bytes  # noqa: B018 (raises where the strides do not fit)
        except (RlxError, TypeError) as error:
            raise self.stream.error(f"{token.text}: {error}", token.offset) from error
        return placed

    def _extents(self) -> tuple[Extent, ...]:
        self.stream.expect("[")
        if self.stream.skip("]"):
            return ()
        extents = [self._type_extent()]
        while not self.stream.skip("]"):
            self._separator("]")
            extents.append(self._type_extent())
        return tuple(extents)

    def _type_extent(self) -> Extent:
        offset = self.stream.next.offset
        extent = self._extent()
        if isinstance(extent, int) and extent < 0:
            self.stream.fail(f"extent {extent} is negative", offset)
        return extent

    def _number(self) -> float | Extent:
        negative = self.stream.at("-")
        if not negative:
            return self._float("") if self.stream.next.kind == "float" else self._extent()
        sign = self.stream.take()
        if self.stream.next.kind == "float" or self.stream.at("inf"):
            return self._float("-")
        return self._sum(-1 * self._term(), sign)

    def _extent(self) -> Extent:
        if self.stream.skip("-"):
            return self._sum(-1 * self._term(), self.stream.next)
        return self._sum(self._term(), self.stream.next)

    def _sum(self, first: Extent, start: Token) -> Extent:
        total, count = first, 1
        while self.stream.at("+", "-"):
            sign = -1 if self.stream.take().text == "-" else 1
            total = total + sign * self._term()
            count += 1
            if count > _MOST_FACTORS:
                self.stream.fail("an extent of too many terms", start.offset)
        return total

    def _term(self) -> Extent:
        factors = [self._factor()]
        while self.stream.skip("*"):
            factors.append(self._factor())
            if len(factors) > _MOST_FACTORS:
                self.stream.expected("fewer factors")
        return product(factors)

    def _factor(self) -> Extent:
        token = self.stream.next
        if token.kind == "int":
            return int(self.stream.take().text)
        if token.kind == "word" and token.text in self._dims:
            return self._dims[self.stream.take().text]
        if token.kind == "word" and token.text == "floordiv":
            return self._quotient()
        if token.kind == "word":
            raise self.stream.error(f"symbol {token.text} is not declared", token.offset)
        raise self.stream.error(f"expected a value or an extent, found {token}", token.offset)

    def _quotient(self) -> Extent:
        """Parse `floordiv(extent, number)`."""
        start = self.stream.take()
        with self.stream.nested("extents"):
            self.stream.expect("(")
            dividend = self._extent()
            self.stream.expect(",")
            divisor = self.stream.expect_int("a divisor")
            self.stream.expect(")")
        if divisor < 1:
            self.stream.fail("an extent is divided by a number below 1", start.offset)
        return floor_divide(dividend, divisor)

    def _float(self, sign: str) -> float:
        token = self.stream.take()
        if token.text == "nan":
            return float(self._nan(DType.F64)[0])
        return float(sign + token.text)

    def _nan(self, dtype: DType) -> np.ndarray[Any, Any]:
        if not self.stream.skip("("):
            return number_from_bits(dtype, QUIET_NAN[dtype])
        token = self.stream.expect_kind("bits", "the bits of a NaN")
        self.stream.expect(")")
        bits = int(token.text, 16)
        if bits >= 1 << (8 * dtype.size):
            self.stream.fail(f"{token.text} has more bits than {dtype}", token.offset)
        return number_from_bits(dtype, bits)

    # Literals

    def elements(self, type: TensorType) -> Literal:
        """Parse the content of a literal of `type`: numbers, `hex "..."` or `raw offset`."""
        token = self.stream.next
        if not type.is_static:
            self.stream.fail(f"a literal of type {type} needs static extents", token.offset)
        if len(type.shape) > 32:
            self.stream.fail(f"a literal of rank {type.rank}; at most 32 is stored", token.offset)
        if self.stream.at("..."):
            self.stream.fail("the literal was elided: print the graph in full", token.offset)
        if self.stream.skip("hex"):
            return self._from_hex(type)
        if self.stream.skip("raw"):
            return self._from_raw(type)
        return self._from_numbers(type)

    def _from_hex(self, type: TensorType) -> Literal:
        token = self.stream.next
        digits = self.stream.expect_string("bytes in hexadecimal")
        try:
            data = bytes.fromhex(digits)
        except ValueError as error:
            raise self.stream.error("not bytes in hexadecimal", token.offset) from error
        if len(data) != type.bytes:
            self.stream.fail(f"{type} takes {type.bytes} bytes, not {len(data)}", token.offset)
        return self._from_bytes(type, data, token)

    def _from_raw(self, type: TensorType) -> Literal:
        token = self.stream.next
        offset = self.stream.expect_int("an offset")
        if offset + type.bytes > len(self._raw):
            self.stream.fail(
                f"{type} at {offset} ends outside the {len(self._raw)} bytes of data", token.offset
            )
        return self._from_bytes(type, memoryview(self._raw)[offset : offset + type.bytes], token)

    def _from_bytes(self, type: TensorType, data: bytes | memoryview, token: Token) -> Literal:
        if type.dtype is DType.BOOL and any(byte > 1 for byte in bytes(data)):
            self.stream.fail("a bool is neither 0 nor 1", token.offset)
        try:
            return Literal.from_bytes(type, data)
        except ValueError as error:  # an empty array with extents that NumPy refuses
            raise self.stream.error(f"no array has type {type}: {error}", token.offset) from error

    def _from_numbers(self, type: TensorType) -> Literal:
        start = self.stream.expect("[")
        dtype = type.dtype.part
        wanted = math.prod(type.static_shape) * (2 if type.dtype.is_complex else 1)
        chunks: list[bytes] = []
        while not self.stream.skip("]"):
            if len(chunks) == wanted:
                self.stream.expected(f"']' after {wanted} numbers")
            chunks.append(self._element(dtype).tobytes())
            if not self.stream.at("]"):
                self._separator("]")
        if len(chunks) != wanted:
            self.stream.fail(f"{type} takes {wanted} numbers, not {len(chunks)}", start.offset)
        return self._from_bytes(type, b"".join(chunks), start)

    def _element(self, dtype: DType) -> np.ndarray[Any, Any]:
        token = self.stream.next
        if dtype is DType.BOOL:
            if not self.stream.at("true", "false"):
                self.stream.expected("'true' or 'false'")
            return np.array([self.stream.take().text == "true"])
        sign = "-" if self.stream.skip("-") else ""
        if dtype.is_int:
            return self._int_element(dtype, sign, token)
        if self.stream.skip("nan"):
            return self._nan(dtype)
        if self.stream.next.kind != "float" and not self.stream.at("inf"):
            self.stream.expected(f"a number of dtype {dtype}, with a point")
        with np.errstate(over="ignore"):
            return np.array([float(sign + self.stream.take().text)]).astype(dtype.numpy)

    def _int_element(self, dtype: DType, sign: str, token: Token) -> np.ndarray[Any, Any]:
        number = int(sign + self.stream.expect_kind("int", f"a number of dtype {dtype}").text)
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= number <= limits.max:
            self.stream.fail(f"{number} does not fit {dtype}", token.offset)
        return np.array([number], dtype=dtype.numpy)

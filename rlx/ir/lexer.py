"""Tokens of the text form, and the stream that the parser reads them from.

Every complaint is a FormatError that names the line, the column and what was expected.
"""

from __future__ import annotations

import bisect
import json
import re
from contextlib import AbstractContextManager
from typing import NoReturn

from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.limits import Budget

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\r\n]+|//[^\n]*)+)
    |(?P<value>%[A-Za-z0-9_]+(?:\.[0-9]+)?)
    |(?P<bits>0x[0-9a-f]+)
    |(?P<float>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
    |(?P<int>[0-9]+)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<mark>->|\.\.\.|\.\.|[{}()\[\],:=@*+\-.])""",
    re.VERBOSE,
)
_LONGEST_NUMBER = 400
"""Digits in a number; Python refuses to convert integers of thousands of digits."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: `kind` is a group of the lexer's pattern, or `end`."""

    kind: str
    text: str
    offset: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        shown = self.text if len(self.text) <= 40 else f"{self.text[:37]}..."
        return f"'{shown}'"


class TokenStream:
    """The tokens of one text, read from front to back with one token of lookahead."""

    def __init__(self, text: str, file: str, budget: Budget) -> None:
        self.text = text
        self.file = file
        self.budget = budget
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._tokens = self._scan()
        self._position = 0

    def _scan(self) -> list[Token]:
        tokens: list[Token] = []
        offset = 0
        while offset < len(self.text):
            match = _TOKEN.match(self.text, offset)
            if match is None:
                self.fail(f"unexpected character {self.text[offset]!r}", offset)
            kind = str(match.lastgroup)
            if kind in ("int", "float", "bits") and len(match.group()) > _LONGEST_NUMBER:
                self.fail(f"a number of {len(match.group())} digits", offset)
            if kind != "blank":
                tokens.append(Token(kind, match.group(), offset))
            offset = match.end()
        return [*tokens, Token("end", "", len(self.text))]

    @property
    def next(self) -> Token:
        """The token ahead, not taken."""
        return self._tokens[self._position]

    def take(self) -> Token:
        """Take the token ahead; the end stays ahead forever."""
        token = self.next
        if token.kind != "end":
            self._position += 1
        return token

    def at(self, *texts: str) -> bool:
        """Say whether the token ahead is one of these marks or words."""
        return self.next.kind in ("mark", "word") and self.next.text in texts

    def skip(self, text: str) -> bool:
        """Take the mark or word `text` if it is ahead; say whether it was."""
        found = self.at(text)
        if found:
            self.take()
        return found

    def expect(self, text: str) -> Token:
        """Take the mark or word `text`."""
        if not self.at(text):
            self.expected(f"'{text}'")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take a token of `kind`, described as `what`."""
        if self.next.kind != kind:
            self.expected(what)
        return self.take()

    def expect_string(self, what: str) -> str:
        """Take a quoted string and return what it spells."""
        token = self.expect_kind("string", what)
        try:
            return str(json.loads(token.text))
        except json.JSONDecodeError:
            self.fail("a malformed string", token.offset)

    def expect_int(self, what: str) -> int:
        """Take an integer without sign."""
        return int(self.expect_kind("int", what).text)

    def expected(self, what: str) -> NoReturn:
        """Complain about the token ahead."""
        self.fail(f"expected {what}, found {self.next}", self.next.offset)

    def nested(self, what: str) -> AbstractContextManager[None]:
        """Count one level of nesting in the block, from the token ahead on."""
        return self.budget.nested(f"line {self.line_of(self.next.offset)}: {what}")

    def line_of(self, offset: int) -> int:
        """Return the line, counted from 1, of a place in the text."""
        return bisect.bisect_left(self._line_ends, offset) + 1

    def fail(self, problem: str, offset: int, remedy: str | None = None) -> NoReturn:
        """Raise a FormatError at a place in the text, with its line and a mark."""
        raise self.error(problem, offset, remedy)

    def error(self, problem: str, offset: int, remedy: str | None = None) -> FormatError:
        """Return the FormatError for a `problem` at a place in the text."""
        start = self.text.rfind("\n", 0, offset) + 1
        line = self.text[start:].split("\n", 1)[0]
        column = offset - start + 1
        shown_from = max(0, column - 60)
        shown = line[shown_from : shown_from + 100]
        mark = " " * (column - 1 - shown_from) + "^"
        where = f"{self.file}:{self.line_of(offset)}:{column}"
        return FormatError(f"{where}: {problem}\n    {shown}\n    {mark}", remedy=remedy)

"""C expression text with the precedence of its outermost operator."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rlx.codegen.text import c_comment


class Level(enum.IntEnum):
    """C's precedence levels, loosest first."""

    CONDITIONAL = 1
    OR = 2
    AND = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    EQUALITY = 7
    RELATION = 8
    SHIFT = 9
    SUM = 10
    PRODUCT = 11
    UNARY = 12
    POSTFIX = 13


class Code(NamedTuple):
    text: str
    level: Level = Level.POSTFIX

    def at(self, level: Level) -> str:
        """Return the text, in parentheses if its operator has lower precedence than `level`."""
        return self.text if self.level >= level else f"({self.text})"


_LINE_LENGTH = 100


def fit(head: str, items: Sequence[str], tail: str, indent: str) -> list[str]:
    """Return `head` + comma-separated `items` + `tail`, broken into lines where it is long."""
    line = f"{indent}{head}{', '.join(items)}{tail}"
    if len(line) <= _LINE_LENGTH:
        return [line]
    lines, current = [f"{indent}{head}"], ""
    for position, item in enumerate(items):
        piece = item + (tail if position == len(items) - 1 else ",")
        if current and len(indent) + 4 + len(current) + 1 + len(piece) > _LINE_LENGTH:
            lines.append(f"{indent}    {current}")
            current = ""
        current = f"{current} {piece}" if current else piece
    return [*lines, f"{indent}    {current}"]


def wrap(line: str) -> list[str]:
    """Break a long statement after commas or before operators, outermost ones first.

    What is nested deeper in parentheses is indented deeper.
    """
    lines, depth = [], 0
    indent = len(line) - len(line.lstrip())
    while len(line) > _LINE_LENGTH:
        place = _break_before(line, indent, depth)
        if place is None:
            break
        lines.append(line[:place].rstrip())
        depth += sum(map(_nesting, line[:place]))
        line = " " * (indent + 4 * max(1, depth)) + line[place:].lstrip()
    return [*lines, line]


def comment(text: str) -> list[str]:
    """Return `text` as lines of a comment; none ends in a backslash, which would go on."""
    return textwrap.wrap(
        c_comment(text),
        _LINE_LENGTH,
        initial_indent="// ",
        subsequent_indent="// ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _nesting(character: str) -> int:
    return (character in "([{") - (character in ")]}")


def _break_before(line: str, indent: int, depth: int) -> int | None:
    """Return where a line breaks best: outermost, at the loosest operator, as late as possible.

    A line without any place within its length breaks at the first one beyond. `depth` counts
    the parentheses that are open before it.
    """
    start = len(line) - len(line.lstrip())
    best, best_rank = None, (len(line), 0)
    for position, character in enumerate(line):
        if position > _LINE_LENGTH and best is not None:
            break
        looseness = _looseness(line, position, indent) if position > start else None
        if looseness is not None and (depth, looseness) <= best_rank:
            best, best_rank = position, (depth, looseness)
        depth += _nesting(character)
    return best


def _looseness(line: str, position: int, indent: int) -> int | None:
    """Return the precedence of the operator at a position, or None where a line may not break."""
    before = line[position - 2 : position]
    if before == "= ":
        return 0 if indent + 4 + len(line) - position <= _LINE_LENGTH else None
    if before == ", ":
        return 0
    word = line[position:].partition(" ")[0]
    if line[position - 1] != " ":
        return None
    return Level.CONDITIONAL if word in ("?", ":") else _SIGNS.get(word)


_SIGNS = {
    "+": Level.SUM,
    "-": Level.SUM,
    "*": Level.PRODUCT,
    "/": Level.PRODUCT,
    "%": Level.PRODUCT,
    "<<": Level.SHIFT,
    ">>": Level.SHIFT,
    "<": Level.RELATION,
    "<=": Level.RELATION,
    ">": Level.RELATION,
    ">=": Level.RELATION,
    "==": Level.EQUALITY,
    "!=": Level.EQUALITY,
    "&": Level.BIT_AND,
    "^": Level.BIT_XOR,
    "|": Level.BIT_OR,
    "&&": Level.AND,
    "||": Level.OR,
}
_ASSOCIATIVE = ("&", "|", "^", "&&", "||")
_BITWISE = (Level.BIT_AND, Level.BIT_XOR, Level.BIT_OR, Level.SHIFT)
_COMPARISON = (Level.EQUALITY, Level.RELATION)
_LOGICAL = (Level.AND, Level.OR)


def infix(a: Code, sign: str, b: Code) -> Code:
    """Return `a sign b`. Mixed bitwise operators get parentheses, as compilers advise."""
    level = _SIGNS[sign]
    if level in (*_BITWISE, *_COMPARISON, *_LOGICAL):
        inner = _operand_level(level)
        same = sign in _ASSOCIATIVE and a.level is level
        left = a.text if same else a.at(inner)
        return Code(f"{left} {sign} {b.at(inner)}", level)
    return Code(f"{a.at(level)} {sign} {b.at(Level(level + 1))}", level)


def _operand_level(level: Level) -> Level:
    if level in _COMPARISON:
        return Level.SUM
    return Level.EQUALITY if level in _LOGICAL else Level.UNARY


def prefix(sign: str, x: Code) -> Code:
    inner = x.at(Level.UNARY)
    return Code(f"{sign}({inner})" if inner.startswith("-") else f"{sign}{inner}", Level.UNARY)


def cast(type: str, x: Code) -> Code:
    return Code(f"({type}){x.at(Level.UNARY)}", Level.UNARY)


def call(function: str, *args: Code) -> Code:
    return Code(f"{function}({', '.join(arg.text for arg in args)})")


def conditional(condition: Code, a: Code, b: Code) -> Code:
    test = condition.at(Level.EQUALITY)
    return Code(f"{test} ? {a.at(Level.BIT_OR)} : {b.at(Level.BIT_OR)}", Level.CONDITIONAL)

"""C expression text with the precedence of its outermost operator."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple


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
        """Return the text, in parentheses if it binds looser than `level`."""
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
    """Break a long statement after commas or before operators, outermost ones first."""
    lines = []
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > _LINE_LENGTH:
        place = _break_before(line, len(indent))
        if place is None:
            break
        lines.append(line[:place].rstrip())
        line = indent + line[place:].lstrip()
    return [*lines, line]


def _break_before(line: str, indent: int) -> int | None:
    """Return the last of the outermost places within the line length where it may break.

    A line without any breaks at the first place beyond.
    """
    best, best_depth, depth = None, len(line), 0
    for position, character in enumerate(line):
        if position > _LINE_LENGTH and best is not None:
            break
        if position > indent and depth <= best_depth and _may_break(line, position):
            best, best_depth = position, depth
        depth += (character in "([{") - (character in ")]}")
    return best


def _may_break(line: str, position: int) -> bool:
    if line[position - 2 : position] in (", ", "= "):
        return True
    word = line[position:].partition(" ")[0]
    return line[position - 1] == " " and (word in _SIGNS or word in ("?", ":"))


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
_BITWISE = (Level.BIT_AND, Level.BIT_XOR, Level.BIT_OR, Level.SHIFT, Level.AND, Level.OR)


def infix(a: Code, sign: str, b: Code) -> Code:
    """Return `a sign b`. Mixed bitwise operators get parentheses, as compilers advise."""
    level = _SIGNS[sign]
    if level in (*_BITWISE, Level.EQUALITY, Level.RELATION):
        same = sign in _ASSOCIATIVE and a.level is level
        left = a.text if same else a.at(Level.UNARY)
        return Code(f"{left} {sign} {b.at(Level.UNARY)}", level)
    return Code(f"{a.at(level)} {sign} {b.at(Level(level + 1))}", level)


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

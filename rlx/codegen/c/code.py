"""C expression text with the precedence of its outermost operator."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple


class Level(enum.IntEnum):
    """C's precedence levels, loosest first."""

    CONDITIONAL = 1
    BIT_OR = 2
    BIT_XOR = 3
    BIT_AND = 4
    EQUALITY = 5
    RELATION = 6
    SHIFT = 7
    SUM = 8
    PRODUCT = 9
    UNARY = 10
    POSTFIX = 11


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
}
_ASSOCIATIVE = ("&", "|", "^")
_BITWISE = (Level.BIT_AND, Level.BIT_XOR, Level.BIT_OR, Level.SHIFT)


def infix(a: Code, sign: str, b: Code) -> Code:
    """Return `a sign b`. Mixed bitwise operators get parentheses, as compilers advise."""
    level = _SIGNS[sign]
    if level in _BITWISE or level in (Level.EQUALITY, Level.RELATION):
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
    test, yes, no = (x.at(Level.BIT_OR) for x in (condition, a, b))
    return Code(f"{test} ? {yes} : {no}", Level.CONDITIONAL)

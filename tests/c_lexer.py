"""Tokens of C as a compiler reads them: trigraphs and spliced lines first, then comments.

    [Token("identifier", "int"), Token("identifier", "x"), Token("punctuator", ";")]

Comments and white space are no tokens. Lines of the preprocessor are lexed as all others.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TRIGRAPHS = {
    "??=": "#", "??/": "\\", "??'": "^", "??(": "[", "??)": "]", "??!": "|", "??<": "{",
    "??>": "}", "??-": "~",
}  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<blank>[ \t\n]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<character>'(?:[^'\\\n]|\\.)+')
    |(?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*)
    |(?P<punctuator>[-+*/%&|^~!<>=?:;,.(){}\[\]\#])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\([0-7]{1,3}|["\\nt?])')
_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "?": "?"}


class Token(NamedTuple):
    kind: str
    text: str


def tokens(text: str) -> list[Token]:
    """Return the tokens of C text; what is no token, such as half a string, is an error."""
    text = re.sub(r"\?\?[=/'()!<>-]", lambda found: _TRIGRAPHS[found[0]], text)
    text = re.sub(r"\\[ \t]*\n", "", text)
    found, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"no token of C: {text[place : place + 60]!r}")
        kind = str(match.lastgroup)
        if kind not in ("comment", "blank"):
            found.append(Token(kind, match[0]))
        place = match.end()
    return found


def string_content(literal: str) -> str:
    """Return what a string literal holds, read as UTF-8."""
    body = re.sub(r"\?\?[=/'()!<>-]", lambda found: _TRIGRAPHS[found[0]], literal)[1:-1]
    content = _ESCAPE.sub(lambda m: _SIMPLE.get(m[1]) or chr(int(m[1], 8)), body)
    return content.encode("latin-1").decode("utf-8")

"""Escapes for untrusted text in generated files.

Names of inputs, outputs, params, extents, functions, files and nodes, source lines and
descriptions come from model files and users. In a generated file they are a string, a comment, an
identifier or an argument, and each format has one function that makes such a thing of any `str`:

    c_string('a"b')            "a\\"b", with its quotes
    c_comment("ends */ or \\\\")  one line that ends no comment and continues none
    identifier("mlp")          itself; anything that is not an identifier is an error

What they return is `Emitted`, the only text that templates print (`codegen.c.templates`) and that
printers pass to each other where the text may have come from outside. `verbatim` makes it of text
that a printer of this package wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlx.errors import InternalError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_IDENTIFIER = 200
_LLVM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SECOND_MARK = re.compile(r"(?<=\?)\?")
"""What makes a trigraph of the question mark before it."""
_BEFORE_END = re.compile(r"\\(?=\s|$)")
_PLAIN_ARGUMENT = re.compile(r"[A-Za-z0-9_./:=+,@%-]+")
_LONGEST_STRING = 4000
"""Bytes in a string literal: compilers need accept 4095 only."""
_SIMPLE_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"}


class Emitted(str):
    """Text of a generated file: written by a printer, or escaped for its place."""

    __slots__ = ()


def verbatim(text: str) -> Emitted:
    """Return what a printer of this package wrote, as text that templates print as it is.

    Everything in it that came from outside was escaped where it was put in.
    """
    return Emitted(text)


def joined(parts: Iterable[object], separator: str) -> Emitted:
    """Return parts that may be printed, each as it is, with `separator` between them."""
    return Emitted(separator.join(printed(part) for part in parts))


def printed(value: object) -> Emitted:
    """Return a value that a template prints bare: an integer, or text that was escaped.

    Everything else is an InternalError: it may come from outside.
    """
    if isinstance(value, Emitted):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Emitted(int(value))
    raise InternalError(
        f"a template prints {value!r}, a {type(value).__name__}, without an escape",
        remedy="print it through c_string, c_comment or another escape of rlx.codegen.text",
    )


def is_identifier(text: str) -> bool:
    """True for an identifier of C and LLVM, in ASCII."""
    return _IDENTIFIER.fullmatch(text) is not None


def identifier(text: str) -> Emitted:
    """Return `text`, which is an identifier already; anything else is an InternalError."""
    if not is_identifier(text):
        raise InternalError(f"{text!r} is printed as an identifier, and is none")
    return Emitted(text)


def as_identifier(text: str) -> Emitted:
    """Return `text` with what cannot be in an identifier replaced: `a.0` is `a_0`, `0` is `n0`.

    Different texts may become equal, and keywords remain: who prints it makes it unique in its
    scope.
    """
    plain = _NO_WORD.sub("_", text)[:_LONGEST_IDENTIFIER]
    return identifier(plain if plain and not plain[0].isdigit() else f"n{plain}")


def llvm_name(text: str) -> Emitted:
    """Return `text`, which LLVM reads as a name without quotes; anything else is an error."""
    if not _LLVM_NAME.fullmatch(text):
        raise InternalError(f"{text!r} is printed as a name of LLVM, and is none")
    return Emitted(text)


def c_string(text: str) -> Emitted:
    """Return the string literal of C that has the UTF-8 bytes of `text`, with its quotes.

    It is one line of printable ASCII without trigraphs. What is longer than compilers must accept
    is cut, and ends in dots.
    """
    content = text.encode("utf-8", "backslashreplace")
    if len(content) > _LONGEST_STRING:
        content = content[:_LONGEST_STRING] + b"..."
    spelled = "".join(map(_c_character, content))
    return Emitted('"' + _SECOND_MARK.sub(r"\\?", spelled) + '"')


def c_comment(text: str) -> Emitted:
    """Return `text` in one line for a comment of C: see `one_line`."""
    plain = one_line(text).replace("*/", "* /").replace("/*", "/ *")
    return Emitted(_BEFORE_END.sub(r"\\.", _SECOND_MARK.sub(" ?", plain)))


def llvm_comment(text: str) -> Emitted:
    """Return a whole comment of LLVM IR; it ends with the line."""
    return Emitted(f"; {one_line(text)}".rstrip())


def cmake_argument(text: str) -> Emitted:
    """Return one argument of a CMake command, in quotes if it needs any."""
    if _PLAIN_ARGUMENT.fullmatch(text):
        return Emitted(text)
    escaped = re.sub(r'([\\"$;])', r"\\\1", one_line(text))
    return Emitted(f'"{escaped}"')


def shell_word(text: str) -> Emitted:
    """Return one word of a command line: in comments, and in the fields of pkg-config."""
    if _PLAIN_ARGUMENT.fullmatch(text):
        return Emitted(text)
    return c_comment("'" + one_line(text).replace("'", "'\\''").replace("$", "$$") + "'")


def one_line(text: str) -> Emitted:
    """Return `text` in one line: white space is one blank, other controls are spelled out.

    What stays are characters that are printed: no controls of terminals, no marks that turn the
    direction of writing, no halves of surrogate pairs.
    """
    plain = " ".join(text.split())
    if plain.isprintable():
        return Emitted(plain)
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)
    return Emitted("".join(shown))


def _c_character(byte: int) -> str:
    if byte in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"

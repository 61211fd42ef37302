"""Escapes of text from outside: each format reads back one token, whatever the text is."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlx.codegen import text
from rlx.codegen.c.code import comment
from rlx.codegen.c.names import c_identifier, variable_name
from rlx.errors import InternalError
from rlx.report.page import embedded
from tests.c_lexer import string_content, tokens
from tests.hostile_names import TEXTS, WORDS, drawn_names

NAMES = (*TEXTS, *WORDS, "\udc80")
UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_string_is_one_token_that_holds_the_name(name: str) -> None:
    check_string(name)


@settings(deadline=None)
@given(drawn_names)
def test_drawn_string_is_one_token_that_holds_the_name(name: str) -> None:
    check_string(name)


def check_string(name: str) -> None:
    literal = text.c_string(name)
    assert [token.kind for token in tokens(f"{literal};")] == ["string", "punctuator"]
    assert literal.isascii()
    assert literal.isprintable()
    content = name.encode("utf-8", "backslashreplace").decode()
    assert string_content(literal) == content


def test_long_string_is_cut_to_what_compilers_accept() -> None:
    assert len(string_content(text.c_string("é" * 2001))) < 4095


@pytest.mark.whole
@pytest.mark.parametrize("name", NAMES)
def test_comment_ends_with_its_line(name: str) -> None:
    check_comment(name)


@settings(deadline=None)
@given(drawn_names)
def test_drawn_comment_ends_with_its_line(name: str) -> None:
    check_comment(name)


def check_comment(name: str) -> None:
    shown = text.c_comment(name)
    assert tokens(f"// {shown}\nnext") == tokens("next")
    assert tokens(f"/* {shown} */next") == tokens("next")
    assert not UNPRINTED.search(shown)
    lines = comment(f"{name} " * 20)
    assert tokens("\n".join([*lines, "next"])) == tokens("next")
    assert not any("\n" in line for line in lines)
    assert "\n" not in text.llvm_comment(name)
    assert "\r" not in text.llvm_comment(name)


@settings(deadline=None)
@given(drawn_names)
@example("int")
@example("_")
@example("é")
def test_identifier_is_one_and_no_word_of_c(name: str) -> None:
    for spelled in (c_identifier(name), variable_name(text.as_identifier(name))):
        assert [token.kind for token in tokens(spelled)] == ["identifier"]
    assert c_identifier(name) not in WORDS_OF_C
    assert c_identifier(c_identifier(name)) == c_identifier(name)


WORDS_OF_C = ("int", "I", "if", "class", "NULL", "M_PI", "rlx_info", "int64_t", "main", "linux")


@pytest.mark.parametrize("escape", [text.identifier, text.llvm_name])
@pytest.mark.parametrize("name", ["", "a b", "a\n", "é", "0a", 'a"'])
def test_printing_as_an_identifier_what_is_none_is_an_error(
    escape: Callable[[str], text.Emitted], name: str
) -> None:
    with pytest.raises(InternalError, match="and is none"):
        escape(name)


@settings(deadline=None)
@given(drawn_names)
def test_argument_of_cmake_is_one_word(name: str) -> None:
    word = text.cmake_argument(name)
    if word.startswith('"'):
        assert re.fullmatch(r'"(?:[^"\\$;]|\\["\\$;])*"', word)
    else:
        assert re.fullmatch(r"[\w./:=+,@%-]+", word, re.ASCII)


@pytest.mark.whole
@pytest.mark.parametrize("name", TEXTS)
def test_word_of_a_command_line_runs_nothing(name: str) -> None:
    word = text.shell_word(name)
    assert tokens(f"// {word}\nnext") == tokens("next")
    if "\0" not in word:
        done = subprocess.run(
            ["sh", "-c", f"printf '%s|' {word}"], capture_output=True, text=True, check=True
        )
        assert done.stdout.count("|") == 1 + word.count("|")


@settings(deadline=None)
@given(st.text())
def test_json_of_the_report_cannot_end_its_element(name: str) -> None:
    shown = embedded({"name": name})
    assert "<" not in shown
    assert json.loads(shown) == {"name": name}

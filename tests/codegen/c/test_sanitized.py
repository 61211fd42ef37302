"""The sanitizers find the faults that they look for, and report their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen.c.native import COMPILERS
from tests.codegen.c.sanitized import run_sanitized

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
_CALL = "tests.codegen.c.call_entry"
UNIT = """#include <stdint.h>
int entry(int32_t n);
extern int32_t numbers[4];
int32_t numbers[4] = {1, 2, 3, 4};
int entry(int32_t n) {
  %s
}
"""
FAULTS = {
    "signed integer overflow": "return n + INT32_MAX;",
    "shift exponent 40 is too large": "return 1 << (n + 36);",
    "division by zero": "return 1 / (n - 4);",
    "misaligned address": "return *(int32_t *)(void *)((char *)numbers + n - 3);",
    "index 4 out of bounds": "return numbers[n];",
    "global-buffer-overflow": "int32_t *volatile p = numbers; return p[n];",
    "stack-buffer-overflow": "int32_t own[4] = {n}; int32_t *volatile p = own; return p[n];",
}


def program(body: str) -> str:
    return UNIT % body


@pytest.mark.parametrize("words", FAULTS)
def test_a_fault_is_found_and_named(words: str, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=words):
        run_sanitized(program(FAULTS[words]), tmp_path, _CALL, "4")


def test_what_the_program_prints_is_returned(tmp_path: Path) -> None:
    body = program("return numbers[n];")
    assert run_sanitized(body, tmp_path, _CALL, "2") == "3\n"

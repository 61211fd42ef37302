"""The C of every recorded use of an op: no warnings, no undefined behavior."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.codegen.c.emit import emit_module
from tests.codegen.c.native import COMPILERS, compile_strictly
from tests.codegen.c.record_cases import record_cases
from tests.codegen.c.sanitized import run_sanitized
from tests.codegen.kernels.native import module_of

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
STRIDES = (pytest.param(29), pytest.param(1, marks=pytest.mark.slow))
"""A small share in the quick run, all in the slow one. 29 meets every op's dtypes in turn."""


def text_of(stride: int) -> str:
    return emit_module(module_of([case for _, _, case in record_cases(stride)]))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("stride", STRIDES)
def test_records_compile_without_a_warning(compiler: str, stride: int, tmp_path: Path) -> None:
    compile_strictly(compiler, text_of(stride), tmp_path, ("-O1",))


@pytest.mark.parametrize("stride", STRIDES)
def test_records_are_clean_under_the_sanitizers(stride: int, tmp_path: Path) -> None:
    printed = run_sanitized(text_of(stride), tmp_path, "tests.codegen.c.record_cases", str(stride))
    assert printed == "clean\n"

"""The C of every recorded use of an op: no warnings, no undefined behavior."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.codegen.c.emit import emit_module
from tests.codegen.c.native import COMPILERS, warn_strictly
from tests.codegen.c.record_cases import record_cases
from tests.codegen.c.sanitized import run_sanitized
from tests.codegen.kernels.native import module_of

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
SHARES = 8
EVERY = tuple(pytest.param(SHARES, start, marks=pytest.mark.slow) for start in range(SHARES))
"""All recorded uses, in files of a size that a compiler is quick with."""
SAMPLE = pytest.param(29, 0)
"""A small share, for the quick run. 29 meets every op's dtypes in turn."""


def text_of(stride: int, start: int) -> str:
    return emit_module(module_of([case for _, _, case in record_cases(stride, start)]))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("stride", "start"), [SAMPLE])
def test_records_compile_without_a_warning(
    compiler: str, stride: int, start: int, tmp_path: Path
) -> None:
    warn_strictly(compiler, text_of(stride, start), tmp_path, ("-O1",))


@pytest.mark.parametrize(("stride", "start"), [SAMPLE, *EVERY])
def test_records_are_without_a_warning_and_clean_under_the_sanitizers(
    stride: int, start: int, tmp_path: Path
) -> None:
    program, text = "tests.codegen.c.record_cases", text_of(stride, start)
    warn_strictly(COMPILERS[0], text, tmp_path, ("-Og",))  # some warnings need its analyses
    printed = run_sanitized(text, tmp_path, program, str(stride), str(start))
    assert printed == "clean\n"

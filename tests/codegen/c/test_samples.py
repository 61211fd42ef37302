"""Every node kind of the loop language: C's results are the interpreter's, bit for bit.

All samples are compiled as one unit under the strict flags, by every compiler there is.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from rlx.codegen.c.emit import emit_module
from tests.codegen.c.native import (
    COMPILERS,
    ORIGIN,
    call_sample,
    compile_strictly,
    sample_module,
)
from tests.codegen.c.sanitized import run_sanitized
from tests.codegen.loops.samples import SAMPLES, Sample, assert_same, run_sample

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
_NAMES = [sample.name for sample in SAMPLES]


@pytest.fixture(scope="module")
def text() -> str:
    return emit_module(sample_module(SAMPLES))


def _compiler_params() -> list[Any]:
    """The first compiler always, the others in the slow run."""
    return [pytest.param(c, marks=pytest.mark.slow if c != COMPILERS[0] else ()) for c in COMPILERS]


@pytest.fixture(scope="module", params=_compiler_params())
def library(
    request: pytest.FixtureRequest, text: str, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    directory = tmp_path_factory.mktemp("samples")
    return ctypes.CDLL(str(compile_strictly(str(request.param), text, directory)))


@pytest.mark.whole
@pytest.mark.parametrize("sample", SAMPLES, ids=_NAMES)
def test_sample_gives_the_interpreters_bits_and_status(
    library: ctypes.CDLL, sample: Sample
) -> None:
    expected = run_sample(sample)
    status, header, buffers = call_sample(library, sample)
    assert status == expected.outcome.status
    assert_same(expected.buffers, buffers)
    if status:
        assert header[:3].tolist() == [status, ORIGIN, expected.outcome.position]


def test_text_is_the_same_every_time(text: str) -> None:
    assert emit_module(sample_module(SAMPLES)) == text


def test_text_has_no_long_indentation_or_trailing_spaces(text: str) -> None:
    assert not [line for line in text.splitlines() if line != line.rstrip() or "\t" in line]


@pytest.mark.parametrize(
    "stride",
    [pytest.param(10, marks=pytest.mark.sample(count=1)), pytest.param(1, marks=pytest.mark.slow)],
)
def test_samples_are_clean_under_the_sanitizers(stride: int, tmp_path: Path) -> None:
    samples = SAMPLES[::stride]
    text = emit_module(sample_module(samples))
    printed = run_sanitized(text, tmp_path, "tests.codegen.c.run_samples", str(stride))
    assert printed.split() == [sample.name for sample in samples]

"""The C of every recorded use of an op: no warnings, no undefined behavior, the right results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.codegen.c.emit import emit_module
from tests.codegen.c.native import COMPILERS, warn_strictly
from tests.codegen.c.sanitized import run_sanitized
from tests.codegen.kernels.native import arena_of, module_of, results_of
from tests.codegen.uses import Built, share

pytestmark = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
SHARES = 13
EVERY = tuple(pytest.param(SHARES, start, marks=pytest.mark.slow) for start in range(SHARES))
"""All recorded uses, in as many files. Of a prime number, each has about as much of every dtype."""
SAMPLE = pytest.param(29, 0, marks=pytest.mark.sample(count=SHARES))
"""A small share, for the quick run: with a stride of 29 it has every dtype."""


def text_of(built: Sequence[Built]) -> str:
    return emit_module(module_of([use.case for use in built]))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("stride", "start"), [SAMPLE])
def test_records_compile_without_a_warning(
    compiler: str, stride: int, start: int, tmp_path: Path
) -> None:
    """Those of the parser and of the analyses before optimization: all that clang has."""
    warn_strictly(compiler, text_of(share(stride, start)), tmp_path)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize(("stride", "start"), [SAMPLE, *EVERY])
def test_records_agree_and_are_clean_under_the_sanitizers(
    stride: int, start: int, tmp_path: Path
) -> None:
    built, arenas = share(stride, start), tmp_path / "arenas.npz"
    before: dict[str, Any] = {use.case.entry.name: arena_of(use.case, use.feeds) for use in built}
    np.savez(arenas, **before)
    printed = run_sanitized(text_of(built), tmp_path, "tests.codegen.c.run_arenas", str(arenas))
    statuses = dict(line.split() for line in printed.splitlines())
    with np.load(arenas) as after:
        for use, entry in zip(built, before, strict=True):
            use.check(int(statuses[entry]), results_of(use.case, after[entry], {}))

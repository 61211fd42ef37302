"""Kernels of every op on aarch64, under emulation, agree with the reference, by C and by LLVM."""

from __future__ import annotations

import pytest

from rlx.target import named_target
from tests.aot.windows import needs_zig
from tests.codegen.c.forms import largest_of_each_form
from tests.codegen.emulated import needs_emulator, run_cases
from tests.codegen.uses import ALL, EACH, build


@pytest.mark.costly(8)
@needs_emulator
@needs_zig
@pytest.mark.slow
@pytest.mark.parametrize(("backend", "target"), [("c", "aarch64"), ("llvm", "aarch64-bf16")])
@pytest.mark.parametrize("op", EACH)
def test_kernels_agree_with_the_reference_on_aarch64(op: str, backend: str, target: str) -> None:
    built = largest_of_each_form([build(use, named_target(target)) for use in ALL[op]])
    cases, feeds = [use.case for use in built], [use.feeds for use in built]
    for use, (status, results) in zip(built, run_cases(cases, feeds, backend, target), strict=True):
        use.check(status, results)

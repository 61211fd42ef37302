"""Every recorded use of every op: its kernel obeys the rules and agrees with the reference.

Through C, one of each form is compiled as users have it, and `c/test_records` runs all.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rlx.codegen.entry import can_fail
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.loops.verify import verify_kernel
from rlx.errors import ToolchainError
from rlx.ir.op import Trait
from rlx.runtime.backend import Loader
from rlx.runtime.c_backend import CBackend
from rlx.runtime.toolchain import find_toolchain
from rlx.target import detect_target
from tests.codegen.c.forms import largest_of_each_form
from tests.codegen.c.native import STRICT
from tests.codegen.kernels.native import module_of, run_case
from tests.codegen.uses import ALL, EACH, Built, build

_UNIT = 8
"""Kernels of one C file: the compiler has ten minutes for it, also on a busy machine."""


def check(backend: Loader, built: Sequence[Built]) -> None:
    """Compile the kernels together, run each and compare with the reference."""
    native = backend.load(module_of([use.case for use in built]), detect_target())
    for use in built:
        use.check(*run_case(use.case, native.address(use.case.entry.name), use.feeds))


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest) -> list[Built]:
    """The uses of an op with their kernels, built once for the tests of them."""
    return [build(use) for use in ALL[request.param]]


@pytest.fixture(scope="module")
def c_backend() -> CBackend:
    """The backend of users, strict: the warnings of the analyses that optimizers make, too."""
    try:
        return CBackend(find_toolchain(), more_flags=(*STRICT, "-Wno-psabi"))
    except ToolchainError as error:
        pytest.skip(f"no C compiler: {error}")


@pytest.mark.parametrize("built", EACH, indirect=True)
def test_kernels_obey_the_rules_of_the_loop_language(built: list[Built]) -> None:
    for use in built:
        verify_kernel(use.case.kernel)


@pytest.mark.parametrize("built", EACH, indirect=True)
def test_an_op_says_whether_its_kernels_may_end_the_run(built: list[Built]) -> None:
    op = built[0].record.op
    assert any(can_fail(use.case.kernel) for use in built) == op.has(Trait.MAY_FAULT)


@pytest.mark.parametrize("built", EACH, indirect=True)
def test_kernels_agree_with_the_reference_through_llvm(built: list[Built]) -> None:
    check(LlvmBackend(), built)


@pytest.mark.costly(4)
@pytest.mark.slow
@pytest.mark.parametrize("built", EACH, indirect=True)
def test_kernels_agree_with_the_reference_through_c(
    built: list[Built], c_backend: CBackend
) -> None:
    chosen = largest_of_each_form(built)
    for first in range(0, len(chosen), _UNIT):
        check(c_backend, chosen[first : first + _UNIT])

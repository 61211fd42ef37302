"""Every recorded use of every op: its kernel agrees with the reference, in both backends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

import numpy as np
import pytest

from rlx.codegen.kernels import has_kernel
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.errors import ToolchainError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.reference import evaluate
from rlx.runtime.backend import Loader
from rlx.runtime.c_backend import CBackend
from rlx.runtime.toolchain import find_toolchain
from rlx.target import detect_target
from tests.codegen.kernels.native import Array, Case, case_of, module_of, run_case
from tests.records import OpRecord, records

QUICK = frozenset({DType.F32, DType.F16, DType.I32, DType.U8, DType.BOOL, DType.C64})
"""The dtypes of the default run of the C backend, one of each kind of arithmetic.

The compiler takes 25 ms for a kernel; the others run under the marker `slow`.
"""

Use = tuple[OpRecord, DType]


def uses(dtypes: frozenset[DType]) -> dict[str, list[Use]]:
    """Return the records that have a kernel, by op."""
    ordered = sorted(records(), key=lambda record: record.op.name)
    found = {}
    for op, group in groupby(ordered, key=lambda record: record.op.name):
        listed = [(r, d) for r in group for d in r.dtypes if has_kernel(r.op) and d in dtypes]
        if listed:
            found[op] = listed
    return found


def cases(listed: list[Use]) -> Iterator[tuple[Use, Case]]:
    for record, dtype in listed:
        name = re.sub(r"\W", "_", f"{record.id}_{dtype}")
        yield (record, dtype), case_of(record.graph(dtype), name)


def check(backend: Loader, listed: list[Use]) -> None:
    """Compile the kernels of `listed` together, run each and compare with the reference."""
    built = list(cases(listed))
    native = backend.load(module_of([case for _, case in built]), detect_target())
    for (record, dtype), case in built:
        graph, feeds = record.graph(dtype), record.inputs(dtype)
        status, found = run_case(case, native.address(case.entry.name), list(feeds.values()))
        assert status == 0, f"{case.name} returned status {status}"
        for expected, result in zip(evaluate(graph, feeds), found, strict=True):
            agree(case.name, record, expected, result)


def agree(name: str, record: OpRecord, expected: Array, found: Array) -> None:
    assert found.shape == expected.shape, name
    assert found.dtype == expected.dtype, name
    bound = record.tolerance(as_dtype(expected.dtype))
    np.testing.assert_allclose(
        comparable(found), comparable(expected), rtol=bound.rtol, atol=bound.atol, err_msg=name
    )


def comparable(array: Array) -> Array:
    """NumPy's tests know no bf16."""
    is_numeric = array.dtype.kind in "biufc"
    return array if is_numeric else array.astype(np.float32)


ALL: Mapping[str, list[Use]] = uses(frozenset(DType))
SOME: Mapping[str, list[Use]] = uses(QUICK)
OTHERS: Mapping[str, list[Use]] = uses(frozenset(DType) - QUICK)


@pytest.fixture(scope="module")
def c_backend() -> CBackend:
    try:
        return CBackend(find_toolchain())
    except ToolchainError as error:
        pytest.skip(f"no C compiler: {error}")


@pytest.mark.parametrize("op", ALL)
def test_kernels_agree_with_the_reference_through_llvm(op: str) -> None:
    check(LlvmBackend(), ALL[op])


@pytest.mark.parametrize("op", SOME)
def test_kernels_agree_with_the_reference_through_c(op: str, c_backend: CBackend) -> None:
    check(c_backend, SOME[op])


@pytest.mark.slow
@pytest.mark.parametrize("op", OTHERS)
def test_kernels_of_the_other_dtypes_agree_with_the_reference_through_c(
    op: str, c_backend: CBackend
) -> None:
    check(c_backend, OTHERS[op])


def test_every_use_is_run_by_one_of_both() -> None:
    """The two sets of dtypes leave none out."""
    for op, listed in ALL.items():
        assert len(SOME.get(op, [])) + len(OTHERS.get(op, [])) == len(listed), op

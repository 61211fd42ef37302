"""The recorded uses of ops that have a kernel: the kernel of each, and what it must compute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import pytest

from rlx.codegen.kernels import has_kernel
from rlx.codegen.kernels.build import WIDEST
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.reference import evaluate
from rlx.target import Target
from tests.codegen.kernels.native import Array, Case, case_of
from tests.records import OpRecord, records

Use = tuple[OpRecord, DType]


@dataclass(frozen=True)
class Built:
    """A use with its kernel."""

    record: OpRecord
    dtype: DType
    case: Case

    @cached_property
    def feeds(self) -> list[Array]:
        return list(self.record.inputs(self.dtype).values())

    @cached_property
    def expected(self) -> tuple[Array, ...]:
        """What the reference computes."""
        feeds = self.record.inputs(self.dtype)
        return tuple(evaluate(self.record.graph(self.dtype), feeds))

    def check(self, status: int, found: Sequence[Array]) -> None:
        """Fail unless a run of the kernel ended well, with the reference's results."""
        assert status == 0, f"{self.case.name} returned status {status}"
        for expected, result in zip(self.expected, found, strict=True):
            agree(self.case.name, self.record, expected, result)


def build(use: Use, target: Target = WIDEST) -> Built:
    """Build the kernel of a use."""
    record, dtype = use
    name = re.sub(r"\W", "_", f"{record.id}_{dtype}")
    return Built(record, dtype, case_of(record.graph(dtype), name, target=target))


def uses() -> list[Use]:
    """Return all uses, in the order of the records."""
    return [(r, d) for r in records() if has_kernel(r.op) for d in r.dtypes]


def share(stride: int, start: int) -> list[Built]:
    """Return every `stride`-th use, from the one at `start`."""
    return [build(use) for use in uses()[start::stride]]


def _by_op() -> Mapping[str, list[Use]]:
    ordered = sorted(uses(), key=lambda use: use[0].op.name)
    return {op: list(group) for op, group in groupby(ordered, key=lambda use: use[0].op.name)}


ALL = _by_op()
"""All uses, by op."""
_COSTLY = frozenset({"eig", "schur", "solve", "solve_backward", "svd"})
"""Ops whose kernels take seconds to build."""
EACH = [pytest.param(op, marks=[pytest.mark.slow] * (op in _COSTLY)) for op in ALL]
"""The ops, as cases of a test."""


def elements(record: OpRecord) -> int:
    return sum(int(np.prod(operand.shape)) for operand in record.operands)


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

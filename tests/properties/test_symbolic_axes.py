"""Each axis of each op made symbolic: right at 0, 1, below its bound and at it, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.errors import RlxError
from rlx.ir.reference import evaluate
from tests.properties.symbolic_axes import (
    MODES,
    axes,
    builds,
    dim,
    feeds,
    program,
    refusal,
    refused,
    where,
)
from tests.records import OpRecord

CASES = [
    pytest.param(record, extent, mode, id=f"{record.op.name}-{where(record, extent)}-{mode}")
    for record, extent in axes()
    for mode in MODES
]
DIFFERENT_AT_NOTHING = {"conv_transpose"}
"""Ops of which an extent is another formula at 0; the page says so."""


def extents(record: OpRecord, extent: int) -> list[int]:
    few = [0] if record.op.name not in DIFFERENT_AT_NOTHING else []
    return [*few, 1, extent - 1, extent + 1]


@pytest.mark.whole
@pytest.mark.parametrize(("record", "extent", "mode"), CASES)
def test_a_symbolic_axis_is_refused_as_the_page_says(
    record: OpRecord, extent: int, mode: str
) -> None:
    listed = refused().get((record.op.name, where(record, extent)), "").split(", ")
    if builds(record, extent):
        assert (refusal(record, extent, mode) is not None) == (mode in listed)


@pytest.mark.whole
@pytest.mark.parametrize(("record", "extent", "mode"), CASES)
def test_a_symbolic_axis_is_right_at_every_extent(record: OpRecord, extent: int, mode: str) -> None:
    check(record, extent, mode, backend="reference")


@pytest.mark.parametrize(
    "backend", ["llvm", pytest.param("c", marks=[pytest.mark.costly(8), pytest.mark.slow])]
)
@pytest.mark.parametrize(("record", "extent", "mode"), CASES)
def test_compiled_code_of_a_symbolic_axis_is_right_at_every_extent(
    record: OpRecord, extent: int, mode: str, backend: str
) -> None:
    check(record, extent, mode, backend)


def check(record: OpRecord, extent: int, mode: str, backend: str) -> None:
    """Compare a program for all extents with one for each, where that gives numbers."""
    if not builds(record, extent) or refusal(record, extent, mode) is not None:
        return
    symbolic = program(record, extent, dim(extent), mode)
    if symbolic is None:
        return
    run = rlx.compile(symbolic, backend=backend)
    for chosen in extents(record, extent):
        try:
            fixed = program(record, extent, chosen, mode)
            assert fixed is not None
            arrays = feeds(record, extent, chosen, mode, fixed)
            if arrays is None:
                continue
            with np.errstate(all="ignore"):
                expected = evaluate(fixed, arrays)
        except RlxError:  # a use that a fixed extent refuses, too, or a fault of the values
            continue
        with np.errstate(all="ignore"):
            found = run.run(arrays)
        bound = max(record.tolerance(output.dtype).rtol for output in fixed.outputs)
        if mode == "gradient":  # of an exact op it may be a sum, whose order depends on the extent
            kinds = [found.dtype for found in expected if found.dtype.kind == "f"]
            bound = max([bound, *(2.0 * float(np.finfo(kind).eps) for kind in kinds)])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=max(bound, 1e-9), atol=max(bound, 1e-9))

"""Every op that is recorded gives what it gave, where all its faults are checked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.ir.dtype import DType
from rlx.ir.reference import evaluate
from rlx.passes.checks import functionalize
from rlx.passes.checks.automatic import AUTOMATIC
from tests.records import OpRecord, records


def cases() -> list[Any]:
    """Return each op's first record, with its first dtype and one of complex numbers."""
    firsts = {record.op: record for record in reversed(list(records()))}
    return [
        pytest.param(record, dtype, id=f"{record.id}-{dtype.value}")
        for record in firsts.values()
        for dtype in dict.fromkeys(
            (record.dtypes[0], *(d for d in record.dtypes if d is DType.C64))
        )
    ]


@pytest.mark.whole
@pytest.mark.parametrize(("record", "dtype"), cases())
def test_results_are_those_of_the_op(record: OpRecord, dtype: DType) -> None:
    graph, feeds = record.graph(dtype), record.inputs(dtype)
    expected = evaluate(graph, feeds)
    made = functionalize(graph, AUTOMATIC)
    found = evaluate(made.graph, feeds)
    for one, other in zip(found[made.state :], expected, strict=True):
        np.testing.assert_array_equal(one, other)
    is_nan = any(np.isnan(x).any() for x in expected if x.dtype.kind in "fc")
    assert is_nan or found[0] == 0

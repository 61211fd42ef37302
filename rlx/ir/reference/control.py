"""Checks in NumPy. Of rematerialization none has a rule: the interpreter returns operands."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference
from rlx.ir.reports import report_of

reference.absent(ops.refuse_derivative, because="a view: the interpreter returns the operand")
reference.absent(ops.barrier, because="a view: the interpreter returns the operand")
reference.absent(ops.bytes_as_words, because="a view: the interpreter reads the operand so")


@reference.exact(ops.check)
def check(failed: Array, *values: Array, report: int) -> Array:
    if failed:
        raise report_of(report).raised(values)
    return np.zeros((), np.int32)

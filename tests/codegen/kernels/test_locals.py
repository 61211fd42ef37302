"""Local buffers of kernels are as large as what is stored there, no larger."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.kernels import build_kernel
from rlx.codegen.loops import interpreter
from rlx.codegen.loops.evaluate import Array
from rlx.codegen.loops.nodes import Buffer, Local
from rlx.codegen.loops.visit import walk
from rlx.ir.dtype import DType
from tests.codegen.kernels.native import thunk_of
from tests.codegen.kernels.test_kernels import interpret
from tests.codegen.uses import ALL
from tests.records import OpRecord

_MOST = 200
"""Elements of the operands of a use that is interpreted."""


def has_locals(record: OpRecord) -> bool:
    kernel = build_kernel(thunk_of(record.graph(DType.F32).nodes[-1])[0], "kernel")
    return any(isinstance(statement, Local) for statement in walk(kernel.body))


def small_uses(op: str) -> list[OpRecord]:
    """Return the uses of an op in f32 whose kernels have local buffers."""
    uses = [record for record, dtype in ALL[op] if dtype is DType.F32]
    small = [u for u in uses if sum(int(np.prod(o.shape)) for o in u.operands) <= _MOST]
    return [use for use in small if has_locals(use)]


@pytest.mark.parametrize("op", ALL)
def test_every_element_of_a_local_buffer_is_stored(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: dict[str, list[Array]] = {}
    reserve = interpreter._reserve

    def marking(frame: interpreter._Frame, buffer: Buffer) -> None:
        reserve(frame, buffer)
        marks.setdefault(buffer.name, []).append(frame.stored[buffer.name])

    monkeypatch.setattr(interpreter, "_reserve", marking)
    for use in small_uses(op):
        marks.clear()
        interpret(use.graph(DType.F32), use.inputs(DType.F32))
        unused = [name for name, of in marks.items() if not np.logical_or.reduce(of).all()]
        assert unused == [], use.id

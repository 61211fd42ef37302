"""Operands and results as plain memory, for kernels that neither take nor give expressions."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.loops.nodes import Buffer
from rlx.errors import InternalError
from rlx.ir.shape import upper


def given(x: Reader) -> Buffer:
    """Return the memory of an operand: nothing is computed before it."""
    if x.memory is None:
        raise InternalError(f"{x.name} is computed on the way; its kernel takes what is stored")
    return x.memory


def result(y: Writer) -> Buffer:
    """Return the memory of a result, which the kernel stores itself."""
    y.grouped((tuple(range(len(y.shape))),))
    if y.memory is None:
        raise InternalError(f"{y.name} is computed further; its kernel stores what it is")
    return y.memory


def row_count(x: Reader) -> int:
    return upper(x.shape[0])

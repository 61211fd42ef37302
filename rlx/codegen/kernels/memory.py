"""Operands and results as plain buffers, for kernels without prologues and epilogues."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.loops.nodes import Buffer
from rlx.errors import InternalError
from rlx.ir.shape import upper


def given(x: Reader) -> Buffer:
    """Return the buffer of an operand that has no fused producer."""
    if x.memory is None:
        raise InternalError(f"{x.name} has a fused producer; this kernel reads stored operands")
    return x.memory


def result(y: Writer) -> Buffer:
    """Return the buffer of a result that has no fused consumer."""
    y.grouped((tuple(range(len(y.shape))),))
    if y.memory is None:
        raise InternalError(f"{y.name} has a fused consumer; this kernel stores its result")
    return y.memory


def row_count(x: Reader) -> int:
    return upper(x.shape[0])

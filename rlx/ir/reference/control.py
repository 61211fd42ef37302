"""Rematerialization ops in NumPy: none has a rule, as the interpreter returns their operands."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.reference.registry import reference

reference.absent(ops.barrier, because="a view: the interpreter returns the operand")
reference.absent(ops.bytes_as_words, because="a view: the interpreter reads the operand so")

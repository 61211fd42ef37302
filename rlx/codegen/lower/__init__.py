"""Lowering: legal graphs to programs of thunks and kernels."""

from rlx.codegen.lower import loops as loops
from rlx.codegen.lower.graph import Program, lower_graph
from rlx.codegen.lower.registry import lowering

__all__ = ["Program", "lower_graph", "lowering"]

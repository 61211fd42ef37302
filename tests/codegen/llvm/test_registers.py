"""Sums of a register tile stay in registers: none is on the stack while K runs."""

from __future__ import annotations

import re

import pytest

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.report.stages import Stages
from rlx.runtime.llvm_backend import llvm_assembly
from rlx.target import detect_target


@pytest.mark.skipif(not detect_target().has("fma"), reason="counts instructions of x86")
def test_constants_of_what_follows_a_product_take_no_registers_from_its_sums() -> None:
    graph = Graph("product")
    x, w = graph.input("x", (96, 480), DType.F32), graph.param("w", (480, 96), DType.F32)
    y = 1.25 * ops.matmul(x, w) + 0.75
    gate = ops.minimum(ops.maximum(y + 3.0, 0.0), 6.5)
    graph.set_outputs([0.5 * (y * gate / 6.0) + 0.125])
    assembly = llvm_assembly(Stages.of(graph, detect_target()).program.module)
    loops = [loop for loop in _innermost_loops(assembly) if loop.count("vfmadd231ps") >= 8]
    assert loops
    assert not [line for loop in loops for line in loop.splitlines() if "sp)" in line]


def _innermost_loops(assembly: str) -> list[str]:
    """Return what is between labels and jumps to them."""
    blocks = re.split(r"^(\.?L\w+):", assembly, flags=re.MULTILINE)[1:]
    found = []
    for label, body in zip(blocks[::2], blocks[1::2], strict=True):
        jump = re.search(rf"\tj\w+\t{re.escape(label)}\n", body)
        if jump:
            found.append(body[: jump.start()])
    return found

"""The samples run in the interpreter, verify, print, and leave no node kind out."""

from __future__ import annotations

from typing import get_args

import pytest

from rlx.codegen.loops import nodes
from rlx.codegen.loops.builder import KernelBuilder, function
from rlx.codegen.loops.expr import E, call
from rlx.codegen.loops.printer import format_kernel
from rlx.codegen.loops.verify import verify_kernel
from rlx.codegen.loops.visit import all_expressions, functions_of, walk
from tests.codegen.loops.samples import SAMPLES, run_sample
from tests.codegen.loops.tile_samples import TILE_SAMPLES

KERNELS = [sample.kernel for sample in (*SAMPLES, *TILE_SAMPLES)]


def test_samples_use_every_kind_of_statement_and_expression() -> None:
    statements = {type(each) for kernel in KERNELS for each in walk(kernel.body)}
    expressions = {type(each) for kernel in KERNELS for each in all_expressions(kernel.body)}
    assert set(get_args(nodes.Stmt)) <= statements
    assert set(get_args(nodes.Expr)) <= expressions


def test_samples_use_every_operator_and_loop_kind() -> None:
    found: set[object] = set()
    for kernel in KERNELS:
        for expr in all_expressions(kernel.body):
            if isinstance(expr, nodes.Unary | nodes.Binary | nodes.Compare):
                found.add(expr.op)
        for statement in walk(kernel.body):
            if isinstance(statement, nodes.For):
                found.add(statement.kind)
            elif isinstance(statement, nodes.Atomic | nodes.TileStep):
                found.add(statement.op)
    operators = nodes.UnaryOp, nodes.BinaryOp, nodes.CompareOp
    for kind in (*operators, nodes.LoopKind, nodes.AtomicOp, nodes.TileOp):
        assert set(kind) <= found


def test_samples_have_distinct_names() -> None:
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)


@pytest.mark.parametrize("part", range(8))
def test_samples_verify_print_and_run_within_bounds(part: int) -> None:
    for sample in SAMPLES[part::8]:
        verify_kernel(sample.kernel)
        assert sample.name in format_kernel(sample.kernel)
        run_sample(sample)


def test_functions_are_collected_callees_first_and_once() -> None:
    x = nodes.Var("x", nodes.ValueType(nodes.Prim.F32))
    inner = function("inner", "x + 1", [x], E(x) + 1.0)
    outer = function("outer", "2 * inner(x)", [x], call(inner, E(x)) * 2.0)
    k = KernelBuilder("calls_both")
    y = k.argument("y", nodes.Prim.F32, writable=True)
    for place, called in enumerate((outer, inner, outer)):
        k.store(y, place, call(called, k.load(y, place)))
    assert [each.name for each in functions_of([k.build()])] == ["inner", "outer"]

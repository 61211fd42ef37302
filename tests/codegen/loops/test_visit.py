"""Rewriting reaches every expression and shares what it does not change; printing keeps order."""

from __future__ import annotations

import pytest

from rlx.codegen.loops.expr import E, select
from rlx.codegen.loops.math.storage import bf16_to_f32
from rlx.codegen.loops.nodes import Expr, Fail, Invoke, Prim, ValueType, Var
from rlx.codegen.loops.printer import format_expression, format_function, format_kernel
from rlx.codegen.loops.visit import all_expressions, can_fail, rewrite_block, walk
from tests.codegen.loops.samples import SAMPLES

I64 = ValueType(Prim.I64)
A, B, C = (E(Var(name, I64)) for name in "abc")


@pytest.mark.parametrize("part", range(4))
def test_a_rewrite_that_changes_nothing_gives_an_equal_kernel(part: int) -> None:
    for sample in SAMPLES[part::4]:
        body = sample.kernel.body
        assert rewrite_block(body, lambda expr: expr) == body


def test_a_rewrite_reaches_every_expression_of_every_statement() -> None:
    def rename(expr: Expr) -> Expr:
        return Var("renamed", expr.type) if isinstance(expr, Var) else expr

    for sample in SAMPLES:
        before = [each for each in all_expressions(sample.kernel.body) if isinstance(each, Var)]
        body = rewrite_block(sample.kernel.body, rename)
        after = [each.name for each in all_expressions(body) if isinstance(each, Var)]
        assert after == ["renamed"] * len(before)


def test_a_kernel_can_fail_if_it_or_a_callee_holds_a_fail() -> None:
    for sample in SAMPLES:
        statements = list(walk(sample.kernel.body))
        direct = any(isinstance(each, Fail) for each in statements)
        invoked = [each.kernel for each in statements if isinstance(each, Invoke)]
        assert can_fail(sample.kernel) == (direct or any(map(can_fail, invoked)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((A + B) * C, "(a + b) * c"),
        (A + B * C, "a + b * c"),
        (A - (B - C), "a - (b - c)"),
        (A - B - C, "a - b - c"),
        (-(A + B), "-(a + b)"),
        ((A << 2) & (B | C), "a << 2 & (b | c)"),
        (select(A < B, A, -B), "select(a < b, a, -b)"),
        (A.cast(Prim.F32).bitcast(Prim.U32), "bits_u32(f32(a))"),
    ],
)
def test_parentheses_appear_only_where_precedence_asks(expression: E, text: str) -> None:
    assert format_expression(expression.node) == text


def test_a_kernel_prints_as_pseudo_code() -> None:
    kernel = next(each.kernel for each in SAMPLES if each.name == "accumulate_add_f32")
    assert format_kernel(kernel) == (
        "kernel accumulate_add_f32(x: f32[], out: mut f32[])\n"
        "  var total: f32 = 1.0\n"
        "  for i in 0 .. 16, simd, accumulates add total:\n"
        "    total = total + x[i]\n"
        "  out[0] = total\n"
    )


def test_a_function_prints_its_lets_and_result() -> None:
    assert format_function(bf16_to_f32) == (
        "# The value of bf16 bits, exactly.\n"
        "function bf16_to_f32(x: u16) -> f32\n"
        "  let bits = u32(x) << 16\n"
        "  return bits_f32(bits)\n"
    )

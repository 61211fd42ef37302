"""Literals, names, parentheses and line breaks of the C text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlx.codegen.c.code import Code, Level, conditional, fit, infix, prefix, wrap
from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.c.names import free_name, function_name, variable_name
from rlx.codegen.c.spelling import literal
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Const, LoopKind, Prim, ValueType
from rlx.codegen.loops.passes.devectorize import devectorize


def spelled(value: float | bool, prim: Prim) -> str:
    return literal(Const(value, ValueType(prim)))


@pytest.mark.parametrize(
    ("value", "prim", "text"),
    [
        (1.0, Prim.F32, "1.0f"),
        (0.1, Prim.F32, "0.1f"),
        (-0.0, Prim.F64, "-0.0"),
        (1e30, Prim.F64, "1e30"),
        (math.inf, Prim.F32, "INFINITY"),
        (-math.inf, Prim.F64, "-(double)INFINITY"),
        (math.nan, Prim.F32, "NAN"),
        (True, Prim.BOOL, "true"),
        (-5, Prim.I32, "-5"),
        (-(2**31), Prim.I32, "INT32_MIN"),
        (-(2**63), Prim.I64, "INT64_MIN"),
        (2**32, Prim.I64, "INT64_C(4294967296)"),
        (7, Prim.U32, "7u"),
        (7, Prim.U64, "UINT64_C(7)"),
    ],
)
def test_literal_is_spelled_shortly(value: float, prim: Prim, text: str) -> None:
    assert spelled(value, prim) == text


def test_every_f32_literal_reads_back_as_the_same_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint32)
    for value in bits.view(np.float32):
        if np.isfinite(value):
            assert np.float32(spelled(float(value), Prim.F32).rstrip("f")) == value


def test_products_of_sums_get_parentheses_and_sums_of_products_do_not() -> None:
    a, b, c = Code("a"), Code("b"), Code("c")
    assert infix(infix(a, "+", b), "*", c).text == "(a + b) * c"
    assert infix(infix(a, "*", b), "+", c).text == "a * b + c"


def test_right_operands_keep_their_grouping() -> None:
    a, b, c = Code("a"), Code("b"), Code("c")
    assert infix(a, "-", infix(b, "-", c)).text == "a - (b - c)"
    assert infix(infix(a, "-", b), "-", c).text == "a - b - c"


def test_bitwise_operators_are_parenthesized_when_mixed() -> None:
    a, b, c = Code("a"), Code("b"), Code("c")
    assert infix(infix(a, "&", b), "|", c).text == "(a & b) | c"
    assert infix(infix(a, "|", b), "|", c).text == "a | b | c"
    assert conditional(infix(a, "|", b), c, c).text == "(a | b) ? c : c"


def test_masks_are_hexadecimal() -> None:
    k = KernelBuilder("masked")
    x, y = k.argument("x", Prim.I64), k.argument("y", Prim.I64, writable=True)
    k.store(y, 0, (k.load(x, 0) & 0xFFFFFFFF) ^ (k.load(x, 1) & 3))
    assert "y[0] = (x[0] & INT64_C(0xFFFFFFFF)) ^ (x[1] & 3);" in emit_kernel(k.build())


def test_two_minus_signs_are_separated() -> None:
    assert prefix("-", prefix("-", Code("x"))).text == "-(-x)"
    assert prefix("-", Code("-1", Level.UNARY)).text == "-(-1)"


def test_keywords_and_library_functions_are_renamed() -> None:
    assert variable_name("float") == "float_"
    assert variable_name("exp") == "exp"
    assert function_name("tanh") == "tanh_"
    assert free_name("end", {"end", "end_2"}) == "end_3"


def test_a_kernel_variable_called_begin_does_not_clash_with_the_bounds() -> None:
    k = KernelBuilder("copy")
    x = k.argument("begin", Prim.F32)
    y = k.argument("end", Prim.F32, writable=True)
    with k.loop("i", 4, kind=LoopKind.PARALLEL) as i:
        k.store(y, i, k.load(x, i))
    text = emit_kernel(k.build())
    assert "int64_t begin_2, int64_t end_2" in text
    assert "for (int64_t i = begin_2; i < end_2; ++i)" in text


def test_long_calls_break_between_arguments() -> None:
    lines = fit("function(", [f"argument_{i}" for i in range(12)], ");", "  ")
    assert all(len(line) <= 100 for line in lines)
    assert " ".join(line.strip() for line in lines).count("argument_") == 12
    assert lines[-1].endswith(");")


def test_a_comment_cannot_continue_onto_code() -> None:
    k = KernelBuilder("nothing")
    k.comment("ends in a backslash \\")
    assert "\\\n" not in emit_kernel(k.build(["so does this \\"]))


def test_long_statements_break_at_the_outermost_operator() -> None:
    terms = " + ".join(f"weight_{i} * value_{i}" for i in range(12))
    lines = wrap(f"  y = clamp({terms}, 0.0f) * scale;")
    assert all(len(line) <= 100 for line in lines)
    assert all(line.startswith("      + weight") for line in lines[1:-1])
    assert "".join(line.strip() for line in lines).replace(" ", "").count("*value") == 12


def test_sibling_loops_count_with_the_same_name() -> None:
    k = KernelBuilder("rows")
    y = k.argument("y", Prim.F32, writable=True)
    for _ in range(2):
        with k.loop("i", 4) as i, k.loop("j", 4) as j:
            k.store(y, i * 4 + j, 0.0)
    text = emit_kernel(k.build())
    assert text.count("for (int64_t i = 0; i < 4; ++i)") == 2
    assert "i_2" not in text


def test_nested_names_never_hide_each_other() -> None:
    k = KernelBuilder("hidden")
    x = k.argument("i", Prim.F32)
    y = k.argument("fmaf", Prim.F32, writable=True)
    with k.loop("i", 4) as outer, k.loop("i", 4) as inner:
        k.store(y, outer, k.load(x, inner))
    text = emit_kernel(k.build())
    assert "const float *restrict i, float *restrict fmaf_2" in text
    assert "fmaf_2[i_2] = i[i_3];" in text


def test_elements_are_updated_in_place() -> None:
    k = KernelBuilder("update")
    y = k.argument("y", Prim.F32, writable=True)
    with k.loop("i", 4) as i:
        k.store(y, i, k.load(y, i) * 2.0)
    assert "y[i] *= 2.0f;" in emit_kernel(k.build())


@pytest.mark.parametrize(("trips", "kept"), [(16, 0), (32, 1), (64, 1), (65, 0)])
def test_inner_loops_that_clang_would_unroll_before_it_makes_vectors_are_kept(
    trips: int, kept: int
) -> None:
    """One vector needs no loop, and many iterations are not unrolled."""
    k = KernelBuilder("outer")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    with k.loop("row", 9) as row, k.loop("i", trips, kind=LoopKind.SIMD) as i:
        k.store(y, row * trips + i, k.load(x, row) * 2.0)
    with k.loop("i", 32, kind=LoopKind.SIMD) as i:
        k.store(y, i, k.load(x, i))
    assert emit_kernel(k.build()).count("#pragma omp simd\n    ROLLED\n") == kept
    assert emit_kernel(k.build()).count("ROLLED") == kept


def test_a_lane_and_an_argument_of_the_same_spelling_differ() -> None:
    k = KernelBuilder("lanes")
    source = k.argument("x_0", Prim.F32)
    target = k.argument("y", Prim.F32, writable=True)
    x = k.let("x", k.load(source, 0, 2))
    k.store(target, 0, x + x)
    assert "const float x_0_2 = x_0[0];" in emit_kernel(devectorize(k.build()))


def test_an_extent_that_bounds_the_shared_loop_alone_is_no_unused_parameter() -> None:
    """The caller of the kernel computes the loop's bounds: strict compilers warned of it."""
    k = KernelBuilder("fill")
    y, n = k.argument("y", Prim.F32, writable=True), k.scalar("n")
    with k.loop("i", n, kind=LoopKind.PARALLEL) as i:
        k.store(y, i, 1.0)
    assert "(void)n;" in emit_kernel(k.build([]))

"""What `dot_bf16` means: two exact products, added one after the other in f32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rlx.codegen.loops.evaluate import evaluate
from rlx.codegen.loops.expr import E, dot_bf16
from rlx.codegen.loops.nodes import Prim, ValueType, Var
from rlx.codegen.loops.verify_expressions import expression_faults

Array = np.ndarray[Any, Any]
NAMES = {"a": Prim.U32, "b": Prim.U32, "c": Prim.F32}


def variable(name: str, lanes: int) -> E:
    return E(Var(name, ValueType(NAMES[name], lanes)))


def words(low: Array, high: Array) -> Array:
    lower, upper = (half.view(np.uint16).astype(np.uint32) for half in (low, high))
    return lower | upper << 16


def test_upper_halves_come_first_and_each_sum_is_rounded() -> None:
    random = np.random.default_rng(0)
    halves = random.standard_normal((4, 64)).astype(ml_dtypes.bfloat16)
    c = random.standard_normal(64).astype(np.float32) * 1000
    (low, high), (other_low, other_high) = halves[:2], halves[2:]
    given = {"a": words(low, high), "b": words(other_low, other_high), "c": c}
    expr = dot_bf16(*(variable(name, 64) for name in "abc"))
    low, high, other_low, other_high = halves.astype(np.float32)
    expected = (c + high * other_high) + low * other_low
    assert np.any(expected != (c + low * other_low) + high * other_high)
    np.testing.assert_array_equal(evaluate(expr.node, given), expected)


def test_operands_are_words_and_the_sum_is_f32() -> None:
    a, c = variable("a", 4), variable("c", 4)
    assert not list(expression_faults(dot_bf16(a, a, c).node))
    (fault,) = expression_faults(dot_bf16(c, a, c).node)
    assert "dot_bf16 does not take" in fault

"""Random smooth programs: tangents match differences, cotangents match tangents, twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from rlx.ir import ops
from rlx.ir.graph import Value
from tests.passes.autodiff.checking import Case, check_first_order, check_second_order, tensors

Step = Callable[[Value, Value], Value]

# Every step takes and gives [3, 3] matrices of moderate size, so that steps compose freely.
STEPS: dict[str, Step] = {
    "sin": lambda a, _: ops.sin(a), "tanh": lambda a, _: ops.tanh(a),
    "gelu": lambda a, _: ops.gelu(a), "bounded exp": lambda a, _: ops.exp(ops.tanh(a)),
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * ops.tanh(b),
    "square": lambda a, _: ops.tanh(a) * ops.tanh(a), "div": lambda a, b: a / (2.0 + ops.sin(b)),
    "matmul": lambda a, b: ops.tanh(a @ b), "softmax": lambda a, _: ops.softmax(a, axis=0),
    "log_softmax": lambda a, _: ops.log_softmax(a, axis=-1),
    "center": lambda a, _: a - ops.reduce_mean(a, axes=(1,), keepdims=True),
    "row sum": lambda a, b: ops.reduce_sum(a, axes=(0,)) * 0.3 + b,
    "product": lambda a, b: ops.tanh(ops.reduce_prod(a, axes=(1,), keepdims=True)) + b,
    "transpose": lambda a, _: ops.transpose(a, perm=(1, 0)),
    "reshape": lambda a, b: middle_rows(ops.reshape(ops.concat(a, b, axis=1), shape=(6, 3))),
    "cumsum": lambda a, _: ops.tanh(ops.cumsum(a, axis=1)),
    "gather": lambda a, _: ops.gather(a, a.graph.constant(np.array([2, 0, 2])), axis=1),
    "norm": lambda a, b: ops.layer_norm(a, row(b), row(a), axis=-1, eps=0.1),
}  # fmt: skip


def middle_rows(x: Value) -> Value:
    return ops.narrow(x, axis=0, start=2, length=3)


def row(x: Value) -> Value:
    return ops.reshape(ops.narrow(x, axis=0, start=1, length=1), shape=(3,))


programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=7,
)


def program(steps: list[tuple[str, int, int]]) -> Any:
    """Return the function that applies each step to two of the values made so far."""

    def build(*inputs: Value) -> Value:
        values = list(inputs)
        for name, left, right in steps:
            values.append(STEPS[name](values[-1 - left % len(values)], values[right % len(values)]))
        return values[-1]

    return build


@pytest.mark.parametrize("part", range(4))
def test_derivatives_of_a_random_program_hold_in_both_modes_and_orders(part: int) -> None:
    @seed(part)
    @settings(
        max_examples=15,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(programs)
    def hold(steps: list[tuple[str, int, int]]) -> None:
        case = Case("random", program(steps), tensors(17, (3, 3), (3, 3)), tolerance=1e-5)
        check_first_order(case)
        check_second_order(case)

    hold()

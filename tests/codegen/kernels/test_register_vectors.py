"""Library functions of many elements of a body in registers are one vector loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlx.codegen.c.emit import emit_kernel
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import everywhere, graph_of

Step = Callable[[Value], Value]


def turning(step: Step, size: int) -> Graph:
    """Return a scan whose carry changes places after `step`, so that instances mix."""

    def body(c: Value) -> list[Value]:
        following = ops.reverse(step(c), axes=(0,))
        return [following, ops.reduce_sum(following, axes=(0,))]

    inner = graph_of("body", {"c": ((size,), "f64")}, body)

    def loop(c: Value) -> list[Value]:
        return list(ops.scan(c, body=inner, length=5, num_carries=1))

    return graph_of("turning", {"c": ((size,), "f64")}, loop)


STEPS: dict[str, Step] = {
    "one operand": lambda c: ops.tanh(c * 1.5),
    "a shared operand": lambda c: ops.pow(c, ops.reduce_max(c, axes=(0,))),
    "two operands": lambda c: ops.atan2(c, ops.reverse(c, axes=(0,))),
    "one after the other": lambda c: ops.log(ops.exp(c) + 1.0),
}


@pytest.mark.parametrize("name", STEPS)
def test_elements_from_a_vector_loop_are_those_of_scalars(name: str) -> None:
    everywhere(turning(STEPS[name], 11), {"c": np.linspace(0.1, 2.0, 11)})


def test_many_elements_are_one_loop_and_a_few_are_written_out() -> None:
    assert "tanh[i] = tanh_f64(c[i] * 1.5);" in kernel_of(turning(STEPS["one operand"], 8))
    assert "for (int64_t i" not in kernel_of(turning(STEPS["one operand"], 4))


def kernel_of(graph: Graph) -> str:
    (kernel,) = lower_for(graph, detect_target()).kernels.values()
    return emit_kernel(kernel)

"""Loops in registers read as a person would write them."""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.c.emit import emit_kernel
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff import grad_with_loss
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import Types, graph_of

Golden = Callable[[str, str], None]


def pendulum(length: int) -> Graph:
    """Angle and velocity under gravity `k`, in steps of a hundredth."""
    types: Types = {"angle": ((), "f64"), "speed": ((), "f64"), "k": ((), "f64")}

    def step(angle: Value, speed: Value, k: Value) -> list[Value]:
        faster = speed - k * ops.sin(angle) * 0.01
        return [angle + faster * 0.01, faster]

    body = graph_of("step", types, step)

    def loss(*given: Value) -> Value:
        results = ops.scan(*given, body=body, length=length, num_carries=2, num_consts=1)
        angle: Value = results[0]
        return angle

    return graph_of("pendulum", types, loss)


def kernels_of(graph: Graph) -> list[str]:
    program = lower_for(graph, detect_target())
    return [emit_kernel(kernel) for kernel in program.kernels.values() if "scan" in kernel.name]


def without_lines(text: str) -> str:
    """Leave out the comment that names this file's lines: it changes with every edit."""
    kept = [line for line in text.splitlines() if not line.startswith("// at ")]
    return "\n".join(kept) + "\n"


def test_a_scan_is_one_short_loop(golden: Golden) -> None:
    (text,) = kernels_of(pendulum(1000))
    golden("scan_pendulum.c", without_lines(text))


def test_the_gradient_of_a_scan_is_one_short_loop(golden: Golden) -> None:
    recording, backward = kernels_of(grad_with_loss(pendulum(1000), ["angle", "k"]))
    golden("scan_pendulum_vjp.c", without_lines(backward))
    assert recording.count("for (") == backward.count("for (") == 1

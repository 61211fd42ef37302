"""Loops over little matrices: they read as short loops, and compute what bodies mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.codegen.c.emit import emit_kernel
from rlx.codegen.loops.nodes import Declare, Let
from rlx.codegen.loops.visit import walk
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff import grad_with_loss
from rlx.runtime.lower import lower_for
from rlx.target import detect_target, named_target
from tests.loop_programs import Types, cell, everywhere, graph_of

Golden = Callable[[str, str], None]
Step = Callable[..., list[Value]]


def looped(types: Types, step: Step, *, carries: int, consts: int, **attributes: Any) -> Graph:
    """Return a graph that scans `step` over seven rows."""
    body = graph_of("step", types, step)
    rows = list(types)[carries + consts :]
    outer = {n: ((7, *shape), d) if n in rows else (shape, d) for n, (shape, d) in types.items()}

    def loop(*given: Value) -> list[Value]:
        results = ops.scan(
            *given, body=body, length=7, num_carries=carries, num_consts=consts, **attributes
        )
        return list(results)

    return graph_of("looped", outer, loop)


def feeds_of(graph: Graph) -> dict[str, Any]:
    random = np.random.default_rng(4)
    return {
        str(leaf.node.name): 0.4 * random.standard_normal(leaf.type.static_shape)
        for leaf in graph.inputs
    }


def affine(c: Value, turn: Value, push: Value) -> list[Value]:
    return [ops.matmul(c, turn) + push]


def filtered(mean: Value, spread: Value, f: Value, noise: Value, seen: Value) -> list[Value]:
    """A step of a filter: a vector, a matrix, transposes, and what several read."""
    ahead = ops.matmul(ops.matmul(f, spread), ops.transpose(f, perm=(1, 0))) + noise
    gain = ops.tanh(ahead)
    moved = ops.matmul(f, mean)
    return [moved + ops.matmul(gain, seen - moved), ahead - gain * ahead, moved]


def counted(count: Value, c: Value, w: Value, x: Value) -> list[Value]:
    """A scalar next to the matrices, a row of another shape, and a carry that stays."""
    wide = ops.matmul(c, w) * count + ops.expand(x, shape=(2, 3))
    return [count + 1.0, wide, ops.reshape(ops.matmul(wide, w), shape=(2, 1, 3))]


def swapped(a: Value, b: Value, w: Value) -> list[Value]:
    return [ops.matmul(b, w), a]


def summed(c: Value, w: Value) -> list[Value]:
    """Sums and extremes over both short axes."""
    total, most = ops.reduce_sum(c * c, axes=(0, 1)), ops.reduce_max(c, axes=(0, 1))
    return [ops.matmul(c, w) * 0.2 + total * 0.01 - most]


M: tuple[tuple[int, ...], str] = ((3, 3), "f64")
PROGRAMS: dict[str, tuple[Types, Step, int, int]] = {
    "affine": ({"c": M, "turn": M, "push": M}, affine, 1, 2),
    "filtered": (
        {"mean": ((3, 1), "f64"), "spread": M, "f": M, "noise": M, "seen": ((3, 1), "f64")},
        filtered,
        2,
        2,
    ),
    "counted": (
        {"count": ((), "f64"), "c": ((2, 3), "f64"), "w": M, "x": ((3,), "f64")},
        counted,
        2,
        1,
    ),
    "summed": ({"c": M, "w": M}, summed, 1, 1),
    "swapped": ({"a": M, "b": M, "w": M}, swapped, 2, 1),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bodies_compute_what_they_mean(name: str, reverse: bool) -> None:
    types, step, carries, consts = PROGRAMS[name]
    graph = looped(types, step, carries=carries, consts=consts, reverse=reverse)
    everywhere(graph, feeds_of(graph))
    assert_small(graph)


def assert_small(graph: Graph) -> None:
    """One loop over steps, and no element spelled out by its number."""
    texts = kernels_of(graph)
    assert len(texts) == 1
    for text in texts:
        assert text.count("step <") == 1
        assert "c00" not in text
        assert len(text.splitlines()) < 100


def rotation() -> Graph:
    """Return the sum of squares of a 3x3 matrix after ten thousand affine steps."""
    types: Types = {"first": M, "turn": M, "push": M}
    body = graph_of("step", {"c": M, "turn": M, "push": M}, affine)

    def loss(*given: Value) -> Value:
        last = ops.scan(*given, body=body, length=10_000, num_carries=1, num_consts=2)[0]
        return ops.reduce_sum(last * last, axes=(0, 1))

    return graph_of("rotation", types, loss)


def test_a_scan_of_a_matrix_is_one_short_loop(golden: Golden) -> None:
    (text,) = kernels_of(rotation())
    golden("scan_3x3.c", without_lines(text))


def test_the_gradient_of_a_scan_of_a_matrix_is_one_short_loop(golden: Golden) -> None:
    recording, backward = kernels_of(grad_with_loss(rotation(), ["first", "turn", "push"]))
    golden("scan_3x3_recording.c", without_lines(recording))
    golden("scan_3x3_vjp.c", without_lines(backward))


def driven(size: int) -> Graph:
    """Return a scan of a state through a matrix of `size` rows."""
    body = cell(size)

    def loop(*given: Value) -> list[Value]:
        return list(ops.scan(*given, body=body, length=7, num_carries=1, num_consts=1))

    types = {"c": ((size,), "f64"), "w": ((size, size), "f64"), "x": ((7, size), "f64")}
    return graph_of("driven", types, loop)


def scalars(size: int, target: str) -> int:
    """Return how many scalars the kernel of `driven` names."""
    kernels = lower_for(driven(size), named_target(target)).kernels.values()
    (kernel,) = [kernel for kernel in kernels if "scan" in kernel.name]
    return sum(isinstance(s, (Let, Declare)) for s in walk(kernel.body))


@pytest.mark.parametrize(
    ("target", "registers"), [("portable", 16), ("x86-64-v4", 32), ("riscv64", 32), ("arm", 32)]
)
def test_values_beyond_the_registers_of_a_target_are_arrays(target: str, registers: int) -> None:
    for size in (5, 6):
        found, elements = scalars(size, target), size * size
        assert (found < elements) == (elements > registers)


def test_a_body_of_arrays_computes_what_it_means() -> None:
    graph = driven(8)
    everywhere(graph, feeds_of(graph))


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

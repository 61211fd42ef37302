"""Large inputs are read and large results written in the caller's memory."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.ir.graph import Graph
from rlx.runtime.io_binding import IoBindingExecutable
from rlx.runtime.native import function_at, pointer_to

pytestmark = pytest.mark.usefixtures("way")

ROWS, COLUMNS = 256, 257


def scaled(backend: str, threads: int) -> IoBindingExecutable:
    g = Graph("scaled")
    x = g.input("x", (ROWS, COLUMNS))
    total = g.reduce_sum(x, axes=(1,))
    g.set_outputs([x * g.param("w", (COLUMNS,)), total])
    params = {"w": np.full(COLUMNS, 2.0, np.float32)}
    program = rlx.compile(g, backend=backend, threads=threads, params=params)
    assert isinstance(program, IoBindingExecutable)
    return program


def sample() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("threads", [1, 2])
def test_large_arrays_are_bound_and_small_ones_copied(backend: str, threads: int) -> None:
    program, x = scaled(backend, threads), sample()
    assert program.threads == threads
    doubled, total = program(x)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-4, atol=1e-4)
    graph, slots = program.plan.graph, program.plan.slots
    for value, given, is_copied in (
        (graph.inputs[0], x, False), (graph.outputs[0], doubled, False),
        (graph.outputs[1], total, True),
    ):  # fmt: skip
        there = program.arena.view(slots[value].offset, value.dtype, given.shape)
        assert np.array_equal(there, given) == is_copied


def test_inputs_that_are_not_contiguous_are_copied() -> None:
    x = np.asfortranarray(sample())
    doubled, _ = scaled("llvm", 1)(x)
    np.testing.assert_array_equal(doubled, 2 * x)


def test_inputs_are_never_written() -> None:
    x = sample()
    x.setflags(write=False)
    before = x.copy()
    scaled("llvm", 1)(x)
    np.testing.assert_array_equal(x, before)


def test_results_keep_their_values_while_anyone_holds_them_or_a_part() -> None:
    program, x = scaled("llvm", 1), sample()
    parts = [program(x + step)[0][1:, 3] for step in range(5)]
    for step, part in enumerate(parts):
        np.testing.assert_array_equal(part, 2 * (x + np.float32(step))[1:, 3])


def test_memory_of_unreferenced_results_is_reused() -> None:
    program, x = scaled("llvm", 1), sample()
    places = {program(x)[0].ctypes.data for _ in range(4)}
    assert len(places) == 1


def test_a_result_may_be_the_next_input() -> None:
    program, x = scaled("llvm", 1), sample()
    y = x
    for _ in range(4):
        y, _ = program(y)
    np.testing.assert_array_equal(y, 16 * x)


def test_the_raw_entry_still_finds_everything_in_the_arena() -> None:
    program, x = scaled("llvm", 1), sample()
    program(np.zeros_like(x))
    slots, graph = program.plan.slots, program.plan.graph
    leaf, output = graph.inputs[0], graph.outputs[0]
    program.arena.view(slots[leaf].offset, leaf.dtype, x.shape)[...] = x
    run = function_at(program.address, "int (*)(uint8_t *)")
    assert run(pointer_to(program.arena.address)) == 0
    view = program.arena.view(slots[output].offset, output.dtype, x.shape)
    np.testing.assert_array_equal(view, 2 * x)

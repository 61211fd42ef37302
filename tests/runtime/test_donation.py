"""What an output replaces stays where it is: params as state, arguments in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.runtime.io_binding import IoBindingExecutable
from rlx.runtime.native import function_at, pointer_to

pytestmark = pytest.mark.usefixtures("way")

ROWS, COLUMNS = 128, 160
"""More than 64 KiB: smaller params are copied out of the arena."""


def counter(backend: str = "llvm", threads: int = 1) -> IoBindingExecutable:
    """A step that adds `x` to its param."""
    g = Graph("counter")
    x = g.input("x", (ROWS, COLUMNS))
    total = g.param("total", (ROWS, COLUMNS))
    replaced = total + x
    g.set_outputs([g.reduce_sum(x, axes=(0, 1)), replaced], donated={total: replaced})
    params = {"total": np.zeros((ROWS, COLUMNS), np.float32)}
    program = rlx.compile(g, backend=backend, threads=threads, params=params)
    assert isinstance(program, IoBindingExecutable)
    return program


ONES = np.ones((ROWS, COLUMNS), np.float32)


# Params


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_donated_param_is_updated_by_every_call(backend: str, threads: int) -> None:
    program = counter(backend, threads)
    for step in range(4):
        _, total = program(ONES)
        assert (total == step + 1).all()
    assert (program.params["total"] == 4).all()


def test_unreferenced_state_stays_in_place() -> None:
    program = counter()
    assert len({program(ONES)[1].ctypes.data for _ in range(4)}) == 1


def test_state_that_is_held_keeps_its_values() -> None:
    program = counter()
    parts = [program(ONES)[1][1:, 3] for _ in range(4)]
    assert [part[0] for part in parts] == [1, 2, 3, 4]


def test_state_is_shown_read_only() -> None:
    _, total = counter()(ONES)
    with pytest.raises(ValueError, match="read-only"):
        total[0] = 7


def test_a_param_that_is_set_leaves_the_last_result_alone() -> None:
    program = counter()
    _, total = program(ONES)
    program.set_param("total", 10 * ONES)
    assert (total == 1).all()
    assert (program(ONES)[1] == 11).all()


def test_state_may_be_fed_back_as_an_input() -> None:
    program = counter()
    _, total = program(ONES)
    _, doubled = program(total)
    assert (total == 1).all()
    assert (doubled == 2).all()


def test_a_clone_has_state_of_its_own() -> None:
    program = counter()
    program(ONES)
    other = program.clone()
    other(ONES)
    assert (program.params["total"] == 1).all()
    assert (other.params["total"] == 2).all()


def test_state_goes_back_to_the_arena_for_the_raw_entry() -> None:
    program = counter()
    program(ONES)
    run = function_at(program.address, "int (*)(uint8_t *)")
    slot = program.plan.slots[program.plan.graph.inputs[0]]
    program.arena.view(slot.offset, program.plan.graph.inputs[0].dtype, ONES.shape)[...] = ONES
    assert run(pointer_to(program.arena.address)) == 0
    assert (program.params["total"] == 2).all()
    assert (program(ONES)[1] == 3).all()


# Arguments


def stepped(shape: tuple[int, ...], **options: Any) -> tuple[Any, Any]:
    """Return a jitted step over a tree, the tree donated, and a first tree."""

    def step(state: Any, x: Any) -> Any:
        return {"mean": state["mean"] * 0.5 + x, "count": state["count"] + 1.0}, rnp.sum(x)

    state = {"mean": np.zeros(shape, np.float32), "count": np.zeros((), np.float32)}
    return rlx.jit(step, donate_argnums=0, **options), state


SHAPES = [(4,), (ROWS, COLUMNS)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"backend": "c"}])
def test_arguments_that_are_results_are_overwritten_and_returned(
    shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    step, first = stepped(shape, **options)
    x = np.ones(shape, np.float32)
    one, _ = step(first, x)
    two, total = step(one, x)
    assert two["mean"] is one["mean"]
    assert two["count"] is one["count"]
    assert (two["mean"] == 1.5).all()
    assert two["count"] == 2
    assert total == x.size


@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_of_the_caller_are_never_written(shape: tuple[int, ...]) -> None:
    step, first = stepped(shape)
    x = np.ones(shape, np.float32)
    one, _ = step(first, x)
    other, _ = step(first, x)
    assert (first["mean"] == 0).all()
    assert not np.shares_memory(one["mean"], other["mean"])
    view = {"mean": other["mean"][:], "count": other["count"]}
    two, _ = step(view, x)
    assert (view["mean"] == 1).all()
    assert (two["mean"] == 1.5).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_donated_twice_is_overwritten_once(shape: tuple[int, ...]) -> None:
    step = rlx.jit(lambda a, b: (a + 1.0, b * 10.0), donate_argnums=(0, 1))
    a, _ = step(np.ones(shape, np.float32), np.ones(shape, np.float32))
    more, tenfold = step(a, a)
    assert more is a
    assert (more == 3).all()
    assert (tenfold == 20).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_donated_array_may_also_be_read(shape: tuple[int, ...]) -> None:
    step = rlx.jit(lambda a, x: (a + x[::-1] * 2.0, rnp.sum(a)), donate_argnums=0)
    start = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    a, _ = step(start, np.zeros(shape, np.float32))
    result, _ = step(a, a)
    np.testing.assert_array_equal(result, start + start[::-1] * 2)


def test_results_of_one_function_may_be_donated_to_another() -> None:
    step, state = stepped((4,))
    double = rlx.jit(lambda a: a * 2.0, donate_argnums=0)
    state, _ = step(state, np.ones(4, np.float32))
    assert double(state["mean"]) is state["mean"]
    assert (state["mean"] == 2).all()


def test_a_result_whose_shape_was_changed_is_refused_or_compiled_anew() -> None:
    step = rlx.jit(lambda a: a + 1.0, donate_argnums=0)
    a = step(np.zeros((2, 3), np.float32))
    flat = a.reshape(6)
    assert step(flat).shape == (6,)
    assert (a == 1).all()


def test_a_result_that_is_read_only_is_copied() -> None:
    step = rlx.jit(lambda a: a + 1.0, donate_argnums=0)
    a = step(np.zeros(4, np.float32))
    a.setflags(write=False)
    assert (step(a) == 2).all()
    assert (a == 1).all()


def donating(shape: tuple[int, ...]) -> tuple[Any, Any]:
    step = rlx.jit(lambda a: a + 1.0, donate_argnums=0)
    return step, step(np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_of_which_a_view_is_held_is_copied(shape: tuple[int, ...]) -> None:
    step, a = donating(shape)
    views = [a[1:], a.T, a.reshape(-1)[::2][1:]]
    for _ in range(3):  # the long way and the short one
        b = step(a)
        assert b is not a
        assert all((view == 1).all() for view in views)
        assert (b == 2).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_whose_views_are_gone_is_overwritten_again(shape: tuple[int, ...]) -> None:
    step, a = donating(shape)
    for _ in range(4):
        part = a[1:]
        assert (part == part).all()
        del part
        assert step(a) is a
    assert (a == 5).all()


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_an_input_declared_behind_the_output_that_replaces_it(backend: str) -> None:
    g = Graph("late")
    total = g.input("x", (4,)) + 1.0
    z = g.input("z", (4,))
    g.set_outputs([total], donated={z: total})
    (result,) = rlx.compile(g, backend=backend)(np.ones(4, np.float32), np.zeros(4, np.float32))
    assert (result == 2).all()


@pytest.mark.parametrize("number", [2, 7, -3])
def test_a_donated_argument_that_is_not_there_is_refused(number: int) -> None:
    step = rlx.jit(lambda a, b: (a + 1.0, b + 1.0), donate_argnums=number)
    with pytest.raises(InputError, match=f"donate_argnums names argument {number}"):
        step(np.ones(4), np.ones(4))


def test_donated_arguments_count_from_the_end_too() -> None:
    step = rlx.jit(lambda a, b: a + b, donate_argnums=-1)
    b = step(np.ones(4), np.ones(4))
    assert step(np.ones(4), b) is b

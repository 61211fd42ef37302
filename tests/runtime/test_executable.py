"""Calls from Python: checks, results, faults, params, symbolic extents, concurrency."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.llvm.jit import LlvmBackend
from rlx.errors import IndexOutOfRangeError, InputError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime import threads as pool
from rlx.runtime.backend import Loader
from rlx.runtime.c_backend import CBackend
from rlx.runtime.cache import Cache
from rlx.runtime.executable import Executable
from rlx.runtime.toolchain import has_toolchain
from rlx.target import detect_target
from tests.runtime.programs import (
    HandBuilt,
    hand_built,
    prefix_sum_kernel,
    scale_and_gather,
    scale_kernel,
)

pytestmark = pytest.mark.usefixtures("way")

Array = NDArray[Any]
Make = Callable[..., Executable]
INDICES = np.array([0, 511, 3, 3])


@pytest.fixture(scope="session", params=["c", "llvm"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loader:
    if request.param == "llvm":
        return LlvmBackend()
    if not has_toolchain():
        pytest.skip("there is no C compiler")
    return CBackend(cache=Cache(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def make(backend: Loader) -> Make:
    def build(program: HandBuilt, **options: Any) -> Executable:
        native = backend.load(program.module, detect_target())
        return Executable(program.graph, program, native, **options)

    return build


def rows(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((64, 512)).astype(np.float32)


def tiny() -> HandBuilt:
    graph = Graph("tiny")
    x = graph.input("x", (2, 3))
    y = graph.square(x)
    graph.set_outputs([y])
    return hand_built(graph, {y.node: scale_kernel(2, 3)})


def with_param() -> HandBuilt:
    graph = Graph("with_param")
    w = graph.param("w", (2, 3))
    y = graph.square(w)
    graph.set_outputs([y])
    return hand_built(graph, {y.node: scale_kernel(2, 3)})


def symbolic() -> HandBuilt:
    graph = Graph("symbolic")
    x = graph.input("x", (Dim("n", max=16, min=1),))
    y = graph.reduce_sum(x, axes=(0,))
    graph.set_outputs([y])
    return hand_built(graph, {y.node: prefix_sum_kernel()})


ONES = np.ones((2, 3), np.float32)


def test_inputs_go_by_position_by_name_and_by_feeds(make: Make) -> None:
    f = make(tiny())
    for (y,) in (f(ONES), f(x=ONES), f.run({"x": ONES})):
        np.testing.assert_array_equal(y, 3 * ONES)


def test_results_are_not_overwritten_by_the_next_call(make: Make) -> None:
    f = make(tiny())
    (first,) = f(ONES)
    f(ONES * 0)
    np.testing.assert_array_equal(first, 3 * ONES)


def test_strided_read_only_and_nested_list_inputs_are_taken(make: Make) -> None:
    f = make(tiny())
    read_only = ONES.copy()
    read_only.setflags(write=False)
    for given in (np.ones((3, 2), np.float32).T, read_only, [[1, 1, 1], [1, 1, 1]]):
        np.testing.assert_array_equal(f(given)[0], 3 * ONES)


def test_nan_passes_through(make: Make) -> None:
    x = ONES.copy()
    x[1, 1] = np.nan
    (y,) = make(tiny())(x)
    assert np.isnan(y[1, 1])
    assert np.isnan(y).sum() == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "inputs missing 'x'"),
        ({"x": ONES, "z": ONES}, "inputs unknown 'z'"),
        ({"x": ONES.astype(np.float64)}, "input 'x' has dtype float64; it must be f32"),
        ({"x": ONES.T}, r"input 'x' has shape \(3, 2\); it must be \(2, 3\)"),
        ({"x": "text"}, "input 'x' of type str is not an array"),
    ],
)
def test_wrong_inputs_are_refused_before_the_call(
    make: Make, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        make(tiny())(**given)


def test_an_input_given_twice_and_too_many_inputs_are_refused(make: Make) -> None:
    f = make(tiny())
    with pytest.raises(InputError, match="input 'x' is given twice"):
        f(ONES, x=ONES)
    with pytest.raises(InputError, match="takes 1 inputs and was given 2"):
        f(ONES, ONES)


def test_an_unset_param_is_named_and_set_params_are_used(make: Make) -> None:
    f = make(with_param())
    with pytest.raises(InputError, match="params not set: 'w'"):
        f()
    f.set_param("w", ONES)
    np.testing.assert_array_equal(f()[0], 3 * ONES)
    f.set_param("w", 2 * ONES)
    np.testing.assert_array_equal(f()[0], 5 * ONES)
    np.testing.assert_array_equal(f.params["w"], 2 * ONES)


def test_wrong_params_are_refused(make: Make) -> None:
    f = make(with_param())
    with pytest.raises(InputError, match="param 'w' has shape"):
        f.set_param("w", np.ones(3, np.float32))
    with pytest.raises(InputError, match=r"no param 'v'\n.*'w'"):
        f.set_param("v", ONES)


def test_a_clone_has_the_same_params_and_an_arena_of_its_own(make: Make) -> None:
    f = make(with_param(), params={"w": ONES})
    g = f.clone()
    g.set_param("w", 4 * ONES)
    np.testing.assert_array_equal(f()[0], 3 * ONES)
    np.testing.assert_array_equal(g()[0], 9 * ONES)
    assert f.arena.address != g.arena.address


@pytest.mark.parametrize("n", [1, 5, 16])
def test_symbolic_extents_are_bound_by_the_shapes(make: Make, n: int) -> None:
    (total,) = make(symbolic())(np.arange(n, dtype=np.float32))
    assert total.shape == ()
    assert total == n * (n - 1) / 2


@pytest.mark.parametrize("n", [0, 17])
def test_extents_outside_their_bounds_are_refused(make: Make, n: int) -> None:
    with pytest.raises(InputError, match=rf"extent n = {n} is outside its bounds \[1, 16\]"):
        make(symbolic())(np.zeros(n, np.float32))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_fault_names_the_op_its_line_and_the_position(make: Make, threads: int) -> None:
    f = make(scale_and_gather(threads=True), threads=threads)
    with pytest.raises(IndexOutOfRangeError, match=r"gather: .* position 2") as caught:
        f(rows(), np.array([0, 1, 512, -1]))
    assert caught.value.source is not None
    assert caught.value.source.file.endswith("programs.py")
    sums, picked = f(rows(), INDICES)
    np.testing.assert_array_equal(picked, sums[INDICES])


def test_the_raw_address_runs_on_the_executables_arena(make: Make) -> None:
    f = make(tiny())
    f(ONES)
    slots, graph = f.plan.slots, f.plan.graph
    x, y = (
        f.arena.view(slots[value].offset, value.dtype, ONES.shape)
        for value in (graph.inputs[0], graph.outputs[0])
    )
    x[...] = 2 * ONES
    run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(f.address)
    assert run(f.arena.address) == 0
    np.testing.assert_array_equal(y, 5 * ONES)


def test_both_texts_can_be_read_whichever_backend_runs(make: Make) -> None:
    f = make(tiny())
    assert "int tiny_run(uint8_t *arena)" in f.c_source
    assert "define" in f.llvm_ir
    assert f.schedule.name == "tiny"
    assert f.plan.graph.name == "tiny"


def test_results_have_the_same_bits_for_any_number_of_threads(make: Make) -> None:
    program = scale_and_gather(threads=True)
    x = rows()
    expected = [result.tobytes() for result in make(program)(x, INDICES)]
    for threads in (2, 3):
        f = make(program, threads=threads)
        for _ in range(20):
            assert [result.tobytes() for result in f(x, INDICES)] == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_on_workers_of_its_own(make: Make) -> None:
    f = make(scale_and_gather(threads=True), threads=2)
    x = rows()
    expected = [y.tobytes() for y in f(x, INDICES)]
    child = os.fork()
    if child == 0:
        signal.alarm(100)  # what waits for its parent's workers waits forever
        same = [y.tobytes() for y in f(x, INDICES)] == expected
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_calls_from_several_threads_do_not_mix(make: Make) -> None:
    program = scale_and_gather(threads=True)
    shared = make(program, threads=2)
    own = [make(program, threads=2) for _ in range(2)]
    wrong: list[int] = []

    def call(number: int) -> None:
        x = rows(number)
        expected = (2 * x + 1).sum(axis=0)
        for f in (shared, own[number % 2]) * 10:
            if not np.allclose(f(x, INDICES)[0], expected, rtol=1e-4, atol=1e-3):
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


class InterruptError(Exception):
    """What a signal raises, at whatever place the program is."""


def raise_interrupt(*_: object) -> None:
    raise InterruptError


@pytest.fixture
def crowd() -> Iterator[None]:
    """Another thread that wants the interpreter: calls wait in places where they rarely do."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(50))

    thread = threading.Thread(target=spin)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread.start()
    yield
    stop.set()
    thread.join()
    sys.setswitchinterval(interval)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_releases_all_locks(make: Make, threads: int) -> None:
    f = make(scale_and_gather(threads=True), threads=threads)
    x = rows()
    before = signal.signal(signal.SIGALRM, raise_interrupt)
    try:
        for _ in range(150):
            with contextlib.suppress(InterruptError):
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                for _ in range(50_000):
                    f(x, INDICES)
            assert not f._lock._is_owned()  # no other thread calls `f`
            assert not pool._busy.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Memory of results: used again, bounded over all executables, and given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import rlx
import rlx.runtime.result_memory as memory
from rlx.runtime.result_memory import ArrayKind, ResultMemory, kept_bytes

KIND = ArrayKind((1 << 18,), np.dtype(np.float32))
SIZE = KIND.memory_size


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep at most four blocks of `KIND`; what other tests left is older and would go first."""
    monkeypatch.setattr(memory, "_memories", {})
    monkeypatch.setattr(memory, "MOST_KEPT", 4 * SIZE)


def run(result: ResultMemory, value: float) -> np.ndarray:
    """Do what a run does: take memory, write, show."""
    result.take()
    array = result.show()
    array[...] = value
    return array


def test_two_blocks_serve_a_loop_that_holds_the_last_result() -> None:
    result = ResultMemory(KIND)
    addresses = set()
    last = None
    for step in range(10):
        last = run(result, step)
        addresses.add(last.ctypes.data)
    assert last is not None
    assert len(addresses) == 2
    assert last[0] == 9


def test_what_is_kept_over_many_results_is_bounded() -> None:
    before = kept_bytes()
    results = [ResultMemory(KIND) for _ in range(20)]
    for result in results:
        for _ in range(2):
            held = run(result, 1.0), run(result, 2.0)
            del held
            assert kept_bytes() <= before + 4 * SIZE
    assert [result.kept // SIZE for result in results[-3:]] == [0, 2, 2]


def test_what_was_used_longest_ago_is_given_back_first() -> None:
    first, second, third = (ResultMemory(KIND) for _ in range(3))
    for result in (first, second):
        held = run(result, 1.0), run(result, 2.0)
        del held
    run(first, 3.0)
    run(third, 1.0)
    assert [result.kept // SIZE for result in (first, second, third)] == [2, 1, 1]


def test_arrays_keep_their_values_when_their_memory_is_no_longer_kept() -> None:
    results = [ResultMemory(KIND) for _ in range(10)]
    arrays = [run(result, number) for number, result in enumerate(results)]
    assert sum(result.kept for result in results) == 4 * SIZE
    assert [array[-1] for array in arrays] == list(range(10))


def test_memory_that_is_given_back_during_a_run_stays_until_it_is_shown() -> None:
    running = ResultMemory(KIND)
    address = running.take()
    for result in [ResultMemory(KIND) for _ in range(6)]:
        run(result, 1.0)
    assert running.kept == 0
    assert running.show().ctypes.data == address


def test_a_result_larger_than_the_bound_is_not_kept() -> None:
    small = ResultMemory(KIND)
    run(small, 1.0)
    extent = memory.MOST_KEPT // 4 + 1
    large = ResultMemory(ArrayKind((extent,), np.dtype(np.float32)))
    assert run(large, 2.0)[-1] == 2.0
    assert large.kept == 0
    assert small.kept == SIZE


@pytest.mark.slow
def test_shapes_of_one_function_share_the_bound_and_give_it_back() -> None:
    before = kept_bytes()
    f = rlx.jit(lambda x: (x + 1, x * 2))
    for extra in range(6):
        x = np.ones((1 << 18) + extra, np.float32)
        one, two = f(x)
        assert one[-1] == two[-1] == 2.0
        del one, two
        assert kept_bytes() <= before + 4 * SIZE
    assert kept_bytes() > before
    del f
    gc.collect()
    assert kept_bytes() == before

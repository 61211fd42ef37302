"""Calls outside `jit` on large arrays: compiled once interpreting has cost as much."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import IndexOutOfRangeError
from rlx.tracing import eager

LARGE = np.linspace(-2.0, 2.0, 70_000).astype("f4")


@pytest.fixture(autouse=True)
def compiles_soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a few calls of 70,000 elements compile."""
    monkeypatch.setattr(eager, "COMPILING", 500_000)
    monkeypatch.setattr(eager, "LARGE", 100_000)
    rlx.clear_eager_cache()
    yield
    rlx.clear_eager_cache()


def compiled() -> int:
    return rlx.eager_cache_info().compiled


def test_a_large_call_is_interpreted_until_that_cost_a_compilation() -> None:
    before, results, counts = compiled(), [], []
    for _ in range(5):
        results.append(rnp.exp(LARGE))
        counts.append(compiled() - before)
    assert counts == [0, 0, 0, 1, 1]
    for result in results:
        assert type(result) is rlx.Array
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, np.exp(LARGE), rtol=2e-6, atol=2e-6)


def test_small_calls_never_compile() -> None:
    before = compiled()
    for _ in range(300):
        rnp.exp(LARGE[:1000])
    assert compiled() == before
    assert rlx.eager_cache_info().kept == 0


def test_each_shape_and_dtype_is_a_kind_of_its_own() -> None:
    before = compiled()
    for _ in range(4):
        for x in (LARGE, LARGE[:60_000], LARGE.astype("f8")):
            assert rnp.exp(x).dtype == x.dtype
    assert compiled() - before == 3


def test_results_of_compiled_calls_are_weak_as_interpreted_ones_are() -> None:
    weak = rnp.broadcast_to(2.0, (70_000,))
    for _ in range(4):
        assert rnp.exp(weak).weak_type
        assert (rnp.exp(weak) * LARGE).dtype == np.float32


def test_errors_of_compiled_calls_name_the_line_of_the_user() -> None:
    index = np.zeros(70_000, np.int32)
    for _ in range(6):
        rnp.take(LARGE, index)
    assert rlx.eager_cache_info().kept == 1
    index[-1] = 70_000
    with pytest.raises(IndexOutOfRangeError) as caught:
        rnp.take(LARGE, index)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_transformations_outside_jit_are_compiled_too() -> None:
    before = compiled()
    slope = rlx.grad(lambda x: rnp.sum(rnp.tanh(x) * rnp.sin(x)))
    results = [slope(LARGE) for _ in range(4)]
    assert compiled() > before
    expected = np.sin(LARGE) / np.cosh(LARGE) ** 2 + np.tanh(LARGE) * np.cos(LARGE)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_loop_counts_its_rounds() -> None:
    before = compiled()
    for _ in range(2):
        total = rlx.fori_loop(0, 500, lambda _, x: x * 0.5 + 1, np.zeros(4, "f4"))
        np.testing.assert_allclose(total, 2.0)
    assert compiled() - before == 1


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "KINDS_KEPT", 2)
    for size in (70_000, 60_000, 50_000):
        for _ in range(6):
            rnp.exp(LARGE[:size])
    assert rlx.eager_cache_info().kept == 2


def test_what_no_code_can_be_generated_for_stays_interpreted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlx.errors import UnsupportedError

    tried: list[object] = []

    def refuse(*_: object, **__: object) -> None:
        tried.append(1)
        raise UnsupportedError("no compiler", remedy="install one")

    monkeypatch.setattr(eager, "compile_program", refuse)
    for _ in range(6):
        np.testing.assert_allclose(rnp.exp(LARGE), np.exp(LARGE), rtol=1e-6)
    assert len(tried) == 1


def test_a_program_that_needs_more_memory_than_all_may_keep_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(eager, "MOST_BYTES", 400_000)
    for _ in range(6):
        np.testing.assert_allclose(rnp.exp(LARGE), np.exp(LARGE), rtol=1e-6)
    assert rlx.eager_cache_info().kept == 0


def test_other_kinds_of_calls_go_on_while_one_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, finish = threading.Event(), threading.Event()
    compile_program: Any = vars(eager)["compile_program"]
    shapes: list[Any] = []

    def slow(graph: Any, *args: Any, **how: Any) -> Any:
        shapes.append(graph.inputs[0].shape)
        if shapes[-1] == (70_000,):
            begun.set()
            assert finish.wait(60)
        return compile_program(graph, *args, **how)

    monkeypatch.setattr(eager, "compile_program", slow)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(lambda: [rnp.exp(LARGE) for _ in range(4)]) for _ in range(2)]
        assert begun.wait(60)
        other = LARGE[:60_000]
        for _ in range(5):
            np.testing.assert_allclose(rnp.exp(other), np.exp(other), rtol=2e-6)
        assert not any(each.done() for each in waiting)
        finish.set()
        for each in waiting:
            np.testing.assert_allclose(each.result()[-1], np.exp(LARGE), rtol=2e-6)
    assert sorted(shapes) == [(60_000,), (70_000,)]  # each kind once, whichever thread waits

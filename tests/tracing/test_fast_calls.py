"""Calls outside `jit` that are repeated in C: what takes that path, and that nothing is lost."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.reference.replay import Replay
from rlx.runtime import eager_gateway
from rlx.runtime.eager_gateway import HANDLED, LOOK_EVERY, FastCalls, forget_fast_calls
from rlx.runtime.gateway import find_gateway
from rlx.tracing import apply
from rlx.tracing.widths import enable_64_bit_types

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
A = rnp.asarray(X)
ONE, WEAK = rnp.ones(()), rnp.asarray(1.0)
I = np.arange(12).reshape(3, 4)  # noqa: E741


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if find_gateway(wait=True) is None or find_gateway("eager_gateway", wait=True) is None:
        pytest.skip("there is no C compiler, or Python's headers are missing")
    for _ in range(LOOK_EVERY + 2):
        rnp.add(X, X)
    if eager_gateway._OfProcess.module is None:
        pytest.skip("NumPy before 2.0 keeps its floating-point settings elsewhere")


@pytest.fixture
def fast_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which a call that takes the long way fails."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the call took the long way")

    return lambda: monkeypatch.setattr(apply, "_run_again", refuse)


CALLS: dict[str, Callable[[], Any]] = {
    "arrays": lambda: rnp.add(X, X[::-1]), "the same array twice": lambda: rnp.multiply(A, A),
    "immutable arrays": lambda: A - 2 * A, "Python numbers": lambda: A * 1.5,
    "weak results": lambda: rnp.exp(WEAK), "integers and floats": lambda: rnp.add(I, A),
    "division by zero": lambda: rnp.divide(X, 0 * X), "a sum": lambda: rnp.sum(X),
    "a sum by keyword": lambda: rnp.sum(a=X),
    "axes": lambda: rnp.sum(X, axis=(0, 1), keepdims=True),
    "a view": lambda: rnp.reshape(X, (4, 3)), "several steps": lambda: rnp.var(X, axis=0),
    "keywords in another order": lambda: rnp.clip(max=ONE, min=-1.0, a=A),
    "a dtype": lambda: rnp.sum(I, dtype=np.float32),
    "an empty array": lambda: rnp.max(X[:0], axis=1), "layouts": lambda: rnp.add(X.T, X.T[::-1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_repeated_calls_are_fast_and_equal_to_the_first(
    name: str, fast_only: Callable[[], None]
) -> None:
    call = CALLS[name]
    apply._known.clear()
    forget_fast_calls()
    first, _ = call(), call()
    fast_only()
    again = call()
    assert type(again) is type(first)
    assert again.dtype == first.dtype
    assert not again.flags.writeable
    np.testing.assert_array_equal(again.tobytes(), first.tobytes())


@pytest.mark.parametrize(
    ("function", "one", "other"),
    [
        ("copysign", 0.0, -0.0),
        ("add", 1, True),
        ("add", 1, 1.0),
        ("sum", (0,), (1,)),
        ("sum", None, 0),
    ],
)
def test_arguments_of_equal_value_and_other_meaning_are_distinguished(
    function: str, one: Any, other: Any
) -> None:
    for argument in (one, other) * 3:
        found = getattr(rnp, function)(I, argument)
        expected = getattr(np, function)(I, argument)
        assert found.tobytes() == expected.astype(found.dtype).tobytes()
        assert found.dtype.kind == expected.dtype.kind


def test_results_do_not_share_memory_with_arrays_that_can_be_written() -> None:
    x = np.arange(6.0)
    for _ in range(4):
        views = [rnp.reshape(x, (2, 3)), rnp.ravel(x), rnp.asarray(x), rnp.transpose(x)]
        assert not any(np.shares_memory(view, x) for view in views)


def test_floating_point_settings_are_restored_and_faults_are_silent() -> None:
    with warnings.catch_warnings(), np.errstate(divide="raise", over="warn"):
        warnings.simplefilter("error")
        for _ in range(4):
            assert np.isinf(rnp.divide(X, rnp.zeros_like(X))).all()
        assert np.geterr()["divide"] == "raise"


def test_a_call_that_fails_after_fast_ones_names_the_function_and_the_line() -> None:
    for _ in range(4):
        rnp.add(X, X)
    with pytest.raises(ShapeError) as caught:
        rnp.add(X, X.T)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


@pytest.mark.parametrize("error", [ValueError, TypeError, ShapeError, KeyError])
def test_a_step_that_fails_leaves_to_the_long_way_what_that_explains(
    error: type[Exception],
) -> None:
    def fail(x: Any) -> None:
        raise error("of a rule")

    g = rlx.Graph("negative")
    g.set_outputs([-g.input("x", X.shape)])
    replay = Replay(g)
    replay.steps = [replace(replay.steps[0], compute=fail)]
    fast = FastCalls()
    fast.add((X,), {}, replay, weak=False)
    if issubclass(error, HANDLED):
        assert fast.call((X,), {}) is None
    else:
        with pytest.raises(error):
            fast.call((X,), {})


@pytest.mark.slow
def test_calls_keep_neither_arguments_nor_results() -> None:
    for _ in range(4):
        rnp.add(X, X)
    x = X.copy()
    before = sys.getrefcount(x)
    for _ in range(10):
        rnp.add(x, x)
        rnp.reshape(x, (12,))
        rnp.sum(a=x)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_threads_that_displace_one_another_get_their_own_results() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for extent in range(1, 120):
            x = np.full(extent, seed, np.float32)
            if not (rnp.add(x, float(seed)) == 2 * seed).all():
                wrong.append(extent)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_fast_calls_are_forgotten_when_the_widths_of_types_change() -> None:
    wide = np.ones(3)
    for _ in range(4):
        assert rnp.add(wide, wide).dtype == np.float64
    try:
        enable_64_bit_types(False)
        for _ in range(4):
            assert rnp.add(wide, wide).dtype == np.float32
    finally:
        enable_64_bit_types(True)
    assert rnp.add(wide, wide).dtype == np.float64


def test_a_fast_call_is_forgotten_when_widths_change_while_it_is_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add, wide = FastCalls.add, np.ones(3)

    def change_and_add(self: FastCalls, *args: Any, **options: Any) -> None:
        enable_64_bit_types(False)  # as another thread may
        add(self, *args, **options)

    apply._known.clear()
    forget_fast_calls()
    monkeypatch.setattr(FastCalls, "add", change_and_add)
    try:
        for _ in range(2):
            rnp.add(wide, wide)
        assert rnp.add(wide, wide).dtype == np.float32
    finally:
        enable_64_bit_types(True)

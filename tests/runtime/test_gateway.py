"""The short way in: what it takes, what it leaves to the long way, what it must not keep."""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import IndexOutOfRangeError, InputError, ToolchainError
from rlx.ir.graph import Graph
from rlx.runtime import executable, gateway
from rlx.runtime.executable import Executable
from rlx.runtime.gateway import FastCall, find_gateway
from rlx.runtime.toolchain import find_toolchain

_TP_CLEAR = 51
"""The number of the slot in CPython's stable ABI."""

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _heated(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_gateway(wait=True) is None:
        pytest.skip("there is no C compiler, or Python's headers are missing")
    monkeypatch.setattr(executable, "_CALLS_TO_HEAT", 1)


def compiled(graph: Graph, **options: Any) -> Executable:
    program = rlx.compile(graph, backend="llvm", threads=1, **options)
    assert isinstance(program, Executable)
    return program


def doubled() -> tuple[Executable, FastCall]:
    g = Graph("doubled")
    x = g.input("x", (2, 3))
    g.set_outputs([x + x])
    program = compiled(g)
    program(X)
    assert program._fast is not None
    return program, program._fast


def test_arrays_that_are_right_take_the_fast_path() -> None:
    _, fast = doubled()
    results = fast(X)
    assert results is not None
    np.testing.assert_array_equal(results[0], 2 * X)
    assert results[0].flags.owndata
    assert results[0].flags.writeable


def test_read_only_arrays_take_the_fast_path() -> None:
    _, fast = doubled()
    x = X.copy()
    x.setflags(write=False)
    assert fast(x) is not None


class Special(np.ndarray[Any, Any]):
    """A class of arrays that may mean anything."""


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        (X, X),
        (X.astype(np.float64),),
        (X.astype(">f4"),),
        (X[:1],),
        (X.reshape(3, 2),),
        (X.reshape(6),),
        (np.asfortranarray(X),),
        (np.zeros((4, 6), np.float32)[::2, ::2],),
        (np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3),),
        (X.view(Special),),
        (X.tolist(),),
        (None,),
    ],
    ids=str,
)
def test_anything_else_is_left_to_the_long_way(wrong: tuple[Any, ...]) -> None:
    _, fast = doubled()
    assert fast(*wrong) is None


@pytest.mark.parametrize(
    "value", [np.asfortranarray(X), X.tolist(), X.astype(">f4").astype(np.float32), X.view(Special)]
)
def test_the_long_way_gives_the_same_result(value: Any) -> None:
    program, _ = doubled()
    np.testing.assert_array_equal(program(value)[0], 2 * X)


def test_the_long_way_says_what_is_wrong() -> None:
    program, _ = doubled()
    with pytest.raises(InputError, match=r"has shape \(3, 2\)"):
        program(X.reshape(3, 2))
    with pytest.raises(InputError, match="has dtype float64"):
        program(X.astype(np.float64))
    np.testing.assert_array_equal(program(X)[0], 2 * X)


def test_arrays_without_elements_and_without_axes_are_taken() -> None:
    g = Graph("sizes")
    empty, scalar = g.input("empty", (0, 3)), g.input("scalar", ())
    g.set_outputs([empty + empty, scalar + scalar])
    program = compiled(g)
    values = np.zeros((0, 3), np.float32), np.full((), 2, np.float32)
    program(*values)
    assert program._fast is not None
    results = program._fast(*values)
    assert results is not None
    assert results[0].shape == (0, 3)
    assert results[1].shape == ()
    assert results[1] == 4


def test_arrays_of_as_many_axes_as_numpy_has_are_taken() -> None:
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    shape = (2, *[1] * (most - 1))
    g = Graph("axes")
    x = g.input("x", shape)
    g.set_outputs([x + x])
    program = compiled(g)
    value = np.ones(shape, np.float32)
    program(value)
    assert program._fast is not None
    results = program._fast(value)
    assert results is not None
    assert (results[0] == 2).all()


def test_an_error_of_the_lock_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Executable._native_entry

    def with_failing_release(self: Executable) -> tuple[Any, ...]:
        facts = entry(self)

        def release() -> None:
            facts[5]()
            raise RuntimeError("cannot release")

        return *facts[:5], release, *facts[6:]

    monkeypatch.setattr(Executable, "_native_entry", with_failing_release)
    _, fast = doubled()
    with pytest.raises(RuntimeError, match="cannot release"):
        fast(X)


def test_a_fault_is_raised_and_the_next_call_runs() -> None:
    g = Graph("rows")
    table = g.input("table", (4, 2))
    g.set_outputs([g.gather(table, g.input("indices", (3,), "i64"), axis=0)])
    program = compiled(g)
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    right, wrong = np.array([0, 3, 1]), np.array([0, 7, 1])
    program(values, right)
    assert program._fast is not None
    with pytest.raises(IndexOutOfRangeError):
        program._fast(values, wrong)
    np.testing.assert_array_equal(program(values, right)[0], values[right])


def test_params_that_are_set_are_used_at_once() -> None:
    g = Graph("scaled")
    w = g.param("w", ())
    g.set_outputs([g.input("x", (2, 3)) * (w * 2.0)])
    program = compiled(g, params={"w": 1.0})
    for factor in (1.0, 3.0, -2.0):
        program.set_param("w", factor)
        for _ in range(2):
            np.testing.assert_array_equal(program(X)[0], 2 * factor * X)


@pytest.mark.slow
def test_an_unreferenced_executable_is_freed() -> None:
    gc.freeze()  # the millions of objects of tests before are not looked at
    program, _ = doubled()
    gone = weakref.ref(program)
    del program, _
    gc.collect()
    assert gone() is None


def test_a_call_that_was_taken_apart_calls_nothing() -> None:
    """The collector takes garbage apart piece by piece, and any piece may call another."""
    gc.freeze()
    program, fast = doubled()
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    clear = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object)(slot(type(fast), _TP_CLEAR))
    assert clear(fast) == 0
    del program
    gc.collect()
    assert fast(X) is None


def test_calls_keep_no_references() -> None:
    program, fast = doubled()
    x, dtype = X.copy(), X.dtype
    before = sys.getrefcount(x), sys.getrefcount(dtype), sys.getrefcount(fast)
    for _ in range(100):
        fast(x)
        fast(x[::-1])
        fast(x, x)
    assert (sys.getrefcount(x), sys.getrefcount(dtype), sys.getrefcount(fast)) == before
    (y,) = program(x)
    only = np.zeros(1)
    assert sys.getrefcount(y) == sys.getrefcount(only)


@pytest.mark.parametrize("name", ["gateway", "tensor_gateway"])
def test_the_modules_compile_without_a_warning(name: str, tmp_path: Path) -> None:
    warnings = ("-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror")
    includes = ("-isystem", str(sysconfig.get_path("include")), "-isystem", np.get_include())
    flags = (*gateway._FLAGS, *warnings, *includes)
    source = Path(gateway.__file__).with_name(f"{name}.c")
    find_toolchain().compile_library(source, tmp_path / "gateway.so", flags)


@pytest.mark.parametrize("fault", [ToolchainError("none"), OSError("full")])
def test_without_a_compiler_calls_go_the_long_way(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise fault

    monkeypatch.setattr(gateway, "_library", fail)
    monkeypatch.setattr(gateway, "_making", _again(gateway._making))
    assert find_gateway(wait=True) is None
    g = Graph("doubled")
    x = g.input("x", (2, 3))
    g.set_outputs([x + x])
    program = compiled(g)
    for _ in range(3):
        np.testing.assert_array_equal(program(X)[0], 2 * X)


def test_without_another_thread_calls_go_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    monkeypatch.setattr(gateway, "_making", _again(gateway._making))
    assert find_gateway(wait=True) is None


def _again(cached: Any) -> Callable[[int, str], Any]:
    """Return a cached function as it was before its first call."""
    made: list[Any] = []

    def call(process: int, name: str) -> Any:
        if not made:
            made.append(cached.__wrapped__(process, name))
        return made[0]

    return call

"""Python functions called from compiled programs: `pure_callback`, `io_callback`, `debug`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import (
    DTypeError,
    GraphError,
    InputError,
    NoRuleError,
    ReentryError,
    ShapeError,
)
from rlx.passes.autodiff.errors import NoDerivativeError

BACKENDS = ("reference", "llvm", "c")
each_backend = pytest.mark.parametrize("backend", BACKENDS)
Struct = rlx.ShapeDtypeStruct


@each_backend
def test_a_pure_callback_gives_what_python_returns(backend: str) -> None:
    @rlx.jit(backend=backend)
    def f(x: Any) -> Any:
        return rlx.pure_callback(np.sinc, x, x * 2) + 1

    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for _ in range(3):  # the third call takes the short way in
        np.testing.assert_allclose(f(x), np.sinc(x * 2) + 1, rtol=1e-6)


@each_backend
def test_operands_and_results_are_trees(backend: str) -> None:
    def host(given: dict[str, Any], shift: Any, *, scale: Any, mode: str) -> dict[str, Any]:
        assert mode == "text is given as it is"
        return {"a": given["a"] * scale + shift, "b": (given["a"].sum(), True)}

    @rlx.jit(backend=backend)
    def f(x: Any) -> Any:
        types = {"a": x, "b": (Struct((), x.dtype), Struct((), bool))}
        return rlx.pure_callback(host, types, {"a": x}, 1.0, scale=x, mode="text is given as it is")

    found = f(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found["a"], [2.0, 5.0])
    assert found["b"][0] == 3.0
    assert found["b"][1]


@each_backend
@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "complex64", "complex128", "int8", "uint64", "bool"]
)
def test_arrays_of_every_kind_pass(backend: str, dtype: str) -> None:
    x = np.asarray(rnp.array([0, 1, 1]).astype(dtype))
    f = rlx.jit(lambda x: rlx.pure_callback(lambda a: a[::-1].copy(), x, x), backend=backend)
    found = np.asarray(f(x))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x[::-1])


@each_backend
def test_constants_and_no_operands_and_empty_arrays(backend: str) -> None:
    @rlx.jit(backend=backend)
    def f(x: Any, empty: Any) -> Any:
        fixed = rlx.pure_callback(lambda a, b: a + b, x, np.float64(2.0), np.ones(3))
        nothing = rlx.pure_callback(lambda: np.arange(3.0), x)
        return x + fixed + nothing, rlx.pure_callback(lambda a: a, empty, empty)

    total, empty = f(np.zeros(3), np.zeros((0, 4)))
    np.testing.assert_array_equal(total, [3.0, 4.0, 5.0])
    assert empty.shape == (0, 4)


@each_backend
def test_a_callback_keeps_its_copies(backend: str) -> None:
    seen: list[Any] = []
    f = rlx.jit(lambda x: rlx.debug.callback(seen.append, x * 2), backend=backend)
    for value in (1.0, 2.0, 3.0):
        assert f(np.full(2, value)) is None
    np.testing.assert_array_equal(seen, [[2, 2], [4, 4], [6, 6]])


@each_backend
@pytest.mark.parametrize(
    ("host", "error"),
    [
        (lambda a: a[:1], ShapeError),
        (lambda a: a.astype(np.float32), DTypeError),
        (lambda a: (a, a), InputError),
    ],
)
def test_a_result_of_another_type_is_an_error_at_the_call(
    backend: str, host: Any, error: type[Exception]
) -> None:
    f = rlx.jit(lambda x: rlx.pure_callback(host, x, x), backend=backend)
    with pytest.raises(error, match=r"test_callbacks\.py"):
        f(np.ones(3))


@each_backend
@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2.7, "i4"), (300, "u1"), (-1, "u4"), (float("nan"), "i8"), (1j, "f4"), (1, "?")],
)
def test_a_number_that_the_declared_dtype_cannot_hold_is_an_error(
    backend: str, number: Any, dtype: str
) -> None:
    declared = rlx.ShapeDtypeStruct((), np.dtype(dtype))
    f = rlx.jit(lambda x: rlx.pure_callback(lambda _: number, declared, x), backend=backend)
    with pytest.raises(DTypeError, match="was declared"):
        f(np.float32(1))


@each_backend
def test_what_a_callback_raises_is_raised_by_the_call(backend: str) -> None:
    class MineError(Exception):
        pass

    def host(x: Any) -> Any:
        if x > 1:
            raise MineError("too large")
        return x

    f = rlx.jit(lambda x: rlx.pure_callback(host, x, x), backend=backend)
    for _ in range(3):
        assert f(1.0) == 1.0
        with pytest.raises(MineError, match="too large"):
            f(2.0)


@each_backend
def test_debug_print_formats_at_run_time(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    @rlx.jit(backend=backend)
    def f(x: Any) -> Any:
        rlx.debug.print("x is {} and {half:.2f} of {who}", x, half=x / 2, who="it")
        return x

    f(3.0)
    f(5.0)
    assert capsys.readouterr().out == "x is 3.0 and 1.50 of it\nx is 5.0 and 2.50 of it\n"


def loops(note: Callable[[Any], None]) -> dict[str, Callable[[Any], Any]]:
    """Return functions of a number that note 2, 3 and 4 when they are given 2."""

    def step(carry: Any, _: Any) -> Any:
        rlx.debug.callback(note, carry)
        return carry + 1, None

    def dead(x: Any) -> Any:
        rlx.scan(step, x, None, length=3)
        return x

    def of_nothing(x: Any) -> Any:
        def row(carry: None, value: Any) -> Any:
            rlx.debug.callback(note, value)
            return carry, None

        rlx.scan(row, None, x + np.arange(3.0))
        return x

    def chosen(x: Any) -> Any:
        def trip(i: Any, y: Any) -> Any:
            return rlx.cond(y < 5, lambda y: step(y, None)[0], lambda y: y, y)

        return rlx.fori_loop(0, 9, trip, x)

    return {
        "scan": lambda x: rlx.scan(step, x, None, length=3)[0],
        "dead": dead,
        "of_nothing": of_nothing,
        "while": lambda x: rlx.while_loop(lambda c: c < 5, lambda c: step(c, None)[0], x),
        "cond": chosen,
        "checkpoint": lambda x: rlx.checkpoint(lambda x: rlx.scan(step, x, None, length=3)[0])(x),
    }


@each_backend
@pytest.mark.parametrize("kind", ["scan", "dead", "of_nothing", "while", "cond", "checkpoint"])
def test_effects_in_loops_run_once_a_step_in_order(backend: str, kind: str) -> None:
    seen: list[float] = []
    f = rlx.jit(loops(lambda x: seen.append(float(x)))[kind], backend=backend)
    f(2.0)
    assert seen == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("mode", ["grad", "jvp", "vjp"])
@pytest.mark.parametrize("kind", ["scan", "cond", "checkpoint"])
def test_derivatives_do_not_repeat_effects(backend: str, mode: str, kind: str) -> None:
    seen: list[float] = []
    of = loops(lambda x: seen.append(float(x)))[kind]
    derivative = {
        "grad": rlx.grad(of),
        "jvp": lambda x: rlx.jvp(of, (x,), (1.0,))[1],
        "vjp": lambda x: rlx.vjp(of, x)[1](1.0)[0],
    }[mode]
    assert rlx.jit(derivative, backend=backend)(2.0) == 1.0
    assert seen == [2.0, 3.0, 4.0]


@each_backend
def test_ordered_effects_keep_the_order_of_the_program(backend: str) -> None:
    seen: list[str] = []

    def first(a: Any) -> Any:
        seen.append("first")
        return a * 2

    @rlx.jit(backend=backend)
    def f(x: Any) -> Any:
        y = rlx.io_callback(first, x, x, ordered=True)
        rlx.io_callback(lambda _: seen.append("second"), None, x, ordered=True)
        rlx.io_callback(lambda _: seen.append("third"), None, y, ordered=True)
        return x

    f(1.0)
    assert seen == ["first", "second", "third"]


@each_backend
def test_a_pure_callback_without_readers_is_not_called(backend: str) -> None:
    seen: list[Any] = []

    def host(x: Any) -> Any:
        seen.append(x)
        return x

    def f(x: Any) -> Any:
        rlx.pure_callback(host, x, x)
        return x

    f = rlx.jit(f, backend=backend)
    if backend != "reference":  # which runs what is written
        f(1.0)
        assert not seen


@each_backend
@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled"])
def test_vmap_calls_for_one_example_after_the_other(backend: str, method: str) -> None:
    shapes: list[Any] = []

    def host(a: Any, b: Any) -> Any:
        shapes.append((a.shape, b.shape))
        return a + b

    def one(a: Any, b: Any) -> Any:
        return rlx.pure_callback(host, a, a, b, vmap_method=method)

    f = rlx.jit(rlx.vmap(one, in_axes=(0, None)), backend=backend)
    np.testing.assert_array_equal(f(np.arange(6.0).reshape(3, 2), np.ones(2)),
                                  np.arange(6.0).reshape(3, 2) + 1)  # fmt: skip
    assert shapes == [((2,), (2,))] * 3


@each_backend
@pytest.mark.parametrize(("method", "shape"), [("expand_dims", (1, 2)), ("broadcast_all", (3, 2))])
def test_vmap_calls_once_for_the_batch(backend: str, method: str, shape: tuple[int, ...]) -> None:
    shapes: list[Any] = []

    def host(a: Any, b: Any) -> Any:
        shapes.append((a.shape, b.shape))
        return a + b

    def one(a: Any, b: Any) -> Any:
        return rlx.pure_callback(host, a, a, b, vmap_method=method)

    f = rlx.jit(rlx.vmap(one, in_axes=(0, None)), backend=backend)
    np.testing.assert_array_equal(f(np.zeros((3, 2)), np.ones(2)), np.ones((3, 2)))
    assert shapes == [((3, 2), shape)]


def test_what_has_no_rule_says_so_with_the_remedy() -> None:
    def pure(x: Any) -> Any:
        return rlx.pure_callback(np.sin, x, x)

    def ordered(x: Any) -> Any:
        return rlx.io_callback(np.sin, x, x, ordered=True)

    with pytest.raises(NoDerivativeError, match="custom_jvp"):
        rlx.grad(pure)(1.0)
    with pytest.raises(NoRuleError, match="vmap_method='sequential'"):
        rlx.vmap(pure)(np.ones(2))
    with pytest.raises(NoRuleError, match="ordered=False"):
        rlx.vmap(ordered)(np.ones(2))
    with pytest.raises(GraphError, match="'sequential'"):
        rlx.jit(lambda x: rlx.pure_callback(np.sin, x, x, vmap_method="other"))(1.0)


def test_a_derivative_that_would_call_twice_is_refused() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return carry * rlx.io_callback(lambda a: a, carry, carry), None

        return rlx.scan(step, x, None, length=2)[0]

    with pytest.raises(GraphError, match="an effect that a run must have once"):
        rlx.jit(rlx.grad(f))(2.0)


@each_backend
def test_the_derivative_is_that_of_the_function_around_it(backend: str) -> None:
    @rlx.custom_jvp
    def sine(x: Any) -> Any:
        return rlx.pure_callback(np.sin, x, x, vmap_method="broadcast_all")

    @sine.defjvp
    def sine_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        cosine = rlx.pure_callback(np.cos, x, x, vmap_method="broadcast_all")
        return sine(x), cosine * dx

    x = np.linspace(0, 1, 4)
    f = rlx.jit(rlx.vmap(rlx.grad(sine)), backend=backend)
    np.testing.assert_allclose(f(x), np.cos(x), rtol=1e-12)


@each_backend
def test_a_callback_calls_another_compiled_function(backend: str) -> None:
    inner = rlx.jit(lambda y: y * 3, backend=backend)
    f = rlx.jit(lambda x: rlx.pure_callback(inner, x, x) + 1, backend=backend)
    np.testing.assert_array_equal(f(np.ones(3)), np.full(3, 4.0))


def test_a_callback_that_calls_its_own_program_is_refused() -> None:
    holder: list[Any] = []
    f = rlx.jit(lambda x: rlx.pure_callback(lambda a: holder[0](a), x, x), backend="llvm")
    holder.append(f)
    with pytest.raises(ReentryError, match="callback"):
        f(1.0)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_programs_on_several_threads_call_back_from_one(backend: str) -> None:
    def step(x: Any, _: Any) -> Any:
        return rlx.pure_callback(lambda a: a + 1, x, rnp.sin(x)), None

    f = rlx.jit(lambda x: rlx.scan(step, x, None, length=3)[0], backend=backend, threads=2)
    x = np.linspace(-1, 1, 200_000)
    expected = np.sin(np.sin(np.sin(x) + 1) + 1) + 1
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_callbacks_of_several_calling_threads_do_not_mix(backend: str) -> None:
    def host(x: Any) -> Any:
        if x > 50:
            raise KeyError(int(x))
        return x + 1

    f = rlx.jit(lambda x: rlx.pure_callback(host, x, x), backend=backend)
    f(0.0)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for _ in range(50):
            try:
                if f(float(number)) != number + 1:
                    wrong.append(number)
            except KeyError as error:
                if error.args != (number,) or number <= 50:
                    wrong.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 60, 70)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_outside_of_a_trace_the_function_is_called_at_once() -> None:
    found = rlx.pure_callback(np.sin, Struct((2,), np.float64), np.zeros(2))
    np.testing.assert_array_equal(found, np.zeros(2))
    assert not found.flags.writeable


def test_callbacks_are_where_jax_has_them() -> None:
    import rlx.jax as jax
    from rlx.jax.experimental import io_callback

    assert jax.pure_callback is rlx.pure_callback
    assert io_callback is rlx.io_callback
    assert jax.debug.print is rlx.debug.print
    assert jax.debug.callback is rlx.debug.callback
    assert jax.ffi.ffi_call is rlx.ffi.ffi_call

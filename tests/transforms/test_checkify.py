"""Checks become results, through loops, branches, batches and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import CheckError, FailedCheckError, InputError, UnsupportedError
from rlx.jax.experimental import checkify
from rlx.jax.experimental.checkify import check
from rlx.passes.checks import functionalize

F32 = np.float32
Function = Callable[..., Any]


def message(f: Function, *args: Any, errors: Any = checkify.user_checks) -> str | None:
    """Return the message of a call's error, equal at once and compiled."""
    checked = checkify.checkify(f, errors=errors)
    compiled, expected = rlx.jit(checked)(*args)
    error, value = checked(*args)
    assert compiled.get() == error.get()
    np.testing.assert_array_equal(np.asarray(expected), np.asarray(value))
    text: str | None = error.get()
    return text


def positive_log(x: Any) -> Any:
    check(x > 0, "{} must be positive, and {more} more", x, more=x + 1)
    return rnp.log(x)


def test_a_check_that_fails_reports_its_values_and_one_that_holds_nothing() -> None:
    failed = message(positive_log, F32(-1.5))
    assert failed == "-1.5 must be positive, and -0.5 more (`check` failed)"
    assert message(positive_log, F32(2)) is None


def test_the_first_check_that_fails_is_reported() -> None:
    def f(x: Any) -> Any:
        check(x < 5, "large")
        check(x < 3, "{x:.1f} is middling", x=x)
        return x

    assert message(f, F32(7)) == "large (`check` failed)"
    assert message(f, F32(4)) == "4.0 is middling (`check` failed)"


def test_a_scan_reports_the_first_step_that_fails() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            check(c < 5, "{} at {}", c, y)
            return c + y, c

        return lax.scan(step, x, rnp.arange(5, dtype=rnp.float32))[0]

    assert message(f, F32(1)) == "7.0 at 4.0 (`check` failed)"
    assert message(f, F32(9)) == "9.0 at 0.0 (`check` failed)"
    assert message(f, F32(-9)) is None


def test_a_while_loop_reports_its_condition_and_its_body() -> None:
    def f(x: Any) -> Any:
        def goes_on(c: Any) -> Any:
            check(c != 3, "condition {}", c)
            return c < 7

        def step(c: Any) -> Any:
            check(c != 5, "body {}", c)
            return c + 1

        return lax.while_loop(goes_on, step, x)

    assert message(f, F32(0)) == "condition 3.0 (`check` failed)"
    assert message(f, F32(3)) == "condition 3.0 (`check` failed)"
    assert message(f, F32(4)) == "body 5.0 (`check` failed)"
    assert message(f, F32(6)) is None


def test_checks_of_nested_loops_are_reported_once_in_order() -> None:
    def f(x: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            check(c < 100, "outer {}", c)

            def inner(j: Any, d: Any) -> Any:
                check(i * 10 + j != 12, "inner {} {}", i, j)
                return d + 1

            return lax.fori_loop(0, 3, inner, c)

        return lax.fori_loop(0, 4, outer, x)

    assert message(f, F32(0)) == "inner 1 2 (`check` failed)"
    assert message(f, F32(98)) == "outer 101.0 (`check` failed)"


def test_only_the_branch_that_is_taken_is_checked() -> None:
    def f(x: Any) -> Any:
        def large(x: Any) -> Any:
            check(x < 2, "large {}", x)
            return x

        def small(x: Any) -> Any:
            check(x > -2, "small {} {}", x, x + 1)
            return -x

        return lax.cond(x > 0, large, small, x)

    assert [message(f, F32(x)) for x in (1, 3, -1, -3)] == [
        None, "large 3.0 (`check` failed)", None, "small -3.0 -2.0 (`check` failed)",
    ]  # fmt: skip


def test_a_batch_of_errors_names_its_examples_and_a_checked_batch_the_last() -> None:
    xs = np.array([1, -1, 2, -3], F32)
    error, _ = rlx.vmap(checkify.checkify(positive_log))(xs)
    text = "-1.0 must be positive, and 0.0 more (`check` failed)"
    last = "-3.0 must be positive, and -2.0 more (`check` failed)"
    assert error.get() == f"at mapped index 1: {text}\nat mapped index 3: {last}"
    assert message(rlx.vmap(positive_log), xs) == last
    with pytest.raises(CheckError, match=r"-3\.0 must be"):
        rlx.vmap(positive_log)(xs)


def test_a_batched_loop_checks_no_example_that_has_finished() -> None:
    def f(x: Any) -> Any:
        def step(c: Any) -> Any:
            check(c < 5, "{}", c)
            return c + 1

        return lax.while_loop(lambda c: c < 5, step, x)

    assert message(rlx.vmap(f), np.array([0, 4, 9], F32)) is None


def test_batched_branches_check_the_examples_that_take_them() -> None:
    def f(x: Any) -> Any:
        def large(x: Any) -> Any:
            check(x > 0, "{} taken", x)
            return x

        return lax.cond(x > 0, large, lambda x: -x, x)

    assert message(rlx.vmap(f), np.array([-2, 3], F32)) is None


def test_derivatives_go_through_checkified_functions_and_checks_stay_in_derivatives() -> None:
    plain = rlx.grad(lambda x: checkify.checkify(positive_log)(x)[1])
    np.testing.assert_allclose(plain(F32(2)), 0.5)
    error, slope = checkify.checkify(rlx.grad(positive_log))(F32(-2))
    assert error.get() == "-2.0 must be positive, and -1.0 more (`check` failed)"
    np.testing.assert_allclose(slope, -0.5)

    def power(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            check(c < 10, "{}", c)
            return c * x, None

        return lax.scan(step, x, None, length=3)[0]

    error, slope = rlx.jit(checkify.checkify(rlx.grad(power)))(F32(3))
    assert error.get() == "27.0 (`check` failed)"
    np.testing.assert_allclose(slope, 4 * 27)
    again = rlx.grad(rlx.checkpoint(positive_log))
    assert message(again, F32(-1)) == "-1.0 must be positive, and 0.0 more (`check` failed)"


def test_functions_with_rules_of_their_own_are_checked() -> None:
    @rlx.custom_jvp
    def f(x: Any) -> Any:
        return positive_log(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 10 * tangents[0]))
    assert message(f, F32(-1)) == "-1.0 must be positive, and 0.0 more (`check` failed)"
    slope = rlx.grad(lambda x: checkify.checkify(f)(x)[1])(F32(2))
    np.testing.assert_allclose(slope, 10)


def test_automatic_checks_report_op_shape_and_index() -> None:
    x = rnp.arange(3, dtype=rnp.float32)
    table = rnp.ones((2, 3), rnp.float32)
    index = checkify.index_checks
    outside = "out-of-bounds indexing for array of shape {}: index {} is out of bounds for axis {} "
    outside += "with size 3. "
    assert message(rnp.sin, F32(np.inf), errors=checkify.nan_checks) == (
        "nan generated by primitive: sin."
    )
    assert message(lambda x, y: x / y, F32(1), F32(0), errors=checkify.float_checks) == (
        "division by zero"
    )
    assert message(lambda i: x[i], 5, errors=index) == outside.format("(3,)", 5, 0)
    assert message(lambda i: x[i], -5, errors=index) == outside.format("(3,)", -2, 0)
    assert message(lambda i: x[i], -1, errors=index) is None
    assert message(lambda i: table[:, i], 4, errors=index) == outside.format("(2, 3)", 4, 1)
    assert message(lambda i: x.at[i].add(1), 4, errors=index) == (outside.format("(3,)", 4, 0))
    sliced = message(lambda i: lax.dynamic_slice(x, (i,), (2,)), 2, errors=index)
    assert sliced == outside.format("(3,)", 2, 0)


def test_one_of_several_indices_outside_is_reported_without_a_number() -> None:
    table = rnp.ones((2, 3), rnp.float32)
    places = np.array([1, 2])
    text = message(lambda i: table[i, i], places, errors=checkify.index_checks)
    assert text == (
        "out-of-bounds indexing: of several indices, into 6 elements, one is out of bounds"
    )
    assert message(lambda i: table[i, i], places - 1, errors=checkify.index_checks) is None


def test_a_singular_matrix_is_a_nan_that_is_reported() -> None:
    singular = np.zeros((2, 2), F32)
    for f in (rnp.linalg.inv, lambda a: rnp.linalg.solve(a, a), rnp.linalg.cholesky):
        text = message(f, singular, errors=checkify.float_checks)
        assert text is not None
        assert text.startswith("nan generated by primitive: ")


def test_checks_of_checkified_steps_are_stacked() -> None:
    def step(c: Any, x: Any) -> Any:
        error, y = checkify.checkify(positive_log)(x)
        return c + y, error

    xs = np.array([1, -2, 3], F32)
    _, errors = rlx.jit(lambda xs: lax.scan(step, F32(0), xs))(xs)
    text = "-2.0 must be positive, and -1.0 more (`check` failed)"
    assert errors.get() == f"at mapped index 1: {text}"


def test_of_no_examples_none_fails() -> None:
    def f(xs: Any) -> Any:
        error, ys = rlx.vmap(checkify.checkify(positive_log))(xs)
        checkify.check_error(error)
        return ys

    assert message(f, np.zeros(0, F32)) is None
    assert message(f, np.array([1, -1], F32)) is not None


def test_kinds_that_are_not_asked_for_are_not_checked() -> None:
    assert message(positive_log, F32(-1), errors=checkify.index_checks) is None
    assert message(positive_log, F32(-1), errors=checkify.all_checks) == (
        "-1.0 must be positive, and 0.0 more (`check` failed)"
    )
    assert message(rnp.log, F32(-1)) is None


def test_a_check_of_what_is_known_raises_with_the_line_that_makes_it() -> None:
    with pytest.raises(CheckError, match="must be positive") as caught:
        positive_log(rnp.asarray(F32(-1)))
    assert isinstance(caught.value, ValueError)
    assert caught.value.source is not None
    assert caught.value.source.function == "positive_log"


def test_a_check_that_is_compiled_without_checkify_ends_the_run() -> None:
    compiled = rlx.jit(positive_log)
    assert compiled(F32(1)) == 0
    with pytest.raises(
        FailedCheckError, match=r"-1.0 must be positive.*\n.*positive_log"
    ) as caught:
        compiled(F32(-1))
    assert caught.value.message == "-1.0 must be positive, and 0.0 more (`check` failed)"
    assert compiled(F32(1)) == 0


def test_compiled_checks_in_loops_batches_and_derivatives_end_the_run() -> None:
    def total(xs: Any) -> Any:
        return rlx.scan(lambda c, x: (c + positive_log(x), None), F32(0), xs)[0]

    for f in (total, rlx.grad(total), rlx.vmap(positive_log)):
        compiled = rlx.jit(f)
        compiled(np.ones(3, F32))
        with pytest.raises(FailedCheckError, match="must be positive"):
            compiled(np.array([1, -2, 3], F32))


def test_errors_are_thrown_outside_and_checked_again_inside() -> None:
    def f(x: Any) -> Any:
        error, value = rlx.jit(checkify.checkify(positive_log))(x)
        checkify.check_error(error)
        return value

    with pytest.raises(CheckError, match=r"-1\.0 must be"):
        f(F32(-1))
    assert message(f, F32(-1)) == "-1.0 must be positive, and 0.0 more (`check` failed)"

    def batched(xs: Any) -> Any:
        error, values = rlx.vmap(checkify.checkify(positive_log))(xs)
        checkify.check_error(error)
        return values

    text = message(batched, np.array([-1, -2, 3], F32))
    assert text == "-2.0 must be positive, and -1.0 more (`check` failed)"
    checkify.init_error.throw()


def test_a_debug_check_is_made_under_checkify_alone() -> None:
    def f(x: Any) -> Any:
        checkify.debug_check(x != 0, "zero")
        return x

    assert f(F32(0)) == rlx.jit(f)(F32(0)) == 0
    assert message(f, F32(0)) == "zero (`check` failed)"


def test_what_is_no_predicate_and_no_array_is_named() -> None:
    with pytest.raises(InputError, match="check takes one bool"):
        check(rnp.ones(2) > 0, "two")
    with pytest.raises(InputError, match="given an object of type str"):
        check(True, "{}", "text")
    with pytest.raises(InputError, match="check_error takes an Error"):
        checkify.check_error(None)  # type: ignore[arg-type]


def test_indices_into_what_is_sized_at_the_call_are_not_checked() -> None:
    g = rlx.Graph("sized")
    x = g.input("x", (rlx.Dim("n", max=4),), "f32")
    g.set_outputs([g.gather(x, g.input("i", (), "i64"))])
    with pytest.raises(UnsupportedError, match=r"gather: .*known only at the call"):
        functionalize(g, checkify.index_checks)

"""Errors of a running program: raised from Python, a status in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.codegen.loops.nodes import Status
from rlx.errors import FailedCheckError, NoRuleError
from rlx.ir.digest import graph_digest
from rlx.runtime.toolchain import has_toolchain

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import jax.numpy as jnp  # noqa: E402  after JAX is known to be there
from jax.experimental import checkify  # noqa: E402

from tests.examples.artifacts import call, load, pointer  # noqa: E402
from tests.jaxpr.programs import diffrax_solve  # noqa: E402

X = np.array([0.5, 1.0, 2.0], "float32")


def checked_log(x: Any) -> Any:
    checkify.check(jnp.all(x > 0), "{least} is not positive", least=jnp.min(x))
    return jnp.log(x)


def test_a_check_that_fails_raises_its_message() -> None:
    f = rlx.from_jax(checked_log)
    np.testing.assert_allclose(f(X), np.log(X), 1e-5)
    with pytest.raises(FailedCheckError, match=r"-2.0 is not positive") as caught:
        f(-X)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__


def test_a_digest_is_that_of_a_process_that_traced_other_checks_before() -> None:
    def other(x: Any) -> Any:
        checkify.check(jnp.all(x > 1), "{least} is no more than 1", least=jnp.min(x))
        return x

    first = graph_digest(rlx.jit(rlx.from_jax(checked_log)).graph(X))
    different = graph_digest(rlx.jit(rlx.from_jax(other)).graph(X))
    assert graph_digest(rlx.jit(rlx.from_jax(checked_log)).graph(X)) == first != different
    assert first is not None


def test_checks_in_loops_batches_and_derivatives() -> None:
    def total(xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c + checked_log(x), None), 0.0, xs)[0]

    f = rlx.from_jax(total)
    rows = np.stack([X, X])
    cases = [(f, X), (rlx.grad(f), X), (rlx.vmap(f), rows)]
    for transformed, given in cases:
        compiled = rlx.jit(transformed)
        compiled(given)
        with pytest.raises(FailedCheckError, match="is not positive"):
            compiled(-given)


def test_checkify_makes_checks_results() -> None:
    kinds = checkify.user_checks | checkify.float_checks | checkify.index_checks
    checked = checkify.checkify(lambda x, i: checked_log(x) / x[i], errors=kinds)
    f = rlx.from_jax(checked)
    error, y = f(X, np.int32(1))
    assert error.get() is None
    np.testing.assert_allclose(y, np.log(X), 1e-5)
    for x, i in ((-X, 1), (X, 7), (np.array([1, 0, 2], "float32"), 1)):
        expected = checked(jnp.asarray(x), jnp.int32(i))[0].get()
        assert expected is not None
        assert f(x, np.int32(i))[0].get() == expected


def test_debug_checks_are_made_under_checkify_alone() -> None:
    def f(x: Any) -> Any:
        checkify.debug_check(x[0] > 0, "negative")
        return x

    np.testing.assert_array_equal(rlx.from_jax(f)(-X), -X)
    assert "negative" in rlx.from_jax(checkify.checkify(f))(-X)[0].get()


def test_error_if_raises_the_message_of_its_index() -> None:
    eqx = pytest.importorskip("equinox", reason="Equinox is not installed")

    def f(x: Any) -> Any:
        x = eqx.error_if(x, x < 0, "negative")
        return eqx.internal.branched_error_if(
            jnp.sqrt(x), x > 3, jnp.where(x.sum() > 9, 1, 0), ["large", "very large"]
        )

    g = rlx.from_jax(f)
    np.testing.assert_allclose(g(X), np.sqrt(X), 1e-5)
    for x, message in ((-X, "negative"), (2 * X, "large"), (4 * X, "very large")):
        with pytest.raises(FailedCheckError) as caught:
            g(x)
        assert caught.value.message == message
    with pytest.raises(FailedCheckError, match="negative"):
        rlx.jit(rlx.grad(lambda x: g(x).sum()))(-X)
    np.testing.assert_allclose(rlx.jit(rlx.vmap(g))(np.stack([X, X]))[1], np.sqrt(X), 1e-5)


def test_a_derivative_that_a_rule_refuses_is_an_error_where_it_is_taken() -> None:
    eqx = pytest.importorskip("equinox", reason="Equinox is not installed")

    def f(x: Any, y: Any) -> Any:
        return (x * eqx.internal.nondifferentiable(y, name="y")).sum()

    g = rlx.from_jax(f)
    np.testing.assert_allclose(rlx.jit(rlx.grad(g))(X, X + 1), X + 1)
    with pytest.raises(NoRuleError, match=r"Unexpected tangent. y cannot be"):
        rlx.jit(rlx.grad(g, 1))(X, X)


@pytest.mark.slow
def test_a_diffrax_solve_that_fails_raises_its_message() -> None:
    for library in ("diffrax", "equinox"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    args = np.array([1, 0], "float32"), np.float32(2)
    with pytest.raises(FailedCheckError, match="maximum number of solver steps"):
        rlx.from_jax(diffrax_solve(max_steps=5))(*args)


@pytest.mark.slow
@pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")
def test_a_diffrax_gradient_in_c_returns_statuses(tmp_path: Path) -> None:
    for library in ("diffrax", "equinox"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    solve = diffrax_solve(max_steps=64)
    start, stiffness = np.array([1, 0], "float32"), np.float32(2)
    step = rlx.jit(rlx.value_and_grad(rlx.from_jax(solve), (0, 1)))
    artifact = rlx.aot(step, tmp_path, name="solve", example_inputs=[start, stiffness])
    native = load(artifact)
    value, slope, slope_of_stiffness = call(native, start, stiffness)
    expected, slopes = jax.value_and_grad(solve, (0, 1))(start, stiffness)
    np.testing.assert_allclose(value, expected, 1e-5)
    np.testing.assert_allclose(slope, slopes[0], 1e-4, 1e-4)
    np.testing.assert_allclose(slope_of_stiffness, slopes[1], 1e-4)
    stiff = np.full((), 1e6, "float32")
    given = [pointer(native, x) for x in (start, stiff, value, slope, slope_of_stiffness)]
    assert native.call("call", native.arena, *given) == Status.CHECK_FAILED
    fault = native.ffi.string(native.library.solve_fault_string(native.arena)).decode()
    assert "maximum number of solver steps" in fault

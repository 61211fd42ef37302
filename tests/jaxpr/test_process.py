"""rlx as the compiler of `jax.jit`: results, types and keys are JAX's; what XLA does is counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx.jax
from rlx.runtime.toolchain import has_toolchain

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import jax.numpy as jnp  # noqa: E402  after JAX is known to be there

pytestmark = pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")


@pytest.fixture
def installed() -> Iterator[None]:
    rlx.jax.install()
    yield
    rlx.jax.uninstall()


def step(weights: Any, x: Any) -> Any:
    def loss(weights: Any) -> Any:
        return jnp.mean(jnp.tanh(x @ weights) ** 2), x.shape[0] * 2.0

    (value, count), slope = jax.value_and_grad(loss, has_aux=True)(weights)
    return weights - 0.1 * slope, value, count


def test_results_are_jaxs_arrays(installed: None) -> None:
    weights, x = jnp.ones((3, 2)), jnp.arange(12.0).reshape(4, 3)
    found = jax.jit(step)(weights, x)
    assert rlx.jax.report().compiled == 1
    rlx.jax.uninstall()
    expected = jax.jit(step)(weights, x)
    for mine, theirs in zip(found, expected, strict=True):
        assert isinstance(mine, jax.Array)
        assert (mine.dtype, mine.weak_type) == (theirs.dtype, theirs.weak_type)
        np.testing.assert_allclose(mine, theirs, 1e-5)


def test_transformations_around_a_jitted_function(installed: None) -> None:
    f = jax.jit(lambda x: jnp.sin(x) * x)
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(jnp.arange(3.0)), np.sin(np.arange(3.0)) + (
        np.cos(np.arange(3.0)) * np.arange(3.0)), 1e-5)  # fmt: skip
    assert rlx.jax.report().compiled >= 1


def test_keys_go_in_and_come_out(installed: None) -> None:
    def draw(key: Any) -> Any:
        key, other = jax.random.split(key)
        return key, jax.random.normal(other, (3,)) + 1

    key, numbers = jax.jit(draw)(jax.random.key(2))
    assert not rlx.jax.report().reasons
    expected, theirs = draw(jax.random.key(2))
    assert (jax.random.key_data(key) == jax.random.key_data(expected)).all()
    np.testing.assert_allclose(numbers, theirs, 1e-5)


def test_what_is_left_to_xla_is_counted(
    installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(x: Any) -> Any:
        jax.debug.print("x is {}", x)
        return jnp.sin(x) * x

    jax.block_until_ready(jax.jit(shown)(2.0))
    jax.effects_barrier()
    assert "x is 2.0" in capsys.readouterr().out
    assert "has effects" in str(rlx.jax.report())


def test_a_failing_program_raises(installed: None) -> None:
    def solve(a: Any) -> Any:
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((2,), "float32"), a[0]) + a[1]

    def fail(x: Any) -> Any:
        raise ValueError(x)

    with pytest.raises(Exception, match="status"):
        jax.block_until_ready(jax.jit(solve)(jnp.ones((2, 2))))


@pytest.mark.slow
def test_a_program_runs_behind_jax(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import jax, jax.numpy as jnp, rlx.jax\n"
        "print(jax.jit(lambda x: jnp.sin(x) + x)(0.0), rlx.jax.report().compiled)\n"
    )
    command = [sys.executable, "-m", "rlx.jax", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0.0 1\n"

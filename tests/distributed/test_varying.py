# ruff: noqa: ARG005  each function takes both arrays
"""Derivatives inside of `shard_map`: those of JAX, and by hand; results that ranks do not share."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.errors import InputError
from rlx.passes.pipeline import pipeline
from rlx.target import named_target
from tests.distributed import programs
from tests.distributed.varying import CASES, SPECS, Case, Names, arrays

RLX = Names(
    np=rnp, grad=rlx.grad, vjp=rlx.vjp, jvp=rlx.jvp, vmap=rlx.vmap, hessian=rlx.hessian,
    psum=rlx.lax.psum, pmean=rlx.lax.pmean, pvary=rlx.lax.pvary, ppermute=rlx.lax.ppermute,
    all_gather=lambda x, axis: rlx.lax.pvary(rlx.lax.all_gather(x, axis, tiled=True), axis),
    all_to_all=lambda x, axis: rlx.lax.all_to_all(x, axis, 0, 0, tiled=True),
    psum_scatter=functools.partial(rlx.lax.psum_scatter, tiled=True), axis_index=rlx.lax.axis_index,
    scan=rlx.scan, cond=rlx.cond, checkpoint=rlx.checkpoint, custom_vjp=rlx.custom_vjp,
)  # fmt: skip
RANKS = 6
"""Two rows of three."""


def mapped(fun: Any, in_specs: Any, out_specs: Any, *args: Any) -> list[Any]:
    """Return the whole result on each rank of a mesh of two axes."""

    def program() -> Any:
        mesh = Mesh({"rows": 2, "r": 3})
        return programs.whole(shard_map(fun, mesh, in_specs, out_specs)(*args))

    return simulate(program, RANKS)


def on_mesh(case: Case) -> list[Any]:
    return mapped(case.make(RLX), *(SPECS[s] for s in (case.inputs, case.outputs)), *arrays())


@pytest.fixture(scope="module")
def jax_values(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What JAX computes on six devices, in a process of its own that starts with so many."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    path = tmp_path_factory.mktemp("jax") / "values.npz"
    flags = f"--xla_force_host_platform_device_count={RANKS}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributed.varying", str(path)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.load(path)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_jax(name: str, jax_values: Any) -> None:
    for (found,) in on_mesh(CASES[name]):
        np.testing.assert_allclose(found, jax_values[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].by_hand is not None])
def test_derivatives_are_those_of_the_whole_program(name: str) -> None:
    by_hand = CASES[name].by_hand
    assert by_hand is not None
    results = on_mesh(CASES[name])
    for (found,) in results:
        np.testing.assert_allclose(found, by_hand(*arrays()), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found, results[0][0])


def test_what_is_gathered_is_one_value() -> None:
    """JAX regards it as one value on each rank, whose losses add up."""

    def loss(x: Any) -> Any:
        return rnp.sum(rlx.lax.all_gather(x, "r", tiled=True) ** 2)

    x = arrays()[1]
    for (found,) in mapped(rlx.grad(loss), (P("r"),), P("r"), x):
        np.testing.assert_allclose(found, 2 * x, rtol=1e-6)
    for (found,) in mapped(lambda x: rlx.lax.all_gather(x, "r", tiled=True), (P("r"),), P(), x):
        np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("by", ["w", "x"])
def test_a_mean_over_ranks_has_the_differences_of_the_program_as_gradient(by: str) -> None:
    """Of a nonlinear program with every collective, by an argument of all ranks and by shares."""
    w, x = (a.astype(np.float64) for a in arrays())

    def loss(w: Any, x: Any) -> Any:
        h = rnp.tanh(x * w) + rlx.lax.psum(rnp.sum(x * w), "r")
        h = h * rlx.lax.all_gather(rnp.sum(h * x), "r")[1] + rlx.lax.pbroadcast(h, "r", 2)
        h = rlx.lax.ppermute(h, "r", [(0, 1), (1, 2), (2, 0)]) * w + rlx.lax.pmax(h, "r")
        h = rlx.lax.all_to_all(h, "r", 0, 0, tiled=True) + rnp.sin(w)
        return rlx.lax.pmean(
            rnp.sum(h) + rnp.sum(rlx.lax.psum_scatter(h, "r", tiled=True) ** 2), "r"
        )

    specs = (P(), P("r"))
    place = 0 if by == "w" else 1
    gradient = mapped(rlx.grad(loss, place), specs, specs[place], w, x)[0][0]
    at = (w, x)[place]
    direction = np.random.default_rng(3).standard_normal(at.shape)

    def value(step: float) -> float:
        moved = at + step * direction
        args = (moved, x) if by == "w" else (w, moved)
        return float(mapped(loss, specs, P(), *args)[0][0])

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-6)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], P, str]] = {
    "an argument": (lambda w, x: x, P(), r"result of .* ranks of 'r', and out_specs says P\(\)"),
    "a sum of it": (lambda w, x: w + rnp.sum(x), P(), "ranks of 'r'"),
    "the number of a rank": (lambda w, x: rlx.lax.axis_index("r"), P(), "ranks of 'r'"),
    "part of a sum": (lambda w, x: rlx.lax.psum_scatter(w[:3], "r"), P(), "ranks of 'r'"),
    "what a neighbor sent": (lambda w, x: rlx.lax.ppermute(w, "r", [(0, 1)]), P(), "ranks of 'r'"),
    "a sum over another axis": (lambda w, x: rlx.lax.psum(x, "rows"), P(), "ranks of 'r'"),
    "split along another axis": (lambda w, x: x, P("rows"), "ranks of 'r'"),
    "a carry": (
        lambda w, x: rlx.scan(lambda c, _: (c + x[0], None), w, None, length=2)[0], P(), "of 'r'",
    ),
    "a branch": (
        lambda w, x: rlx.cond(x[0, 0] > 0, lambda: w, lambda: 2 * w), P(), "ranks of 'r'",
    ),
    "the trips of a loop": (
        lambda w, x: rlx.while_loop(lambda c: c[0] < x[0, 0], lambda c: c + 1, w), P(), "of 'r'",
    ),
    "its own gradient": (lambda w, x: rlx.grad(lambda v: (v * x).sum())(rlx.lax.pvary(w, "r")), P(),
                         "ranks of 'r'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_result_that_differs_by_rank_is_not_equal_on_all(name: str) -> None:
    fun, spec, words = REFUSED[name]
    with pytest.raises(InputError, match=words) as caught:
        mapped(fun, (P(), P("r")), spec, *arrays())
    assert "rlx.distributed.pbroadcast(x, 'r', 0)" in str(caught.value.remedy)


SHARED: dict[str, Callable[[Any, Any], Any]] = {
    "a sum": lambda w, x: rlx.lax.psum(x, "r"),
    "a maximum of both": lambda w, x: w + rlx.lax.pmax(x, "r"),
    "one rank's": lambda w, x: rlx.lax.pbroadcast(x, "r", 1),
    "a loop that sums": lambda w, x: rlx.scan(
        lambda c, _: (rlx.lax.psum(c * x[0], "r"), None), w, None, length=2
    )[0],
    "a loop whose first carry differs": lambda w, x: rlx.scan(
        lambda c, _: (rlx.lax.psum(c, "r"), None), x, None, length=2
    )[0],
    "a branch of equal choice": lambda w, x: rlx.cond(
        w[0] > 0, lambda: rlx.lax.psum(x, "r"), lambda: rlx.lax.pmax(x, "r")
    ),
    "a gradient by what all have": lambda w, x: rlx.grad(lambda w: (w * x).sum())(w),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_is_equal_on_all_ranks_is_a_plain_array(name: str) -> None:
    first, *others = (found for (found,) in mapped(SHARED[name], (P(), P("r")), P(), *arrays()))
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_a_cotangent_that_differs_by_rank_belongs_to_no_result_that_is_equal() -> None:
    def fun(w: Any, x: Any) -> Any:
        return rlx.vjp(lambda w: 2 * w, w)[1](x[0])[0]

    with pytest.raises(InputError, match="a cotangent varies over the ranks of 'r'"):
        mapped(fun, (P(), P("r")), P("r"), *arrays())


def test_the_mean_of_a_gradient_that_is_summed_already_is_refused() -> None:
    def fun(w: Any, x: Any) -> Any:
        return rlx.lax.pmean(rlx.grad(lambda w: (w * x).sum())(w), "r")

    with pytest.raises(InputError, match="pmean over 'r' of an array that is equal") as caught:
        mapped(fun, (P(), P("r")), P(), *arrays())
    assert "rlx.lax.pvary(w, ...)" in str(caught.value.remedy)


def test_a_rule_is_given_the_whole_cotangent_of_what_ranks_share() -> None:
    """A rule that is not linear would clip shares, not the cotangent."""

    @rlx.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, ct: (rnp.clip(ct, -1.0, 1.0),))

    def loss(w: Any, x: Any) -> Any:
        return rlx.lax.pmean(9.0 * rnp.sum(clipped(w)) + 0.0 * rnp.sum(x), "r")

    for (found,) in mapped(rlx.grad(loss), (P(), P("r")), P(), *arrays()):
        np.testing.assert_allclose(found, np.ones(6), rtol=1e-6)


def test_the_gradient_of_a_mean_exchanges_once() -> None:
    """The first cotangent is a number on all ranks: gradients and the loss travel together."""

    def step(w: Any, b: Any, x: Any) -> Any:
        def loss(w: Any, b: Any) -> Any:
            return rlx.lax.pmean(rnp.mean(rnp.tanh(x * w + b)), "r")

        return rlx.value_and_grad(loss, (0, 1))(w, b)

    def program() -> int:
        mesh = Mesh({"r": 3})
        w, x = arrays()
        graph = shard_map(step, mesh, (P(), P(), P("r")), P()).graph(w, w, x)
        nodes = pipeline((), named_target("x86-64-v3")).run(graph).nodes
        return [node.op.name for node in nodes].count("all_reduce")

    assert simulate(program, 3) == [1, 1, 1]

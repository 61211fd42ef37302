# ruff: noqa: ARG005  each function takes both arrays
"""Programs inside of `shard_map` that rlx and JAX both run, with derivatives by ranks' arrays.

    XLA_FLAGS=--xla_force_host_platform_device_count=6 python -m tests.distributed.varying out.npz

writes what JAX computes. The mesh has two rows of three ranks, `{"rows": 2, "r": 3}`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.distributed import P

Function = Callable[..., Any]


@dataclass(frozen=True)
class Names:
    """What a program calls, of rlx or of JAX."""

    np: Any
    grad: Function
    vjp: Function
    jvp: Function
    vmap: Function
    hessian: Function
    psum: Function
    pmean: Function
    pvary: Function
    ppermute: Function
    all_gather: Function
    """Joined parts, as a value of each rank's own: in JAX that is what it is."""
    all_to_all: Function
    psum_scatter: Function
    axis_index: Function
    scan: Function
    cond: Function
    checkpoint: Function
    custom_vjp: Function


@dataclass(frozen=True)
class Case:
    """A function of `w`, of four numbers, and of rows `x`, of four columns."""

    make: Callable[[Names], Function]
    inputs: str = "shared, split"
    outputs: str = "shared"
    by_hand: Function | None = None
    """The same of whole arrays, in NumPy."""


SPECS: dict[str, Any] = {
    "shared": P(),
    "split": P("r"),
    "grid": P("rows", "r"),
    "shared, split": (P(), P("r")),
    "columns, grid": (P("r"), P("rows", "r")),
}


def arrays() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return np.ones(6, np.float32), random.standard_normal((18, 6)).astype(np.float32)


def _local(n: Names) -> Any:
    return lambda w, x: n.np.sum(n.np.sin(x * w))


def _ring(n: Names, x: Any) -> Any:
    return n.ppermute(x, "r", [(0, 1), (1, 2), (2, 0)])


def _mean_loss(n: Names) -> Any:
    return lambda w, x: n.pmean(_local(n)(w, x), "r")


def _own_part(n: Names) -> Any:
    """Each rank's own gradient, and then their mean."""
    return lambda w, x: n.pmean(n.grad(_local(n))(n.pvary(w, "r"), x), "r")


def _of(change: Callable[[Names, Any], Any], by: int = 0) -> Callable[[Names], Function]:
    """The gradient of a mean over ranks of something that `change` makes of x * w."""

    def make(n: Names) -> Any:
        def loss(w: Any, x: Any) -> Any:
            return n.pmean(n.np.sum(n.np.sin(change(n, x * w)) * w), "r")

        return n.grad(loss, by)

    return make


def _pulled(n: Names) -> Any:
    """The pullback of a cotangent that all ranks have, for a result that they have."""

    def fun(w: Any, x: Any) -> Any:
        return n.vjp(lambda w: n.psum(n.np.sin(x * w), "r"), w)[1](n.np.cos(n.np.ones((6, 1)) * w))[
            0
        ]

    return fun


def _pushed(n: Names) -> Any:
    def fun(w: Any, x: Any) -> Any:
        return n.jvp(lambda w: n.psum(n.np.sum(n.np.sin(x * w), 0), "r"), (w,), (w + 1,))[1]

    return fun


def _second(n: Names) -> Any:
    """The gradient of the square of a gradient."""
    inner = n.grad(_mean_loss(n))
    return n.grad(lambda w, x: n.np.sum(inner(w, x) ** 2))


def _looped(n: Names) -> Any:
    def loss(w: Any, x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return n.np.tanh(c * n.psum(row * w, "r")), n.np.sum(c * row)

        last, rows = n.scan(step, w, x)
        return n.np.sum(last) + n.pmean(n.np.sum(rows), "r")

    return n.grad(loss)


def _chosen(n: Names) -> Any:
    def loss(w: Any, x: Any) -> Any:
        picked = n.cond(w[0] > 0, lambda w: w * x[0], lambda w: w * 2 + 0 * x[0], w)
        return n.pmean(n.np.sum(n.np.sin(picked)), "r")

    return n.grad(loss)


def _stated(n: Names) -> Any:
    """A rule that is linear in its cotangent, of a value that all ranks have."""

    @n.custom_vjp
    def f(w: Any) -> Any:
        return n.np.sin(w)

    f.defvjp(lambda w: (n.np.sin(w), w), lambda w, ct: (2 * ct * n.np.cos(w),))
    return n.grad(lambda w, x: n.pmean(n.np.sum(f(w) * x), "r"))


def _columns(n: Names) -> Any:
    """Weights split over one axis, rows over the other: a product that is summed over one."""

    def loss(w: Any, x: Any) -> Any:
        products = n.psum(x @ w, "r")
        return n.pmean(n.np.sum(n.np.sin(products)), "rows")

    return n.grad(loss)


def _sines(w: Any, x: Any) -> Any:
    return (x * np.cos(x * w)).sum(0)


def _parts(x: Any) -> Any:
    return x.reshape(3, -1, x.shape[1])


def _halo(w: Any, x: Any) -> Any:
    """The gradient of mean(sum(sin(roll(x * w)) * w)): the shares move on, and the sum stays."""
    return (np.sin(x * w).sum(0) + (w * x * np.cos(x * w)).sum(0)) / 3


CASES: dict[str, Case] = {
    "a mean": Case(lambda n: n.grad(_mean_loss(n)), by_hand=lambda w, x: _sines(w, x) / 3),
    "a sum": Case(
        lambda n: n.grad(lambda w, x: n.psum(_local(n)(w, x), "r")), by_hand=_sines
    ),
    "losses of each rank add up": Case(lambda n: n.grad(_local(n)), by_hand=_sines),
    "by each rank's own copy": Case(_own_part, by_hand=lambda w, x: _sines(w, x) / 3),
    "a mean by the rows": Case(
        lambda n: n.grad(_mean_loss(n), 1), outputs="split",
        by_hand=lambda w, x: w * np.cos(x * w) / 3,
    ),
    "a loss of each rank by the rows": Case(
        lambda n: n.grad(_local(n), 1), outputs="split", by_hand=lambda w, x: w * np.cos(x * w)
    ),
    "a loss without rows": Case(
        lambda n: n.grad(lambda w, x: n.np.sum(w**3)), by_hand=lambda w, x: 3 * w**2
    ),
    "a sum of what all have": Case(
        lambda n: n.grad(lambda w, x: n.psum(n.np.sum(w**3), "r")), by_hand=lambda w, x: 9 * w**2
    ),
    "ppermute": Case(_of(_ring), by_hand=_halo),
    "ppermute by the rows": Case(_of(_ring, by=1), outputs="split"),
    "ppermute with holes": Case(_of(lambda n, x: n.ppermute(x, "r", [(0, 2)]))),
    "all_gather": Case(_of(lambda n, x: n.all_gather(x, "r"))),
    "all_gather by the rows": Case(_of(lambda n, x: n.all_gather(x, "r"), by=1), outputs="split"),
    "all_to_all": Case(_of(lambda n, x: n.all_to_all(x, "r")), by_hand=_halo),
    "psum_scatter": Case(
        _of(lambda n, x: n.psum_scatter(x, "r")),
        by_hand=lambda w, x: (
            np.sin(s := _parts(x * w).sum(0)).sum(0)
            + (w * np.cos(s) * _parts(x).sum(0)).sum(0)
        ) / 3,
    ),
    "psum inside": Case(
        lambda n: n.grad(lambda w, x: n.np.sum(n.np.sin(n.psum(x * w, "r")) * w)),
        by_hand=lambda w, x: np.sin(s := _parts(x * w).sum(0)).sum(0)
        + (w * np.cos(s) * _parts(x).sum(0)).sum(0),
    ),
    "axis_index": Case(_of(lambda n, x: x * (1.0 + n.axis_index("r")))),
    "a pullback": Case(_pulled),
    "a pushforward": Case(
        _pushed, by_hand=lambda w, x: (x * np.cos(x * w) * (w + 1)).sum(0)
    ),
    "of a gradient": Case(
        _second,
        by_hand=lambda w, x: 2 * (_sines(w, x) / 3) * (-(x * x * np.sin(x * w)).sum(0) / 3),
    ),
    "a Hessian": Case(
        lambda n: n.hessian(_mean_loss(n)),
        by_hand=lambda w, x: np.diag(-(x * x * np.sin(x * w)).sum(0) / 3),
    ),
    "a loop": Case(_looped),
    "a branch": Case(_chosen),
    "a checkpoint": Case(
        lambda n: n.grad(n.checkpoint(_mean_loss(n))), by_hand=lambda w, x: _sines(w, x) / 3
    ),
    "a stated rule": Case(_stated, by_hand=lambda w, x: 2 * np.cos(w) * x.sum(0) / 3),
    "mapped": Case(
        lambda n: lambda w, x: n.psum(n.np.sum(n.vmap(n.grad(_local(n)), (None, 0))(w, x), 0), "r"),
    ),
    "split weights": Case(_columns, inputs="columns, grid", outputs="split"),
}  # fmt: skip


def main(path: str) -> None:
    """Compute all cases with JAX."""
    import jax
    from jax import lax

    names = Names(
        np=jax.numpy, grad=jax.grad, vjp=jax.vjp, jvp=jax.jvp, vmap=jax.vmap, hessian=jax.hessian,
        psum=lax.psum, pmean=lax.pmean, pvary=functools.partial(lax.pcast, to="varying"),
        ppermute=lax.ppermute, all_gather=functools.partial(lax.all_gather, tiled=True),
        all_to_all=lambda x, axis: lax.all_to_all(x, axis, 0, 0, tiled=True),
        psum_scatter=functools.partial(lax.psum_scatter, tiled=True), axis_index=lax.axis_index,
        scan=lax.scan, cond=lax.cond, checkpoint=jax.checkpoint, custom_vjp=jax.custom_vjp,
    )  # fmt: skip
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 3), ("rows", "r"))

    def spec(given: Any) -> Any:
        return (
            jax.sharding.PartitionSpec(*given) if isinstance(given, P) else tuple(map(spec, given))
        )

    found = {}
    for name, case in CASES.items():
        inputs, outputs = (spec(SPECS[s]) for s in (case.inputs, case.outputs))
        run = jax.shard_map(case.make(names), mesh=mesh, in_specs=inputs, out_specs=outputs)
        found[name] = jax.jit(run)(*arrays())
    np.savez(path, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])

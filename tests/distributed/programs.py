"""Programs that all ranks run: each returns whole arrays, equal on all of them.

    mpirun -n 4 python -m tests.distributed.programs llvm

compares what MPI's ranks compute with threads that stand for them, and prints what it compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, Sharded, initialize, shard_map, simulate
from rlx.distributed.world import current_world

Arrays = list[Any]
Mapped = Callable[..., Any]


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def collectives(backend: str) -> Arrays:
    """Every collective, in f32."""
    n = current_world().size
    ring = [(i, (i + 1) % n) for i in range(n)]

    def exchange(x: Any) -> Any:
        row = x[0] + rlx.axis_index("ranks")
        tiled = rnp.tile(row, (n, 1)) * (1.0 + rnp.arange(n)[:, None])
        return (
            rlx.psum(row, "ranks"),
            rlx.pmax(row, "ranks"),
            rlx.pmin(row, "ranks"),
            rlx.all_gather(row, "ranks"),
            rlx.pbroadcast(row, "ranks", n - 1),
            rlx.psum_scatter(tiled, "ranks", tiled=True),
            rlx.all_to_all(tiled, "ranks", 0, 0, tiled=True),
            rlx.ppermute(x, "ranks", ring),
            rlx.ppermute(x, "ranks", ring[:1]),
            rlx.axis_index("ranks")[None],
        )

    same, split = P(), P("ranks")
    specs = (same, same, same, same, same, split, split, split, split, split)
    run = shard_map(exchange, Mesh({"ranks": n}), split, specs, backend=backend)
    return whole(run(normal(2 * n, 5)))


def dtypes(backend: str) -> Arrays:
    """Sums and extrema of every dtype that has them."""
    n = current_world().size
    results: Arrays = []
    for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "c8"):
        values = (np.arange(3 * n) - (0 if name[0] == "u" else 4)).astype(name)

        def folded(x: Any, real: bool = name[0] != "c") -> Any:
            extrema = (rlx.pmax(x, "ranks"), rlx.pmin(x, "ranks")) if real else (x * 0, x * 0)
            return rlx.psum(x, "ranks"), *extrema

        specs = (P(), *[P() if name[0] != "c" else P("ranks")] * 2)
        run = shard_map(folded, Mesh({"ranks": n}), P("ranks"), specs, backend=backend)
        results += whole(run(values))
    return results


def not_a_number(backend: str) -> Arrays:
    """One rank's NaN is in every extremum and sum, whichever rank it is."""
    n = current_world().size
    values = np.ones((n, n), np.float32)
    values[np.arange(n), np.arange(n)] = np.nan

    def folded(x: Any) -> Any:
        return rlx.pmax(x, "ranks"), rlx.pmin(x, "ranks"), rlx.psum(x, "ranks")

    run = shard_map(folded, Mesh({"ranks": n}), P("ranks"), P(), backend=backend)
    return whole(run(values))


def gradients(backend: str) -> Arrays:
    """The gradient of a mean loss over all ranks, first and second order."""
    n = current_world().size

    def loss(w: Any, x: Any) -> Any:
        return rnp.mean(rnp.tanh(x @ w) ** 2)

    def step(w: Any, x: Any) -> Any:
        value, slope = rlx.value_and_grad(loss)(w, x)
        curved = rlx.grad(lambda v: rnp.sum(rlx.grad(loss)(v, x) ** 2))(w)
        return rlx.pmean((value, slope, curved), "ranks")

    run = shard_map(step, Mesh({"ranks": n}), (P(), P("ranks")), P(), backend=backend)
    return whole(run(normal(5, 3), normal(4 * n, 5)))


def through_collectives(backend: str) -> Arrays:
    """The gradient of a function that exchanges halos inside."""
    n = current_world().size
    ring = [(i, (i + 1) % n) for i in range(n)]

    def local(x: Any) -> Any:
        def total(u: Any) -> Any:
            left = rlx.ppermute(u[-1:], "ranks", ring)
            shifted = rnp.concatenate([left, u[:-1]])
            return rnp.sum((u - shifted) ** 2 * rlx.pmax(rnp.max(u), "ranks"))

        return rlx.grad(total)(x)

    run = shard_map(local, Mesh({"ranks": n}), P("ranks"), P("ranks"), backend=backend)
    return whole(run(normal(4 * n)))


def overlapped(backend: str) -> Arrays:
    """Large sums that begin while something else is computed, and small ones that are joined."""
    n = current_world().size

    def step(a: Any, b: Any) -> Any:
        total = rlx.psum(a @ b, "ranks")
        other = rnp.tanh(b) @ a
        small = [rlx.psum(rnp.sum(a, axis), "ranks") for axis in (0, 1)]
        return total * 0.5, rlx.pmean(other, "ranks"), *small

    run = shard_map(step, Mesh({"ranks": n}), (P("ranks"), P()), P(), backend=backend)
    return whole(run(normal(64 * n, 72), normal(72, 64)))


def grid(backend: str) -> Arrays:
    """A product of matrices that are split over both axes of a mesh."""
    n = current_world().size
    rows, columns = (n // 2, 2) if n % 2 == 0 else (n, 1)
    mesh = Mesh({"rows": rows, "columns": columns})

    def product(a: Any, b: Any) -> Any:
        return rlx.psum(a @ b, "columns")

    specs = (P("rows", "columns"), P("columns"))
    run = shard_map(product, mesh, specs, P("rows"), backend=backend)
    return whole(run(normal(2 * rows, 4 * columns), normal(4 * columns, 3)))


def loops(backend: str) -> Arrays:
    """A loop whose steps exchange."""
    n = current_world().size

    def power(a: Any, x: Any) -> Any:
        def step(v: Any, _: Any) -> Any:
            w = a @ rlx.all_gather(v, "ranks", tiled=True)
            return w / rnp.sqrt(rlx.psum(rnp.sum(w * w), "ranks")), None

        return rlx.scan(step, x, None, length=5)[0]

    run = shard_map(power, Mesh({"ranks": n}), (P("ranks"), P("ranks")), P("ranks"),
                    backend=backend)  # fmt: skip
    a = normal(2 * n, 2 * n)
    return whole(run(a + a.T, np.ones(2 * n, np.float32)))


PROGRAMS: dict[str, Callable[[str], Arrays]] = {
    program.__name__: program
    for program in (
        collectives, dtypes, not_a_number, gradients, through_collectives, overlapped, grid, loops,
    )
}  # fmt: skip


def whole(results: Any) -> Arrays:
    """Return results as whole arrays."""
    leaves = results if isinstance(results, (tuple, list)) else (results,)
    return [leaf.gather() if isinstance(leaf, Sharded) else leaf for leaf in leaves]


def main(backend: str) -> None:
    world = initialize()
    for name, program in PROGRAMS.items():
        results = program(backend)
        meaning = simulate(functools.partial(program, backend), world.size)[world.rank]
        for result, expected in zip(results, meaning, strict=True):
            assert result.dtype == expected.dtype, (name, result.dtype, expected.dtype)
            largest = np.nanmax(np.abs(expected), initial=1.0)  # sums are rounded at its scale
            np.testing.assert_allclose(
                result, expected, rtol=2e-5, atol=1e-6 * largest, err_msg=name
            )
        if world.rank == 0:
            print(f"{name}: {len(results)} results agree")


if __name__ == "__main__":
    main(sys.argv[1])

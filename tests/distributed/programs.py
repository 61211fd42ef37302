"""Programs that all ranks run: each returns whole arrays, equal on all of them.

    mpirun -n 4 python -m tests.distributed.programs llvm [name ...]

compares what MPI's ranks compute with threads that stand for them, and prints what it compared.
"""

from __future__ import annotations

import functools
import hashlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, Sharded, initialize, shard_map, simulate
from rlx.distributed.world import current_world
from rlx.ir.dtype import DType

Arrays = list[Any]


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def collectives(backend: str) -> Arrays:
    """Every collective, in f32."""
    n = current_world().size
    ring = [(i, (i + 1) % n) for i in range(n)]

    def exchange(x: Any) -> Any:
        row = x[0] + rlx.distributed.axis_index("ranks")
        tiled = rnp.tile(row, (n, 1)) * (1.0 + rnp.arange(n)[:, None])
        return (
            rlx.distributed.psum(row, "ranks"),
            rlx.distributed.pmax(row, "ranks"),
            rlx.distributed.pmin(row, "ranks"),
            rlx.distributed.all_gather(row, "ranks"),
            rlx.distributed.pbroadcast(row, "ranks", n - 1),
            rlx.distributed.psum_scatter(tiled, "ranks", tiled=True),
            rlx.distributed.all_to_all(tiled, "ranks", 0, 0, tiled=True),
            rlx.distributed.ppermute(x, "ranks", ring),
            rlx.distributed.ppermute(x, "ranks", ring[:1]),
            rlx.distributed.axis_index("ranks")[None],
        )

    same, split = P(), P("ranks")
    specs = (same, same, same, same, same, split, split, split, split, split)
    run = shard_map(exchange, Mesh({"ranks": n}), split, specs, backend=backend)
    return whole(run(normal(2 * n, 5)))


def dtypes(backend: str) -> Arrays:
    """Sums and extrema of every dtype that has them."""
    n = current_world().size
    results: Arrays = []
    for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8"):
        values = (np.arange(3 * n) - (0 if name[0] == "u" else 4)).astype(name)

        def folded(x: Any, real: bool = name[0] != "c") -> Any:
            extrema = (
                (rlx.distributed.pmax(x, "ranks"), rlx.distributed.pmin(x, "ranks"))
                if real
                else (x * 0, x * 0)
            )
            return rlx.distributed.psum(x, "ranks"), *extrema

        specs = (P(), *[P() if name[0] != "c" else P("ranks")] * 2)
        run = shard_map(folded, Mesh({"ranks": n}), P("ranks"), specs, backend=backend)
        results += whole(run(values))
    return results


def moved(axis: str, n: int, x: Any) -> tuple[Any, ...]:
    """Everything that moves elements as they are, of `x` whose extents are multiples of `n`."""
    ring = [(i, (i + 1) % n) for i in range(n)]
    return (
        rlx.distributed.all_gather(x, axis, tiled=True),
        rlx.distributed.all_to_all(x, axis, 0, 0, tiled=True),
        rlx.distributed.all_to_all(x, axis, 1, 0, tiled=True),
        rlx.distributed.pbroadcast(x, axis, n - 1),
        rlx.distributed.ppermute(x, axis, ring),
        rlx.distributed.ppermute(x, axis, ring[1:]),
    )


def moved_dtypes(backend: str) -> Arrays:
    """Every collective that moves elements, and sums in a wider dtype, of every dtype."""
    n = current_world().size
    results: Arrays = []
    for name in ("f8", "f2", "bfloat16", "i1", "u1", "i8", "c8", "bool"):
        dtype = DType.BF16.numpy if name == "bfloat16" else np.dtype(name)
        values = (np.arange(n * 2 * n * n) % 7).reshape(2 * n * n, n).astype(dtype)

        def exchanged(x: Any, dtype: Any = dtype) -> Any:
            added = (
                [] if dtype.kind in "b" else [rlx.distributed.psum_scatter(x, "ranks", tiled=True)]
            )
            folded = [rlx.distributed.psum(x, "ranks")]
            folded += (
                []
                if dtype.kind == "c"
                else [rlx.distributed.pmax(x, "ranks"), rlx.distributed.pmin(x, "ranks")]
            )
            return [*moved("ranks", n, x), *added], folded

        specs = (P("ranks"), P())
        run = shard_map(exchanged, Mesh({"ranks": n}), P("ranks"), specs, backend=backend)
        results += [leaf for part in run(values) for leaf in whole(part)]
    return results


def sizes(backend: str) -> Arrays:
    """Arrays of one element, of odd extents, without elements, and scalars."""
    n = current_world().size

    def exchanged(x: Any) -> Any:
        row = x[0]
        scattered = rlx.distributed.psum_scatter(rnp.stack([row] * n), "ranks")
        turned = rlx.distributed.all_to_all(rnp.stack([row] * n), "ranks", 0, 0)
        same = (
            rlx.distributed.psum(row, "ranks"),
            rlx.distributed.pmean(row, "ranks"),
            rlx.distributed.all_gather(row, "ranks"),
        )
        own = scattered, turned, rlx.distributed.ppermute(row, "ranks", [(0, n - 1)])
        return same, [each[None] for each in own]

    results: Arrays = []
    for shape in ((), (1,), (7,), (0,), (3, 5), (2, 0, 3)):
        run = shard_map(
            exchanged, Mesh({"ranks": n}), P("ranks"), (P(), P("ranks")), backend=backend
        )
        values = np.arange(n * math.prod(shape), dtype=np.float32).reshape(n, *shape)
        results += [leaf for part in run(values) for leaf in whole(part)]
    return results


def not_a_number(backend: str) -> Arrays:
    """One rank's NaN is in every extremum and sum, whichever rank it is."""
    n = current_world().size
    values = np.ones((n, n), np.float32)
    values[np.arange(n), np.arange(n)] = np.nan

    def folded(x: Any) -> Any:
        return (
            rlx.distributed.pmax(x, "ranks"),
            rlx.distributed.pmin(x, "ranks"),
            rlx.distributed.psum(x, "ranks"),
        )

    run = shard_map(folded, Mesh({"ranks": n}), P("ranks"), P(), backend=backend)
    return whole(run(values))


def gradients(backend: str) -> Arrays:
    """The gradient of a mean loss over all ranks, first and second order."""
    n = current_world().size

    def loss(w: Any, x: Any) -> Any:
        return rlx.distributed.pmean(rnp.mean(rnp.tanh(x @ w) ** 2), "ranks")

    def step(w: Any, x: Any) -> Any:
        value, slope = rlx.value_and_grad(loss)(w, x)
        curved = rlx.grad(lambda v: rnp.sum(rlx.grad(loss)(v, x) ** 2))(w)
        own = rlx.grad(lambda v: rnp.mean(rnp.tanh(x @ v) ** 2))(rlx.distributed.pvary(w, "ranks"))
        return value, slope, curved, rlx.distributed.pmean(own, "ranks")

    run = shard_map(step, Mesh({"ranks": n}), (P(), P("ranks")), P(), backend=backend)
    return whole(run(normal(5, 3), normal(4 * n, 5)))


def through_collectives(backend: str) -> Arrays:
    """The gradient of a function that exchanges halos inside."""
    n = current_world().size
    ring = [(i, (i + 1) % n) for i in range(n)]

    def local(x: Any) -> Any:
        def total(u: Any) -> Any:
            left = rlx.distributed.ppermute(u[-1:], "ranks", ring)
            shifted = rnp.concatenate([left, u[:-1]])
            return rnp.sum((u - shifted) ** 2 * rlx.distributed.pmax(rnp.max(u), "ranks"))

        return rlx.grad(total)(x)

    run = shard_map(local, Mesh({"ranks": n}), P("ranks"), P("ranks"), backend=backend)
    return whole(run(normal(4 * n)))


def overlapped(backend: str) -> Arrays:
    """Large sums that begin while something else is computed, and small ones that are joined."""
    n = current_world().size

    def step(a: Any, b: Any) -> Any:
        total = rlx.distributed.psum(a @ b, "ranks")
        other = rnp.tanh(b) @ a
        small = [rlx.distributed.psum(rnp.sum(a, axis), "ranks") for axis in (0, 1)]
        return total * 0.5, rlx.distributed.pmean(other, "ranks"), *small

    run = shard_map(step, Mesh({"ranks": n}), (P("ranks"), P()), P(), backend=backend)
    return whole(run(normal(64 * n, 72), normal(72, 64)))


def grid(backend: str) -> Arrays:
    """A product of matrices that are split over both axes of a mesh."""
    n = current_world().size
    rows, columns = (n // 2, 2) if n % 2 == 0 else (n, 1)
    mesh = Mesh({"rows": rows, "columns": columns})

    def product(a: Any, b: Any) -> Any:
        return rlx.distributed.psum(a @ b, "columns")

    specs = (P("rows", "columns"), P("columns"))
    run = shard_map(product, mesh, specs, P("rows"), backend=backend)
    return whole(run(normal(2 * rows, 4 * columns), normal(4 * columns, 3)))


def both_axes(backend: str) -> Arrays:
    """Every collective along each axis of a mesh of two, and sums over both."""
    n = current_world().size
    rows, columns = (n // 2, 2) if n % 2 == 0 else (n, 1)
    mesh = Mesh({"rows": rows, "columns": columns})

    def exchanged(x: Any) -> Any:
        place = 10 * rlx.distributed.axis_index("rows") + rlx.distributed.axis_index("columns")
        parts = [*moved("rows", rows, x + place), *moved("columns", columns, x + place)]
        parts.append(rlx.distributed.psum_scatter(x, "rows", tiled=True))
        parts.append(rlx.distributed.psum_scatter(x, "columns", scatter_dimension=1, tiled=True))
        parts += [
            rlx.distributed.pmax(x, "rows"),
            rlx.distributed.pmin(x, "columns"),
            rlx.distributed.pmean(x, ("rows", "columns")),
        ]
        return parts

    spec = P("rows", "columns")
    run = shard_map(exchanged, mesh, spec, spec, backend=backend)
    return whole(run(normal(rows * 4, columns * 4)))


def mapped_over(backend: str) -> Arrays:
    """Collectives of ranks under `vmap`, and the gradient of each of them."""
    n = current_world().size

    def each(x: Any) -> Any:
        extrema = rlx.distributed.pmax(x, "ranks"), rlx.distributed.pmin(x, "ranks")
        scattered = rlx.distributed.psum_scatter(x, "ranks", tiled=True)
        return [*moved("ranks", n, x), *extrema, scattered, rlx.distributed.psum(x, "ranks")]

    def local(x: Any) -> Any:
        def loss(v: Any, number: Any) -> Any:
            parts = [rnp.sum(rnp.sin(part)) for part in each(v)]
            return rnp.sum(rnp.stack(parts) * (rnp.arange(len(parts)) == number))

        values = rlx.vmap(each)(x)
        numbers = rnp.arange(len(values))
        slopes = rlx.vmap(rlx.vmap(rlx.grad(loss), in_axes=(None, 0)), in_axes=(0, None))
        return values, slopes(x, numbers)

    run = shard_map(local, Mesh({"ranks": n}), P(None, "ranks"), P("ranks"), backend=backend)
    return [leaf for part in run(normal(3, 2 * n * n, n)) for leaf in whole(part)]


def loops(backend: str) -> Arrays:
    """A loop whose steps exchange."""
    n = current_world().size

    def power(a: Any, x: Any) -> Any:
        def step(v: Any, _: Any) -> Any:
            w = a @ rlx.distributed.all_gather(v, "ranks", tiled=True)
            return w / rnp.sqrt(rlx.distributed.psum(rnp.sum(w * w), "ranks")), None

        return rlx.scan(step, x, None, length=5)[0]

    run = shard_map(power, Mesh({"ranks": n}), (P("ranks"), P("ranks")), P("ranks"),
                    backend=backend)  # fmt: skip
    a = normal(2 * n, 2 * n)
    return whole(run(a + a.T, np.ones(2 * n, np.float32)))


PROGRAMS: dict[str, Callable[[str], Arrays]] = {
    program.__name__: program
    for program in (
        collectives, dtypes, moved_dtypes, sizes, not_a_number, gradients, through_collectives,
        overlapped, grid, both_axes, mapped_over, loops,
    )
}  # fmt: skip


def whole(results: Any) -> Arrays:
    """Return results as whole arrays."""
    leaves = results if isinstance(results, (tuple, list)) else (results,)
    return [leaf.gather() if isinstance(leaf, Sharded) else leaf for leaf in leaves]


def digest(results: Arrays) -> str:
    """Return a number for all bits of some arrays."""
    return hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in results)).hexdigest()[:16]


def compare(name: str, result: Any, expected: Any) -> None:
    """Require that both are equal but for the order in which sums are rounded."""
    assert result.dtype == expected.dtype, (name, result.dtype, expected.dtype)
    assert result.shape == expected.shape, (name, result.shape, expected.shape)
    result, expected = (x.astype(np.float32) if x.dtype == DType.BF16.numpy else x
                        for x in (result, expected))  # fmt: skip
    largest = np.nanmax(np.abs(expected), initial=1.0) if expected.dtype.kind in "fc" else 1.0
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6 * largest, err_msg=name)


def main(backend: str, *names: str) -> None:
    world = initialize()
    for name in names or PROGRAMS:
        program = PROGRAMS[name]
        results = program(backend)
        meaning = simulate(functools.partial(program, backend), world.size)[world.rank]
        for result, expected in zip(results, meaning, strict=True):
            compare(name, result, expected)
        if world.rank == 0:
            print(f"{name}: {len(results)} results agree, {digest(results)}")


if __name__ == "__main__":
    main(*sys.argv[1:])

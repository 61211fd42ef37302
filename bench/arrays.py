"""What array programs call: transforms, sorting, random numbers and decompositions, next to peers.

    python -m bench.arrays [pattern ...] [--threads 1] [--rounds 7]

Every library gets its own arrays before the clock starts, and each round calls all of them in turn.
With one thread the process is bound to one core, so that no library has another one.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Run: TypeAlias = Callable[[], Any]

_LEAST_SECONDS = 0.02
"""A measurement repeats a call until it took so long."""


@dataclass(frozen=True, slots=True)
class Row:
    """One call, under the name that NumPy has for it."""

    name: str
    function: str
    make: Callable[[np.random.Generator], Array]
    results: int = 1


def _complex(*shape: int) -> Callable[[np.random.Generator], Array]:
    def make(rng: np.random.Generator) -> Array:
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)

    return make


def _real(*shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def _symmetric(*shape: int) -> Callable[[np.random.Generator], Array]:
    def make(rng: np.random.Generator) -> Array:
        x = rng.standard_normal(shape).astype(np.float32)
        return x + np.swapaxes(x, -1, -2)

    return make


def _hermitian(*shape: int) -> Callable[[np.random.Generator], Array]:
    def make(rng: np.random.Generator) -> Array:
        x = _complex(*shape)(rng)
        return x + np.swapaxes(x.conj(), -1, -2)

    return make


def _positive(*shape: int) -> Callable[[np.random.Generator], Array]:
    def make(rng: np.random.Generator) -> Array:
        x = _complex(*shape)(rng)
        return np.asarray(
            x @ np.swapaxes(x.conj(), -1, -2) + np.eye(shape[-1], dtype=np.complex64), np.complex64
        )

    return make


ROWS = (
    Row("fft 1024x1024", "fft.fft", _complex(1024, 1024)),
    Row("fft 1000x1000", "fft.fft", _complex(1000, 1000)),
    Row("fft 4096x64", "fft.fft", _complex(4096, 64)),
    Row("fft 1024x1009 (prime)", "fft.fft", _complex(1024, 1009)),
    Row("fft 2^20", "fft.fft", _complex(1 << 20)),
    Row("fft 1024", "fft.fft", _complex(1024)),
    Row("fftn 200^3", "fft.fftn", _complex(200, 200, 200)),
    Row("rfft 1024x1024", "fft.rfft", _real(1024, 1024)),
    Row("sort 10^6", "sort", _real(10**6)),
    Row("sort 1000x1000", "sort", _real(1000, 1000)),
    Row("sort 10^5 x 16", "sort", _real(10**5, 16)),
    Row("argsort 10^6", "argsort", _real(10**6)),
    Row("argsort 1000x1000", "argsort", _real(1000, 1000)),
    Row("eigh 1000 of 8x8", "linalg.eigh", _symmetric(1000, 8, 8), 2),
    Row("eigh 500x500", "linalg.eigh", _symmetric(500, 500), 2),
    Row("qr 1000 of 8x8", "linalg.qr", _real(1000, 8, 8), 2),
    Row("qr 500x500", "linalg.qr", _real(500, 500), 2),
    Row("svd 1000 of 8x8", "linalg.svd", _real(1000, 8, 8), 3),
    Row("svd 500x500", "linalg.svd", _real(500, 500), 3),
    Row("eigh 1000 of 8x8 complex", "linalg.eigh", _hermitian(1000, 8, 8), 2),
    Row("eigh 300x300 complex", "linalg.eigh", _hermitian(300, 300), 2),
    Row("qr 1000 of 8x8 complex", "linalg.qr", _complex(1000, 8, 8), 2),
    Row("svd 1000 of 8x8 complex", "linalg.svd", _complex(1000, 8, 8), 3),
    Row("inv 1000 of 8x8 complex", "linalg.inv", _complex(1000, 8, 8)),
    Row("inv 300x300 complex", "linalg.inv", _complex(300, 300)),
    Row("cholesky 300x300 complex", "linalg.cholesky", _positive(300, 300)),
    Row("det 300x300 complex", "linalg.det", lambda rng: _complex(300, 300)(rng) / 17),
    Row("normal 10^6", "random.normal", _real(10**6)),
    Row("uniform 10^6", "random.uniform", _real(10**6)),
)


def _named(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _rlx(row: Row, x: Array) -> Run:
    import rlx
    import rlx.numpy as rnp

    if row.function.startswith("random."):
        draw = rlx.jit(lambda key: _named(rlx, row.function)(key, x.shape))
        key = rlx.random.key(0)
        return lambda: draw(key)
    compiled = rlx.jit(_named(rnp, row.function))
    return lambda: compiled(x)


def _numpy(row: Row, x: Array) -> Run:
    if row.function.startswith("random."):
        rng = np.random.default_rng(0)
        draw = rng.standard_normal if row.function.endswith("normal") else rng.random
        return lambda: draw(x.shape, np.float32)
    function = _named(np, row.function)
    return lambda: function(x)


def _scipy(row: Row, x: Array) -> Run | None:
    import scipy

    if not row.function.startswith("fft."):
        return None
    function, workers = _named(scipy, row.function), len(os.sched_getaffinity(0))
    return lambda: function(x, workers=workers)


def _jax(row: Row, x: Array) -> Run:
    import jax
    import jax.numpy as jnp

    if row.function.startswith("random."):
        draw = jax.jit(lambda key: _named(jax, row.function)(key, x.shape))
        key = jax.random.key(0)
        return lambda: jax.block_until_ready(draw(key))
    compiled, given = jax.jit(_named(jnp, row.function)), jnp.asarray(x)
    return lambda: jax.block_until_ready(compiled(given))


def _torch(row: Row, x: Array) -> Run:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if row.function.startswith("random."):
        draw = torch.randn if row.function.endswith("normal") else torch.rand
        return lambda: draw(x.shape)
    function, given = _named(torch, row.function), torch.from_numpy(x)
    return lambda: function(given)


PEERS: dict[str, Callable[[Row, Array], Run | None]] = {
    "rlx": _rlx, "numpy": _numpy, "scipy": _scipy, "jax": _jax, "torch": _torch,
}  # fmt: skip


def measure(row: Row, rounds: int, peers: list[str]) -> dict[str, float]:
    """Return the median seconds of a call in each library."""
    x = row.make(np.random.default_rng(0))
    runs = {name: PEERS[name](row, x) for name in peers}
    calls = {name: run for name, run in runs.items() if run is not None}
    counts, times = {}, {name: [] for name in calls}  # type: dict[str, int], dict[str, list[float]]
    for name, run in calls.items():
        run()
        counts[name] = max(1, int(_LEAST_SECONDS / _seconds(run, 1)))
    for _ in range(rounds):
        for name, run in calls.items():
            times[name].append(_seconds(run, counts[name]))
    return {name: median(each) for name, each in times.items()}


def _seconds(run: Run, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - started) / count


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.arrays", description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="names or patterns; default: all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    patterns = options.rows or ["*"]
    print(f"| {options.threads} thread(s), us | {' | '.join(options.peers)} | rlx / best peer |")
    print("| --- |" + " ---: |" * (len(options.peers) + 1))
    for row in ROWS:
        if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns):
            times = measure(row, options.rounds, options.peers)
            others = [seconds for name, seconds in times.items() if name != "rlx"]
            cells = [f"{times[name] * 1e6:.0f}" if name in times else "" for name in options.peers]
            ratio = f"{times['rlx'] / min(others):.2f}" if others else ""
            print(f"| {row.name} | {' | '.join(cells)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()

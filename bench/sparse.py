"""Sparse Jacobians as C, of rlx and of CasADi where it is installed; patterns of 1e5 unknowns.

    python -m bench.sparse [stages ...]

Multiple shooting of a cart-pole, four states and one input, by the method of Runge and Kutta:
`x[k + 1] - step(x[k], u[k])`, five unknowns and 19 nonzeros a stage. Both makers' C is compiled by
GCC with `-O3 -march=native` and runs on one thread, by turns; the least time counts. CasADi's C is
compiled up to 60 stages only, which takes it a minute.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.sparse.coloring import color_jacobian

WEIGHTS = np.array([[0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1, 1 / 6]])
STEP = 0.02
ROUNDS, RUNS = 30, 100


def slope(x: Any, u: Any, library: ModuleType) -> tuple[Any, ...]:
    """Return the derivatives of position, speed, angle and angular speed."""
    _, speed, angle, turning = x
    sine, cosine = library.sin(angle), library.cos(angle)
    push = (u + 0.05 * turning * turning * sine) / 1.1
    turn = (9.81 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    return speed, push - 0.05 * turn * cosine / 1.1, turning, turn


def moved(x: Any, h: Any, k: Any) -> tuple[Any, ...]:
    return tuple(a + h * b for a, b in zip(x, k, strict=True))


def step(x: Any, u: Any) -> Any:
    def stage(carry: Any, weights: Any) -> Any:
        k, total = carry
        k = slope(moved(x, STEP * weights[0], k), u, rnp)
        return (k, moved(total, STEP * weights[1], k)), None

    return rlx.scan(stage, ((0.0,) * 4, x), WEIGHTS)[0][1]


def defects(z: Any, stages: int) -> Any:
    states, inputs = z[: 4 * stages + 4].reshape(-1, 4), z[4 * stages + 4 :]
    following = rlx.vmap(step)(tuple(states[:-1, i] for i in range(4)), inputs)
    return (states[1:] - rnp.stack(following, 1)).ravel()


def by_rlx(z: Any, stages: int, place: Path) -> tuple[str, Callable[[], None]]:
    """Return a row about rlx, and what runs its C."""
    begun = time.perf_counter()
    pattern = rlx.jacobian_sparsity(lambda at: defects(at, stages))(z)
    coloring = color_jacobian(pattern)
    found = time.perf_counter() - begun
    jacobian = rlx.jit(
        rlx.sparse_jacobian(lambda at: defects(at, stages), sparsity=pattern), backend="c"
    )
    artifact = rlx.aot(jacobian, place, name="jac", example_inputs=[z], target="native")
    rlx.aot(jacobian, place / "small", name="jac", example_inputs=[z], optimize="size",
            emit_only=True)  # fmt: skip
    begun = time.perf_counter()
    subprocess.run(["gcc", "-O3", "-march=native", "-w", "-c", "jac.c", "-o", "jac.o"],
                   cwd=place, check=True)  # fmt: skip
    compiled = time.perf_counter() - begun
    library = ctypes.CDLL(str(artifact.library))
    block = np.zeros(artifact.arena_bytes + 64, np.uint8)
    arena = ctypes.c_void_p(block.ctypes.data + -block.ctypes.data % 64)
    at = np.ascontiguousarray(z).ctypes.data_as(ctypes.c_void_p)
    assert library.jac_init(arena, ctypes.c_size_t(artifact.arena_bytes)) == 0
    assert library.jac_setup(arena) == 0
    assert library.jac_call(arena, at, None) == 0
    sizes = [(folder / "jac.c").stat().st_size for folder in (place, place / "small")]
    passes = f"{coloring.forward} + {coloring.reverse}"
    row = f"{pattern.nnz} | {passes} | {found:.2f} s | {sizes[0]} | {sizes[1]} | {compiled:.1f} s"
    return row, lambda: (library.jac_run(arena), block)[0]


def by_casadi(z: Any, stages: int, place: Path) -> tuple[str, Callable[[], None]]:
    """Return a row about CasADi, and what runs its C."""
    ca = importlib.import_module("casadi")

    def following(x: Any, u: Any) -> Any:
        k: Any = (0.0,) * 4
        total = x
        for a, b in WEIGHTS.tolist():
            k = slope(moved(x, STEP * a, k), u, ca)
            total = moved(total, STEP * b, k)
        return total

    begun = time.perf_counter()
    at = ca.SX.sym("z", len(z))
    rows = [
        at[4 * k + 4 + i] - next_state
        for k in range(stages)
        for i, next_state in enumerate(
            following([at[4 * k + i] for i in range(4)], at[4 * stages + 4 + k])
        )
    ]
    jacobian = ca.jacobian(ca.vertcat(*rows), at)
    found = time.perf_counter() - begun
    generator = ca.CodeGenerator("shooting")
    generator.add(ca.Function("shooting", [at], [jacobian]))
    generator.generate(f"{place}/")
    begun = time.perf_counter()
    subprocess.run(["gcc", "-O3", "-march=native", "-w", "-shared", "-fPIC", "shooting.c",
                    "-o", "shooting.so", "-lm"], cwd=place, check=True)  # fmt: skip
    compiled = time.perf_counter() - begun
    library = ctypes.CDLL(str(place / "shooting.so"))
    data, work = np.zeros(jacobian.nnz()), np.zeros(1 << 17)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (z, data)]
    arg, res = ((ctypes.c_void_p * 1)(pointer) for pointer in pointers)
    size = (place / "shooting.c").stat().st_size
    row = f"{jacobian.nnz()} | - | {found:.2f} s | {size} | - | {compiled:.1f} s"
    kept = ctypes.c_void_p(work.ctypes.data)
    return row, lambda: (library.shooting(arg, res, None, kept, 0), work, data, z)[0]


def least_times(programs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the least time of a run of each, in microseconds."""
    least = dict.fromkeys(programs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in programs.items():
            begun = time.perf_counter()
            for _ in range(RUNS):
                run()
            least[name] = min(least[name], (time.perf_counter() - begun) / RUNS * 1e6)
    return least


def shooting(stages: int) -> None:
    z = np.random.default_rng(0).normal(size=5 * stages + 4)
    makers: dict[str, Any] = {"rlx": by_rlx}
    if stages <= 60:
        if importlib.util.find_spec("casadi"):
            makers["casadi"] = by_casadi
        else:
            print("casadi is not installed", file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        made: dict[str, tuple[str, Callable[[], None]]] = {}
        for name, maker in makers.items():
            place = Path(directory) / name
            place.mkdir()
            made[name] = maker(z, stages, place)
        times = least_times({name: run for name, (_, run) in made.items()})
    for name, (row, _) in made.items():
        print(f"| {stages} stages | {name} | {row} | {times[name]:.1f} us |", flush=True)


def elliptic(n: int) -> None:
    """Print what the five-point stencil on `n * n` points takes."""

    def residual(flat: Any) -> Any:
        u = rnp.pad(flat.reshape(n, n), 1)
        inner = u[1:-1, 1:-1]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return (4 * inner - around + rnp.exp(inner)).ravel()

    begun = time.perf_counter()
    pattern = rlx.jacobian_sparsity(residual)(np.zeros(n * n))
    found = time.perf_counter()
    coloring = color_jacobian(pattern)
    done = time.perf_counter()
    print(f"{pattern}: pattern {found - begun:.2f} s, "
          f"{coloring.forward} + {coloring.reverse} colours {done - found:.2f} s")  # fmt: skip


def main() -> None:
    head = ("program", "C by", "nonzeros", "passes", "structure", "C", "C for size", "gcc -O3")
    print(f"| {' | '.join(head)} | run |")
    print("|" + "---|" * 9)
    for stages in map(int, sys.argv[1:] or ("60", "1000")):
        shooting(stages)
    elliptic(316)


if __name__ == "__main__":
    main()

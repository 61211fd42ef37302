"""Solvers of `rlx.optimize`: an iteration of `sqp` and of CasADi's, and sparse quadratic programs.

    python -m bench.optimize

A pendulum is swung to rest in six steps by multiple shooting, 18 unknowns with bounds, by `sqp` and
by CasADi's `sqpmethod` with `qrqp`, in turn. Then a double integrator over 50 and 200 steps by
`solve_qp` with dense and with sparse matrices. Microseconds, the least of 30 runs.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.optimize import solve_qp, sqp
from rlx.sparse import SparseMatrix
from rlx.sparse.pattern import from_entries

STEPS, ROUNDS = 6, 30
BOUND = np.concatenate([np.full(2 * STEPS, 5.0), np.full(STEPS, 8.0)])
START = np.zeros(3 * STEPS)


def following(angle: Any, speed: Any, u: Any, sine: Any) -> tuple[Any, Any]:
    return angle + 0.1 * speed, speed + 0.1 * (u + 9.81 * sine(angle) - 0.1 * speed)


def cost(z: Any) -> Any:
    return (z[: 2 * STEPS] ** 2).sum() + 0.1 * (z[2 * STEPS :] ** 2).sum()


def defects(z: Any) -> Any:
    states = z[: 2 * STEPS].reshape(STEPS, 2)
    before = rnp.concatenate([np.array([[0.5, 0.0]]), states[:-1]])
    after = following(before[:, 0], before[:, 1], z[2 * STEPS :], rnp.sin)
    return (states - rnp.stack(after, 1)).ravel()


def by_rlx() -> tuple[Callable[[], Any], int]:
    solve = rlx.jit(lambda z, bound: sqp(cost, z, defects, lower=-bound, upper=bound))
    return lambda: solve(START, BOUND), int(solve(START, BOUND).iterations)


def by_casadi() -> tuple[Callable[[], Any], int]:
    import casadi as ca

    z = ca.SX.sym("z", 3 * STEPS)
    rows, before = [], (0.5, 0.0)
    for k in range(STEPS):
        after = following(*before, z[2 * STEPS + k], ca.sin)
        rows += [z[2 * k] - after[0], z[2 * k + 1] - after[1]]
        before = z[2 * k], z[2 * k + 1]
    total = ca.sumsqr(z[: 2 * STEPS]) + 0.1 * ca.sumsqr(z[2 * STEPS :])
    quiet = dict.fromkeys(("print_header", "print_iteration", "print_time", "print_status"), False)
    inner = dict.fromkeys(("print_header", "print_iter", "print_info"), False)
    options = {**quiet, "qpsol": "qrqp", "qpsol_options": inner, "tol_pr": 1e-8, "tol_du": 1e-8}
    program = {"x": z, "f": total, "g": ca.vertcat(*rows)}
    solver = ca.nlpsol("solver", "sqpmethod", program, options)
    given = {"x0": START, "lbx": -BOUND, "ubx": BOUND, "lbg": 0, "ubg": 0}
    solver(**given)
    return lambda: solver(**given), int(solver.stats()["iter_count"])


def horizon(steps: int) -> Mapping[str, Callable[[], Any]]:
    """Return runs of a linear controller's quadratic program, dense and sparse."""
    moves = np.kron(np.eye(steps, k=-1), [[1.0, 0.1, 0], [0, 1, 0]])
    a = np.kron(np.eye(steps), [[1.0, 0, -0.005], [0, 1, -0.1]]) - moves
    p = np.kron(np.eye(steps), np.diag([1.0, 0.1, 0.01]))
    b = np.append([1.0, 0.5], np.zeros(2 * steps - 2))
    bound, q = np.tile([np.inf, 0.6, 1.0], steps), np.zeros(3 * steps)

    @rlx.jit
    def solve(p: Any, a: Any) -> Any:
        return solve_qp(p, q, a, b, lower=-bound, upper=bound)

    sparse = [stored(each) for each in (p, a)]
    return {"dense": lambda: solve(p, a), "sparse": lambda: solve(*sparse)}


def stored(dense: Any) -> SparseMatrix:
    rows, columns = np.nonzero(dense)
    return SparseMatrix(dense[rows, columns], from_entries(rows, columns, dense.shape))


def least_times(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    least = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            least[name] = min(least[name], (time.perf_counter() - begun) * 1e6)
    return least


def main() -> None:
    makers = {"rlx": by_rlx}
    if importlib.util.find_spec("casadi"):
        makers["casadi"] = by_casadi
    made = {name: maker() for name, maker in makers.items()}
    for name, best in least_times({name: run for name, (run, _) in made.items()}, ROUNDS).items():
        count = made[name][1]
        print(f"sqp, {name}: {best:.0f} us, {count} iterations, {best / count:.0f} us each")
    for steps in (50, 200):
        times = least_times(horizon(steps), ROUNDS // 10)
        print(f"solve_qp, {steps} steps: " + ", ".join(f"{k} {v:.0f} us" for k, v in times.items()))


if __name__ == "__main__":
    main()

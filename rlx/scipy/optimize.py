"""`minimize`: BFGS in one compiled loop, with a line search that satisfies Wolfe's conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.public_names import names_of as _names_of
from rlx.transforms.control import while_loop
from rlx.transforms.differentiate import value_and_grad

_DECREASE, _CURVATURE, _MOST_TRIALS = 1e-4, 0.9, 40


class OptimizeResults(NamedTuple):
    """Where the search ended, and how."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str = "BFGS",
    tol: float | None = None, options: Mapping[str, Any] | None = None,
) -> OptimizeResults:  # fmt: skip
    """Minimize a scalar function of a vector; options are `gtol`, `maxiter` and `norm`."""
    given = _known_options(method, options)
    x = _start(x0)
    limit = given.get("gtol", 1e-5 if tol is None else tol)
    most, order = given.get("maxiter"), given.get("norm", rnp.inf)
    most = 200 * x.shape[0] if most is None else most
    slope_of = value_and_grad(lambda x: fun(x, *args))
    value, slope = slope_of(x)
    unit = rnp.eye(x.shape[0], dtype=x.dtype)

    def moves(state: Any) -> Any:
        k, _, _, slope, _, _, failed = state
        is_steep = rnp.greater(rnp.linalg.norm(slope, order), limit)
        going = rnp.logical_and(rnp.less(k, most), is_steep)
        return rnp.logical_and(going, rnp.logical_not(failed))

    def step(state: Any) -> Any:
        return _bfgs_step(slope_of, state, unit)

    state = (0, x, value, slope, unit, 1, False)
    return _results(while_loop(moves, step, state), limit, order)


def _known_options(method: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    if method.upper() != "BFGS":
        raise UnsupportedError(f"minimize has no method {method!r}", remedy="use 'BFGS'")
    given = dict(options or {})
    unknown = given.keys() - {"gtol", "maxiter", "norm"}
    if unknown:
        raise InputError(
            f"minimize has no option {min(unknown)!r}", remedy="use gtol, maxiter or norm"
        )
    return given


def _start(x0: Any) -> Any:
    """Return the first point: a vector of floats."""
    x = rnp.asarray(x0)
    if x.ndim != 1:
        raise ShapeError(f"x0 has {x.ndim} axes; it must have one", remedy="give a vector")
    return x if rnp.issubdtype(x.dtype, rnp.floating) else x.astype("f32")


def _bfgs_step(slope_of: Any, state: Any, unit: Any) -> Any:
    """Search along the quasi-Newton direction, and update the inverse Hessian."""
    k, x, value, slope, inverse, count, _ = state
    way = -(inverse @ slope)
    length, new_value, new_slope, trials, found = _line_search(slope_of, x, way, value, slope)
    moved = length * way
    better = _updated(inverse, moved, new_slope - slope, unit)
    return k + 1, x + moved, new_value, new_slope, better, count + trials, rnp.logical_not(found)


def _results(state: Any, limit: Any, order: Any) -> OptimizeResults:
    """Judge where the search ended; the status is 0 at a minimum, 3 where it got stuck, else 1."""
    k, x, value, slope, inverse, count, failed = state
    size = rnp.linalg.norm(slope, order)
    lost = rnp.logical_or(rnp.isnan(value), rnp.isnan(size))
    good = rnp.logical_and(rnp.less_equal(size, limit), rnp.logical_not(lost))
    stuck = rnp.logical_or(failed, lost)
    status = rnp.where(good, 0, rnp.where(stuck, 3, 1))
    return OptimizeResults(x, good, status, value, slope, inverse, count, count, k)


def _updated(inverse: Any, moved: Any, change: Any, unit: Any) -> Any:
    """Return the inverse Hessian updated by a step (BFGS)."""
    product = rnp.vdot(change, moved)
    rho = 1 / rnp.where(rnp.equal(product, 0), 1, product)
    left = unit - rho * rnp.outer(moved, change)
    better = left @ inverse @ left.T + rho * rnp.outer(moved, moved)
    return rnp.where(rnp.greater(product, 0), better, inverse)


def _line_search(slope_of: Any, x: Any, way: Any, value: Any, slope: Any) -> Any:
    """Bisect for a step that decreases enough and is long enough; try the whole one first."""
    fall = rnp.vdot(slope, way)
    one = rnp.ones((), x.dtype)

    def judged(length: Any) -> Any:
        at, by = slope_of(x + length * way)
        low = rnp.less_equal(at, value + _DECREASE * length * fall)
        long = rnp.greater_equal(rnp.vdot(by, way), _CURVATURE * fall)
        return at, by, low, long

    def moves(state: Any) -> Any:
        low, long, trials = state[5], state[6], state[7]
        return rnp.logical_and(
            rnp.logical_not(rnp.logical_and(low, long)), rnp.less(trials, _MOST_TRIALS)
        )

    def step(state: Any) -> Any:
        length, _, _, least, most, low, _, trials = state
        least, most = rnp.where(low, length, least), rnp.where(low, most, length)
        length = rnp.where(rnp.isinf(most), 2 * length, (least + most) / 2)
        at, by, low, long = judged(length)
        return length, at, by, least, most, low, long, trials + 1

    at, by, low, long = judged(one)
    state = (one, at, by, 0 * one, rnp.inf * one, low, long, 1)
    length, at, by, _, _, low, _, trials = while_loop(moves, step, state)
    return length, at, by, trials, low


__dir__ = _names_of(__name__)

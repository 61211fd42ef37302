"""`odeint`: ordinary differential equations by Dormand and Prince's pair of orders 5 and 4.

Steps are chosen so that the estimated error is within the tolerance; values at the times asked for
are those of a polynomial of fourth degree over the step that covers them. Reverse-mode
derivatives solve the adjoint equation backwards, with the same steps' control, so that no step is
stored (Chen et al. 2018, "Neural ordinary differential equations").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.tracing.apply import function
from rlx.tracing.pytree import tree_leaves, tree_structure, tree_unflatten
from rlx.tracing.trace import element_type
from rlx.transforms.batch import vmap
from rlx.transforms.closure_convert import closure_convert
from rlx.transforms.control import scan, while_loop
from rlx.transforms.custom_vjp import custom_vjp
from rlx.transforms.differentiate import vjp
from rlx.transforms.ravel import ravel_pytree

Slope = Callable[..., Any]

# Dormand and Prince (1980), table 2: times, weights of the stages, and of the error's estimate.
_TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_FIFTH = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)
_FOURTH = (5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40)
# The solution in the middle of a step, of fourth order (Shampine 1986).
_MIDDLE = tuple(
    weight / 2
    for weight in (
        6025192743 / 30085553152, 0.0, 51252292925 / 65400821598, -2691868925 / 45128329728,
        187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384,
    )
)  # fmt: skip


class _State(NamedTuple):
    """Where the solver is; `last` is where the step began that `polynomial` covers."""

    count: Any
    y: Any
    slope: Any
    t: Any
    step: Any
    last: Any
    polynomial: Any


def odeint(
    func: Slope, y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: float = np.inf, hmax: float = np.inf,
) -> Any:  # fmt: skip
    """Solve `dy/dt = func(y, t, *args)` from `y0` at `t[0]`; the values at all of `t`, stacked.

    `y0` is a tree of floats; `t` increases. A step's estimated error is at most
    `atol + rtol * abs(y)`, in the root of the mean square over all elements. At most `mxstep`
    steps are made between two times, none longer than `hmax`.
    """
    t = rnp.asarray(t)
    converted, read = closure_convert(func, y0, t[0], *args)
    flat, unravel = ravel_pytree(y0)

    def slope(y: Any, t: Any, *rest: Any) -> Any:
        return ravel_pytree(converted(unravel(y), t, *rest))[0]

    solved = _solved(slope, (rtol, atol, mxstep, hmax))(flat, t, *args, *read)
    return vmap(unravel)(solved)


def _solved(slope: Slope, limits: tuple[float, ...]) -> Callable[..., Any]:
    """Return the solution as a function of the start, the times and further arguments."""

    @custom_vjp
    def solve(y0: Any, t: Any, *args: Any) -> Any:
        return _solution(lambda y, at: slope(y, at, *args), y0, t, limits)

    def forward(y0: Any, t: Any, *args: Any) -> Any:
        ys = solve(y0, t, *args)
        return ys, (ys, t, args)

    def backward(saved: Any, cotangents: Any) -> Any:
        ys, t, args = saved
        return _adjoint(slope, limits, ys, t, args, cotangents)

    solve.defvjp(forward, backward)
    return solve


@function
def _solution(slope: Slope, y0: Any, t: Any, limits: tuple[float, ...]) -> Any:
    """Return the solution at all times, the start included."""
    rtol, atol, mxstep, hmax = limits

    def advance(state: _State, target: Any) -> tuple[_State, Any]:
        def goes_on(s: _State) -> Any:
            more = rnp.logical_and(s.t < target, s.step > 0)
            return more if mxstep == np.inf else rnp.logical_and(more, s.count < mxstep)

        def attempt(s: _State) -> _State:
            y, end, error, slopes = _one_step(slope, s)
            ratio = _error_ratio(error, rtol, atol, s.y, y)
            accepted = ratio <= 1
            step = rnp.clip(_next_step(s.step, ratio), 0.0, hmax)
            made = (y, end, s.t + s.step, s.t, _polynomial(s, y, slopes))
            kept = (s.y, s.slope, s.t, s.last, s.polynomial)
            chosen = [rnp.where(accepted, a, b) for a, b in zip(made, kept, strict=True)]
            y, end, now, last, polynomial = chosen
            return _State(s.count + 1, y, end, now, step, last, polynomial)

        state = while_loop(goes_on, attempt, state._replace(count=rnp.zeros_like(state.count)))
        place = (target - state.last) / (state.t - state.last)
        return state, _value_of(state.polynomial, place)

    start = slope(y0, t[0])
    first = rnp.clip(_first_step(slope, t[0], y0, start, rtol, atol), 0.0, hmax)
    count = rnp.asarray(0, "int32")
    state = _State(count, y0, start, t[0], first, t[0], rnp.stack([y0] * 5))
    _, ys = scan(advance, state, t[1:])
    return rnp.concatenate([y0[None], ys], 0)


def _one_step(slope: Slope, s: _State) -> tuple[Any, Any, Any, Any]:
    """Return the solution, the slope and the error at the end of a step, and all slopes."""
    slopes = [s.slope]
    for time, weights in zip(_TIMES, _STAGES, strict=True):
        slopes.append(slope(s.y + s.step * _weighted(weights, slopes), s.t + s.step * time))
    y = s.y + s.step * _weighted(_FIFTH, slopes)
    slopes.append(slope(y, s.t + s.step))
    off = tuple(a - b for a, b in zip(_FIFTH, _FOURTH, strict=True))
    return y, slopes[-1], s.step * _weighted(off, slopes), slopes


def _weighted(weights: tuple[float, ...], slopes: list[Any]) -> Any:
    terms = [w * k for w, k in zip(weights, slopes, strict=False) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _polynomial(s: _State, y: Any, slopes: list[Any]) -> Any:
    """Return coefficients, the highest first, by values and slopes at the ends and the middle."""
    middle = s.y + s.step * _weighted(_MIDDLE, slopes)
    start, end = s.step * slopes[0], s.step * slopes[-1]
    return rnp.stack([
        2 * (end - start) - 8 * (s.y + y) + 16 * middle,
        5 * start - 3 * end + 18 * s.y + 14 * y - 32 * middle,
        end - 4 * start - 11 * s.y - 5 * y + 16 * middle,
        start,
        s.y,
    ])  # fmt: skip


def _value_of(polynomial: Any, place: Any) -> Any:
    total = polynomial[0]
    for power in range(1, 5):
        total = total * place + polynomial[power]
    return total


def _error_ratio(error: Any, rtol: float, atol: float, y: Any, next_y: Any) -> Any:
    allowed = atol + rtol * rnp.maximum(rnp.abs(y), rnp.abs(next_y))
    return rnp.sqrt(rnp.mean(rnp.square(rnp.abs(error / allowed))))


def _next_step(step: Any, ratio: Any) -> Any:
    """Return the step by which the error would be allowed, at most ten times as long."""
    least = rnp.where(ratio < 1, 1.0, 0.2)
    factor = rnp.minimum(10.0, rnp.maximum(0.9 * ratio**-0.2, least))
    return rnp.where(ratio == 0, 10.0 * step, step * factor)


def _first_step(slope: Slope, t: Any, y: Any, start: Any, rtol: float, atol: float) -> Any:
    """Return a first step: Hairer, Nørsett and Wanner, "Solving ODEs I", section II.4."""
    scale = atol + rnp.abs(y) * rtol
    value, first = rnp.linalg.norm(y / scale), rnp.linalg.norm(start / scale)
    small = rnp.logical_or(value < 1e-5, first < 1e-5)
    guess = rnp.where(small, 1e-6, 0.01 * value / first)
    second = rnp.linalg.norm((slope(y + guess * start, t + guess) - start) / scale) / guess
    flat = rnp.logical_and(first <= 1e-15, second <= 1e-15)
    better = rnp.where(flat, rnp.maximum(1e-6, guess * 1e-3),
                       (0.01 / rnp.maximum(first, second)) ** 0.2)  # fmt: skip
    return rnp.minimum(100.0 * guess, better)


def _adjoint(
    slope: Slope, limits: tuple[float, ...], ys: Any, t: Any, args: Any, cotangents: Any
) -> Any:
    """Return the cotangents of start, times and arguments: one solution backwards per interval.

    The state is y, its cotangent, that of the time, and those of the floating arguments.
    """
    leaves = [rnp.asarray(x) for x in tree_leaves(args)]
    flat, unravel = ravel_pytree([x for x in leaves if _moves(x)])

    def of(y: Any, at: Any, flat: Any) -> Any:
        moving = iter(unravel(flat))
        return slope(
            y,
            at,
            *tree_unflatten(
                tree_structure(args), [next(moving) if _moves(x) else x for x in leaves]
            ),
        )

    size = rnp.shape(ys)[1]

    def reversed_slope(state: Any, at: Any) -> Any:
        y, y_bar = state[:size], state[size : 2 * size]
        value, pullback = vjp(of, y, -at, flat)
        back, time, rest = pullback(y_bar)
        return rnp.concatenate([-value, back, rnp.reshape(time, (1,)), rest])

    def backwards(carry: Any, place: Any) -> Any:
        y_bar, t0_bar, flat_bar = carry
        time_bar = rnp.vdot(of(ys[place], t[place], flat), cotangents[place])
        state = rnp.concatenate([ys[place], y_bar, rnp.reshape(t0_bar - time_bar, (1,)), flat_bar])
        ends = rnp.stack([-t[place], -t[place - 1]])
        end = _solution(reversed_slope, state, ends, limits)[1]
        y_bar = end[size : 2 * size] + cotangents[place - 1]
        return (y_bar, end[2 * size], end[2 * size + 1 :]), time_bar

    last = rnp.shape(t)[0] - 1
    start = (cotangents[-1], rnp.zeros_like(t[0]), rnp.zeros_like(flat))
    (y_bar, t0_bar, flat_bar), times = scan(backwards, start, rnp.arange(last, 0, -1))
    t_bar = rnp.concatenate([rnp.reshape(t0_bar, (1,)), times[::-1]])
    moving = iter(unravel(flat_bar))
    found = [next(moving) if _moves(x) else None for x in leaves]
    return (y_bar, t_bar, *tree_unflatten(tree_structure(args), found))


def _moves(x: Any) -> bool:
    return element_type(x).dtype.is_float

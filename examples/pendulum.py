"""Find the lengths, masses and friction of a double pendulum from a noisy recording of its angles.

    python -m examples.pendulum [--output DIR] [--export DIR] [--checkpoints N]

A double pendulum is chaotic: over the eight seconds recorded here, an error in the start grows
a hundred times or more, and a loss over the whole trajectory has too many hollows to descend.
So the recording is cut into windows with a start of their own each, which are found together
with the parameters ("multiple shooting"), and whose ends have to agree. The windows grow as the fit
gets better, from half a second to two: 1,000 Runge-Kutta steps in one `rlx.scan`, side by side
in one `rlx.vmap`, differentiated as they stand.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp

Array = NDArray[np.float64]
Params = dict[str, Any]

GRAVITY, STEP = 9.81, 0.002  # m/s^2, s
STEPS, NOISE = 4000, 0.02  # samples of the encoders, and their error in rad
WINDOWS = (250, 500, 1000)  # steps

TRUTH = {"length_1": 1.0, "length_2": 0.7, "mass_share": 0.4, "friction": 0.05}
GUESS = {"length_1": 1.3, "length_2": 1.0, "mass_share": 0.5, "friction": 0.0}


class State(NamedTuple):
    """Angles from the vertical in rad, of the upper and the lower rod, and their speeds."""

    angle_1: Any
    angle_2: Any
    speed_1: Any
    speed_2: Any


START = State(2.0, 2.3, 0.0, 0.0)


class Shots(NamedTuple):
    """What is fitted: the parameters, and where every window starts."""

    params: Params
    starts: State


def slope(params: Params, state: State) -> State:
    """The equations of motion; `mass_share` is that of the lower bob in both masses."""
    angle_1, angle_2, speed_1, speed_2 = state
    length_1, length_2 = params["length_1"], params["length_2"]
    share, friction = params["mass_share"], params["friction"]
    sine, cosine = rnp.sin(angle_1 - angle_2), rnp.cos(angle_1 - angle_2)
    pull_1 = -GRAVITY * rnp.sin(angle_1) - share * length_2 * speed_2**2 * sine
    pull_2 = -GRAVITY * rnp.sin(angle_2) + length_1 * speed_1**2 * sine
    inertia = 1 - share * cosine**2
    turn_1 = (pull_1 - share * cosine * pull_2) / (inertia * length_1)
    turn_2 = (pull_2 - cosine * pull_1) / (inertia * length_2)
    return State(speed_1, speed_2, turn_1 - friction * speed_1, turn_2 - friction * speed_2)


def runge_kutta(params: Params, state: State) -> State:
    """Return the state one `STEP` later, by the classical method of order four."""

    def ahead(time: float, slope: State) -> State:
        moved: State = rlx.tree_map(lambda x, dx: x + time * dx, state, slope)
        return moved

    a = slope(params, state)
    b = slope(params, ahead(STEP / 2, a))
    c = slope(params, ahead(STEP / 2, b))
    d = slope(params, ahead(STEP, c))
    mean = rlx.tree_map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, a, b, c, d)
    return ahead(STEP, mean)


def simulate(params: Params, start: State, steps: int, checkpoints: int | None = None) -> State:
    """Return the states after each of `steps` steps."""

    def step(state: State, _: None) -> tuple[State, State]:
        state = runge_kutta(params, state)
        return state, state

    states: State = rlx.scan(step, start, length=steps, checkpoints=checkpoints)[1]
    return states


def misfit(shots: Shots, angles: Any, checkpoints: int | None = None) -> Any:
    """Mean squared error of the windows, `angles[2, window, step]`, and of their ends."""
    steps = angles.shape[-1]
    path = rlx.vmap(lambda start: simulate(shots.params, start, steps, checkpoints))(shots.starts)
    error_1, error_2 = path.angle_1 - angles[0], path.angle_2 - angles[1]
    gaps = [rnp.sum((x[:-1, -1] - s[1:]) ** 2) for x, s in zip(path, shots.starts, strict=True)]
    return rnp.mean(error_1**2 + error_2**2) + 0.01 * sum(gaps) / len(angles[0])


def record(steps: int = STEPS, seed: int = 0) -> tuple[Array, State]:
    """Return noisy angles `[2, steps]`, and the true states for half as long again."""
    truth = rlx.jit(lambda params, start: simulate(params, start, steps * 3 // 2))(TRUTH, START)
    noise = NOISE * np.random.default_rng(seed).standard_normal((2, steps))
    return np.stack([truth.angle_1[:steps], truth.angle_2[:steps]]) + noise, truth


def first_shots(angles: Array, window: int, samples: int = 25) -> Shots:
    """Return the guess, with starts from parabolas through the first samples of each window."""
    times = STEP * np.arange(1, samples + 1)
    heads = angles.reshape(-1, window)[:, :samples]
    _, speeds, starts = np.polyfit(times, heads.T, 2).reshape(3, 2, -1)
    return Shots({name: np.float64(x) for name, x in GUESS.items()}, State(*starts, *speeds))


def descend(shots: Shots, angles: Array, rate: float, iterations: int) -> tuple[Shots, Array]:
    """Minimize the misfit by gradient descent (Adam); return what is found, and all losses."""
    optimizer = rlx.optim.adam(rlx.optim.cosine_decay_schedule(rate, iterations, 0.02), b2=0.99)

    @rlx.jit(donate_argnums=(0, 1))
    def update(shots: Shots, state: Any, angles: Any) -> Any:
        value, gradients = rlx.value_and_grad(misfit)(shots, angles)
        updates, state = optimizer.update(gradients, state, shots)
        return rlx.optim.apply_updates(shots, updates), state, value

    state, losses = optimizer.init(shots), []
    for _ in range(iterations):
        shots, state, value = update(shots, state, angles)
        losses.append(float(value))
    return shots, np.array(losses)


def fit(angles: Array, windows: tuple[int, ...], iterations: int) -> Shots:
    """Fit windows of growing length; print what each length gives."""
    shots = first_shots(angles, windows[0])
    for before, window in zip((windows[0], *windows), windows, strict=False):
        started = time.perf_counter()
        every = window // before
        shots = shots._replace(starts=State(*(start[::every] for start in shots.starts)))
        rate = 0.05 * windows[0] / window
        shots, losses = descend(shots, angles.reshape(2, -1, window), rate, iterations)
        error = np.sqrt(losses[-1] / 2)
        print(
            f"{len(shots.starts.angle_1):3d} windows of {window:4d} steps: error {error:.4f} rad "
            f"({time.perf_counter() - started:.1f} s)"
        )
    return shots


def forecast(shots: Shots, truth: State, window: int) -> tuple[State, float]:
    """Continue the last window to the end of `truth`; return this and the seconds it is right."""
    windows = len(shots.starts.angle_1)
    start = State(*(x[-1] for x in shots.starts))
    steps = len(truth.angle_1) - (windows - 1) * window
    path = rlx.jit(lambda params, start: simulate(params, start, steps))(shots.params, start)
    path = State(*(x[window:] for x in path))
    wrong = np.abs(path.angle_1 - truth.angle_1[windows * window :]) > 0.1
    right = int(np.argmax(wrong)) if wrong.any() else len(wrong)
    return path, STEP * right


def save_picture(path: Path, angles: Array, shots: Shots, truth: State, window: int) -> None:
    """Draw the recording, the fit and the forecast: over time, and in the plane."""
    from matplotlib.figure import Figure

    steps = angles.shape[1]
    fitted = rlx.jit(rlx.vmap(lambda start: simulate(shots.params, start, window)))(shots.starts)
    fitted = State(*(x.ravel() for x in fitted))
    future, _ = forecast(shots, truth, window)
    figure = Figure(figsize=(11, 5), layout="constrained")
    plane, upper, lower = figure.subplot_mosaic([["plane", "1"], ["plane", "2"]]).values()
    times = STEP * np.arange(1, len(truth.angle_1) + 1)
    for axes, name, observed in ((upper, "angle_1", angles[0]), (lower, "angle_2", angles[1])):
        axes.plot(times[:steps:20], observed[::20], ".", color="0.6", label="recorded")
        axes.plot(times[:steps], getattr(fitted, name), color="C0", label="fitted")
        axes.plot(times[steps:], getattr(truth, name)[steps:], color="0.6", lw=3, label="truth")
        axes.plot(times[steps:], getattr(future, name), color="C1", label="forecast")
        axes.axvline(STEP * steps, color="0.3", lw=0.8, ls=":")
        axes.set(ylabel=f"{name.replace('_', ' ')} (rad)", xlim=(0, times[-1]))
    lower.set_xlabel("time (s)")
    upper.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    for states, color in ((fitted, "C0"), (future, "C1")):
        plane.plot(*lower_bob(shots.params, states), color=color, lw=1)
    plane.plot(0, 0, "ko")
    plane.set(xlabel="x (m)", ylabel="y (m)", title="path of the lower bob", aspect="equal")
    figure.savefig(path, dpi=150)


def lower_bob(params: Params, states: State) -> tuple[Array, Array]:
    """Return where the lower bob is, in m from the pivot."""
    first, second = params["length_1"], params["length_2"]
    x = first * np.sin(states.angle_1) + second * np.sin(states.angle_2)
    return x, -first * np.cos(states.angle_1) - second * np.cos(states.angle_2)


def export(
    directory: Path, shots: Shots, angles: Array, checkpoints: int | None = None
) -> rlx.Artifact:
    """Write the misfit and its gradient as C; with checkpoints it needs less memory."""

    @rlx.jit
    def misfit_and_gradient(shots: Shots, angles: Any) -> Any:
        return rlx.value_and_grad(lambda s: misfit(s, angles, checkpoints))(shots)

    return rlx.aot(misfit_and_gradient, directory, name="pendulum", example_inputs=(shots, angles))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(), help="where the picture goes")
    parser.add_argument("--export", type=Path, help="write the gradient as C into this directory")
    parser.add_argument("--checkpoints", type=int, help="states the exported gradient stores")
    parser.add_argument("--iterations", type=int, default=500, help="per length of windows")
    options = parser.parse_args(arguments)
    angles, truth = record()
    shots = fit(angles, WINDOWS, options.iterations)
    for name, true in TRUTH.items():
        print(f"{name}: {float(shots.params[name]):.4f} (true {true}, first guess {GUESS[name]})")
    print(f"the forecast is right to 0.1 rad for {forecast(shots, truth, WINDOWS[-1])[1]:.1f} s")
    options.output.mkdir(parents=True, exist_ok=True)
    save_picture(options.output / "pendulum.png", angles, shots, truth, WINDOWS[-1])
    print(f"picture: {options.output / 'pendulum.png'}")
    if options.export:
        windows = angles.reshape(2, -1, WINDOWS[-1])
        artifact = export(options.export, shots, windows, options.checkpoints)
        print(f"C: {artifact.source}; its memory is {artifact.arena_bytes:,} bytes")


if __name__ == "__main__":
    main()

"""Follow a boat through noisy position fixes, and learn from them how noisy they are.

    python -m examples.kalman [--output DIR] [--export DIR]

The boat's position and velocity are a linear model with Gaussian noise. A Kalman filter, one
`rlx.scan` over the fixes, gives its state and the likelihood of the fixes; the gradient of the
likelihood goes back through the whole filter and finds how long the boat keeps its velocity,
how strong the gusts are and how far off the fixes. The Hessian says how sure that is. A scan in
reverse (Rauch, Tung and Striebel) then smooths the track, also where fixes are missing.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx.numpy import linalg

Array = NDArray[np.float64]
Params = dict[str, Any]

STEP = 1.0  # s between fixes
TRUTH = {"keep": 0.95, "gust": 0.4, "error": 4.0}  # of velocity per step, m/s, m
GUESS = {"keep": 0.5, "gust": 1.0, "error": 10.0}
OBSERVE = np.eye(2, 4)  # a fix is the position, the first half of the state


class Belief(NamedTuple):
    """A Gaussian belief about the state: x, y and their rates."""

    mean: Any
    covariance: Any


class Fixes(NamedTuple):
    """Measured positions `[n, 2]`, and which of them were received."""

    positions: Array
    received: NDArray[np.bool_]


PRIOR = Belief(np.zeros(4), np.diag([100.0, 100.0, 4.0, 4.0]))


def free(params: Params) -> Params:
    """Return the params as numbers without bounds, in which the likelihood is climbed."""
    keep = params["keep"]
    return {
        "keep": np.log(keep / (1 - keep)),
        "gust": np.log(params["gust"]),
        "error": np.log(params["error"]),
    }


def bounded(numbers: Params) -> Params:
    """Return the params of such numbers: `keep` is in (0, 1), the others are positive."""
    return {
        "keep": rlx.nn.sigmoid(numbers["keep"]),
        "gust": rnp.exp(numbers["gust"]),
        "error": rnp.exp(numbers["error"]),
    }


def motion(params: Params) -> tuple[Any, Any]:
    """Return the transition of the state in one step, and the covariance of its noise."""
    one, zero = np.eye(2), np.zeros((2, 2))
    transition = rnp.block([[one, STEP * one], [zero, params["keep"] * one]])
    noise = rnp.block([[zero, zero], [zero, params["gust"] ** 2 * one]])
    return transition, noise


def predict(params: Params, belief: Belief) -> Belief:
    transition, noise = motion(params)
    return Belief(transition @ belief.mean, transition @ belief.covariance @ transition.T + noise)


def correct(params: Params, belief: Belief, position: Any) -> tuple[Belief, Any]:
    """Return the belief after a fix, and the logarithm of the fix's density."""
    surprise = position - OBSERVE @ belief.mean
    shared = OBSERVE @ belief.covariance
    spread = shared @ OBSERVE.T + params["error"] ** 2 * np.eye(2)
    gain = linalg.solve(spread, shared).T
    density = -0.5 * (
        surprise @ linalg.solve(spread, surprise)
        + linalg.slogdet(spread).logabsdet
        + 2 * math.log(2 * math.pi)
    )
    return Belief(belief.mean + gain @ surprise, belief.covariance - gain @ shared), density


def kalman_filter(params: Params, fixes: Fixes) -> tuple[Belief, Belief, Any]:
    """Return the beliefs before and after every fix, and the log-likelihood of all."""

    def step(belief: Belief, fix: Fixes) -> Any:
        before = predict(params, belief)
        corrected, density = correct(params, before, fix.positions)
        after = rlx.tree_map(lambda a, b: rnp.where(fix.received, a, b), corrected, before)
        return after, (before, after, rnp.where(fix.received, density, 0))

    _, (before, after, densities) = rlx.scan(step, PRIOR, fixes)
    return before, after, rnp.sum(densities)


def smoother(params: Params, fixes: Fixes) -> Belief:
    """Return the beliefs that take all fixes into account, also the later ones."""
    before, after, _ = kalman_filter(params, fixes)
    transition, _ = motion(params)

    def step(later: Belief, filtered: tuple[Belief, Belief]) -> tuple[Belief, Belief]:
        now, predicted = filtered
        gain = linalg.solve(predicted.covariance, transition @ now.covariance).T
        mean = now.mean + gain @ (later.mean - predicted.mean)
        change = gain @ (later.covariance - predicted.covariance) @ gain.T
        belief = Belief(mean, now.covariance + change)
        return belief, belief

    last = rlx.tree_map(lambda x: x[-1], after)
    pairs = rlx.tree_map(lambda x: x[:-1], after), rlx.tree_map(lambda x: x[1:], before)
    _, earlier = rlx.scan(step, last, pairs, reverse=True)
    whole: Belief = rlx.tree_map(lambda x, end: rnp.concatenate([x, end[None]]), earlier, last)
    return whole


def surprise(numbers: Params, fixes: Fixes) -> Any:
    """The negative log-likelihood per fix."""
    return -kalman_filter(bounded(numbers), fixes)[2] / len(fixes.positions)


def sail(steps: int = 300, seed: int = 1) -> tuple[Array, Fixes]:
    """Return the true states `[steps, 4]` of a boat, and fixes of which a stretch is missing."""
    random = np.random.default_rng(seed)
    transition, noise = (np.asarray(x) for x in motion(TRUTH))
    states, state = np.zeros((steps, 4)), np.zeros(4)
    for now in range(steps):
        state = transition @ state + np.sqrt(np.diag(noise)) * random.standard_normal(4)
        states[now] = state
    positions = states[:, :2] + TRUTH["error"] * random.standard_normal((steps, 2))
    received = np.ones(steps, bool)
    received[int(0.6 * steps) : int(0.7 * steps)] = False
    return states, Fixes(positions, received)


def fit(fixes: Fixes, iterations: int = 200) -> tuple[Params, list[float]]:
    """Climb the likelihood by its gradient (Adam); return the free params, and its course."""
    optimizer = rlx.optim.adam(rlx.optim.cosine_decay_schedule(0.2, iterations, 0.01))

    @rlx.jit(donate_argnums=(0, 1))
    def update(numbers: Params, state: Any, fixes: Fixes) -> Any:
        value, gradients = rlx.value_and_grad(surprise)(numbers, fixes)
        updates, state = optimizer.update(gradients, state, numbers)
        return rlx.optim.apply_updates(numbers, updates), state, value

    numbers, course = free(GUESS), []
    state = optimizer.init(numbers)
    for _ in range(iterations):
        numbers, state, value = update(numbers, state, fixes)
        course.append(-float(value) * len(fixes.positions))
    return numbers, course


def standard_errors(numbers: Params, fixes: Fixes) -> dict[str, float]:
    """Return how sure the bounded params are, from the curvature of the likelihood."""
    names = sorted(numbers)

    def total(x: Any) -> Any:
        return len(fixes.positions) * surprise(dict(zip(names, x, strict=True)), fixes)

    def params(x: Any) -> Any:
        found = bounded(dict(zip(names, x, strict=True)))
        return rnp.stack([found[name] for name in names])

    @rlx.jit
    def errors(x: Any) -> Any:
        slopes = rlx.jacfwd(params)(x)
        return rnp.sqrt(rnp.diag(slopes @ linalg.solve(rlx.hessian(total)(x), slopes.T)))

    x = np.array([numbers[name] for name in names])
    return dict(zip(names, (float(e) for e in errors(x)), strict=True))


def save_picture(
    path: Path, states: Array, fixes: Fixes, params: Params, course: list[float]
) -> None:
    """Draw the track, how sure it is, and how the likelihood was climbed."""
    from matplotlib.figure import Figure

    _, filtered, _ = rlx.jit(kalman_filter)(params, fixes)
    smoothed = rlx.jit(smoother)(params, fixes)
    figure = Figure(figsize=(11, 5), layout="constrained")
    plane, climb, spread = figure.subplot_mosaic([["plane", "1"], ["plane", "2"]]).values()
    seen = fixes.positions[fixes.received]
    plane.plot(*seen.T, ".", color="0.7", label="fixes")
    plane.plot(*states[:, :2].T, color="0.3", lw=3, alpha=0.4, label="truth")
    plane.plot(*filtered.mean[:, :2].T, color="C1", lw=1, label="filtered")
    plane.plot(*smoothed.mean[:, :2].T, color="C0", lw=1.5, label="smoothed")
    plane.set(xlabel="east (m)", ylabel="north (m)", title="track", aspect="equal")
    plane.legend()
    climb.plot(course, color="C2")
    climb.set(xlabel="iteration", ylabel="log-likelihood", title="learning the noise")
    times = STEP * np.arange(1, len(states) + 1)
    for belief, color, label in ((filtered, "C1", "filtered"), (smoothed, "C0", "smoothed")):
        off = np.linalg.norm(belief.mean[:, :2] - states[:, :2], axis=1)
        expected = np.sqrt(belief.covariance[:, 0, 0] + belief.covariance[:, 1, 1])
        spread.plot(times, off, color=color, lw=0.8, alpha=0.6)
        spread.plot(times, expected, color=color, lw=2, label=label)
    first, last = times[~fixes.received][[0, -1]]
    spread.axvspan(first, last, color="0.9", label="no fixes")
    spread.set(xlabel="time (s)", ylabel="error of position (m)", xlim=(0, times[-1]))
    spread.set_title("error, as expected (bold) and as it is")
    spread.legend()
    figure.savefig(path, dpi=150)


def export(directory: Path, numbers: Params, fixes: Fixes) -> rlx.Artifact:
    """Write the negative log-likelihood and its gradient as C."""
    both = rlx.jit(rlx.value_and_grad(surprise))
    return rlx.aot(
        both, directory, name="kalman", example_inputs=(numbers, fixes),
        output_names=("surprise", *(f"{name}_slope" for name in sorted(numbers))),
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(), help="where the picture goes")
    parser.add_argument("--export", type=Path, help="write the gradient as C into this directory")
    parser.add_argument("--iterations", type=int, default=200)
    options = parser.parse_args(arguments)
    states, fixes = sail()
    started = time.perf_counter()
    numbers, course = fit(fixes, options.iterations)
    seconds = time.perf_counter() - started
    params, errors = rlx.jit(bounded)(numbers), standard_errors(numbers, fixes)
    print(f"log-likelihood: {course[0]:.1f} at first, {course[-1]:.1f} after {seconds:.1f} s")
    for name, true in TRUTH.items():
        found = f"{float(params[name]):.3f} +- {errors[name]:.3f}"
        print(f"{name}: {found} (true {true}, first guess {GUESS[name]})")
    options.output.mkdir(parents=True, exist_ok=True)
    save_picture(options.output / "kalman.png", states, fixes, params, course)
    print(f"picture: {options.output / 'kalman.png'}")
    if options.export:
        artifact = export(options.export, numbers, fixes)
        print(f"C: {artifact.source}; its memory is {artifact.arena_bytes:,} bytes")


if __name__ == "__main__":
    main()

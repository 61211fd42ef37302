"""Loops around small kernels: Hamiltonian Monte Carlo, a chain of pendulums, a population.

Steps of a trajectory hold sums over one pass of the data, products of small matrices and small
dense systems. JAX derives its forces; so do we; the bounds in C have them by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.routine import Bound, FrontEnd, Function, Routine, samples
from bench.workload import Array

LEAPS, DATA = 1_000, 200
INPUTS, HIDDEN, EXAMPLES = 4, 16, 64
LINKS, SWINGS = 35, 100
AGES, YEARS = 48, 10_000
ELEMENTS = 10_000_000


def _trajectory(library: FrontEnd, energy: Function, step: float, leaps: int) -> Function:
    """Return the positions after leapfrog steps in the potential `energy(position, *data)`."""

    def trajectory(position: Any, momentum: Any, *data: Any) -> Any:
        force = library.transform.grad(energy)

        def leap(state: Any, _: None) -> Any:
            at, moving = state
            moving = moving - step / 2 * force(at, *data)
            at = at + step * moving
            return (at, moving - step / 2 * force(at, *data)), None

        (last, _), _ = library.control.scan(leap, (position, momentum), None, length=leaps)
        return last

    return trajectory


def regression(library: FrontEnd) -> Function:
    """A trajectory over intercept, slope and the logarithm of the noise of a regression."""
    xp = library.numpy

    def energy(at: Any, x: Any, y: Any) -> Any:
        away = (y - at[0] - at[1] * x) / xp.exp(at[2])
        return 0.5 * (away * away).sum() + DATA * at[2] + 0.5 * (at * at).sum()

    return _trajectory(library, energy, 0.001, LEAPS)


def _regression_arguments() -> tuple[Array, ...]:
    x, noise, momentum = samples((DATA,), (DATA,), (3,))
    return np.array([0.1, 0.3, 0.2]), momentum, x, 0.5 + 1.5 * x + 0.7 * noise


def network(library: FrontEnd) -> Function:
    """A trajectory over the weights of a network of one hidden layer."""
    xp = library.numpy

    def energy(at: Any, x: Any, y: Any) -> Any:
        into = at[: INPUTS * HIDDEN].reshape(INPUTS, HIDDEN)
        bias, out = at[INPUTS * HIDDEN : -HIDDEN], at[-HIDDEN:]
        away = y - xp.tanh(x @ into + bias) @ out
        return 0.5 * (away * away).sum() + 0.5 * (at * at).sum()

    return _trajectory(library, energy, 0.002, LEAPS)


def _network_arguments() -> tuple[Array, ...]:
    weights = (INPUTS + 2) * HIDDEN
    at, momentum, x = samples((weights,), (weights,), (EXAMPLES, INPUTS))
    return 0.3 * at, momentum, x, np.sin(x.sum(axis=1))


def pendulums(library: FrontEnd) -> Function:
    """Steps of a chain of pendulums: each builds and solves the system of its mass matrix."""
    xp = library.numpy

    def swings(angles: Any, speeds: Any, masses: Any) -> Any:
        def swing(state: Any, _: None) -> Any:
            at, moving = state
            apart = at[:, None] - at[None, :]
            matrix = masses * xp.cos(apart)
            push = -(masses * xp.sin(apart)) @ (moving * moving)
            pull = 9.81 * xp.diagonal(masses) * xp.sin(at)
            moving = moving + 0.001 * xp.linalg.solve(matrix, push - pull)
            return (at + 0.001 * moving, moving), None

        (last, _), _ = library.control.scan(swing, (angles, speeds), None, length=SWINGS)
        return last

    return swings


def _pendulum_arguments() -> tuple[Array, ...]:
    angles, speeds = samples((LINKS,), (LINKS,))
    below = np.arange(LINKS, 0.0, -1.0)
    return 0.2 * angles, 0.1 * speeds, np.minimum(below[:, None], below[None, :])


def population(library: FrontEnd) -> Function:
    """Years of a population by age, whose births and deaths depend on its size."""
    xp = library.numpy

    def years(first: Any, births: Any, survival: Any, capacity: Any) -> Any:
        def year(now: Any, _: None) -> Any:
            crowding = 1.0 / (1.0 + now.sum() / capacity)
            born = (births * now).sum() * crowding
            older = now[:-1] * survival * crowding
            return xp.concatenate([born[None], older]), None

        return library.control.scan(year, first, None, length=YEARS)[0]

    return years


def _population_arguments() -> tuple[Array, ...]:
    first, births, survival = (np.abs(x) for x in samples((AGES,), (AGES,), (AGES - 1,)))
    return 10 * first, births, 1 / (1 + 0.1 * survival), np.array(500.0)


def mish(library: FrontEnd) -> Function:
    """An activation of ten million numbers."""

    def activation(x: Any) -> Any:
        return library.transform.nn.mish(x)

    return activation


def _row() -> tuple[Array, ...]:
    return samples((ELEMENTS,))


SAMPLING = (
    Routine(
        "loops.hmc_regression", regression, _regression_arguments,
        Bound("hmc_regression", "trajectory", ((3,),)), tolerance=1e-7,
    ),
    Routine(
        "loops.hmc_network", network, _network_arguments,
        Bound("hmc_network", "trajectory", (((INPUTS + 2) * HIDDEN,),)), tolerance=1e-7,
    ),
    Routine(
        "loops.mass_matrix", pendulums, _pendulum_arguments,
        Bound("pendulums", "swings", ((LINKS,),)), tolerance=1e-7,
    ),
    Routine(
        "loops.population", population, _population_arguments,
        Bound("population", "years", ((AGES,),)), tolerance=1e-7,
    ),
    Routine("loops.mish", mish, _row, Bound("mish", "mish", ((ELEMENTS,),)), tolerance=1e-7),
)  # fmt: skip

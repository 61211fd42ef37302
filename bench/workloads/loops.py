"""Loops: scans with small carries, recurrences, cumulative sums, conditional loops.

What is measured of a program is its value and its derivatives, each as a row of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.routine import Bound, FrontEnd, Function, Routine, gradient, samples
from bench.workload import Array

STEPS = 10_000
TERMS = 1_000
TRIPS = 4_000_000
ELEMENTS = 10_000_000
ROWS, WIDTH, LAYERS = 64, 256, 8
COEFFICIENTS = (0.5, -0.25, 0.125, 0.3, -0.2, 0.1, -0.4, 0.2, -0.1)


def scan_3x3(library: FrontEnd) -> Function:
    """Ten thousand affine steps of a 3x3 matrix; the sum of squares of the last."""

    def loss(first: Any, turn: Any, push: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            return c @ turn + push, None

        last, _ = library.control.scan(step, first, None, length=STEPS)
        return (last * last).sum()

    return loss


def _matrices() -> tuple[Array, ...]:
    first, turn, push = samples((3, 3), (3, 3), (3, 3))
    return first, 0.99 * np.linalg.qr(turn)[0], 0.1 * push


def recurrence(library: FrontEnd) -> Function:
    """Small steps along a polynomial: twenty operations, each waiting for the one before."""

    def loop(x: Any, a: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            slope = a
            for coefficient in COEFFICIENTS:
                slope = slope * c + coefficient
            return c + 0.001 * slope, None

        return library.control.scan(step, x, None, length=TERMS)[0]

    return loop


def recurrence_of_sines(library: FrontEnd) -> Function:
    """Small steps along a sine and an exponential."""

    def loop(x: Any, a: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            slope = a * library.numpy.sin(c) + 0.5 * library.numpy.exp(-c * c)
            return c + 0.01 * slope, None

        return library.control.scan(step, x, None, length=TERMS)[0]

    return loop


def forward(of: Any) -> Any:
    """Return what writes the derivative along both arguments, in forward mode."""

    def write(library: FrontEnd) -> Function:
        loop = of(library)

        def derivative(x: Any, a: Any) -> Any:
            ones = (library.numpy.ones_like(x), library.numpy.ones_like(a))
            return library.transform.jvp(loop, (x, a), ones)[1]

        return derivative

    return write


def _scalars() -> tuple[Array, ...]:
    return np.array(0.3), np.array(0.9)


def cumulative_sum(library: FrontEnd) -> Function:
    def total(x: Any) -> Any:
        return library.numpy.cumsum(x)

    return total


def cumulative_scan(library: FrontEnd) -> Function:
    def total(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return c + row, c + row

        return library.control.scan(step, library.numpy.zeros_like(x[0]), x)[1]

    return total


def _row() -> tuple[Array, ...]:
    return samples((ELEMENTS,))


def trips(library: FrontEnd) -> Function:
    """Four million trips of an affine map, with the condition asked at each."""

    def loop(x: Any, a: Any, limit: Any) -> Any:
        def going(carry: Any) -> Any:
            return carry[0] < limit

        def trip(carry: Any) -> Any:
            return carry[0] + 1, carry[1] * a + 0.25

        first = (library.numpy.zeros_like(limit), x)
        return library.control.while_loop(going, trip, first)[1]

    return loop


def _trip_arguments() -> tuple[Array, ...]:
    return np.array(1.5), np.array(0.75), np.array(TRIPS, np.int64)


def layers(library: FrontEnd) -> Function:
    """Residual layers, scanned over their weights: products that threads share."""

    def loop(x: Any, weights: Any) -> Any:
        def layer(x: Any, weight: Any) -> Any:
            return x + library.numpy.tanh(x @ weight), None

        return library.control.scan(layer, x, weights)[0]

    return loop


def _layer_arguments() -> tuple[Array, ...]:
    x, weights = samples((ROWS, WIDTH), (LAYERS, WIDTH, WIDTH))
    return x, 0.05 * weights


def _scalar_rows(name: str, write: Any) -> tuple[Routine, ...]:
    value = f"loops.{name}.value"
    slopes = gradient(write, (0, 1))
    return (
        Routine(value, write, _scalars, Bound(name, "value", ((),))),
        Routine(
            f"loops.{name}.gradient", slopes, _scalars, Bound(name, "gradient", ((), ())), value
        ),
        Routine(
            f"loops.{name}.forward", forward(write), _scalars, Bound(name, "forward", ((),)), value
        ),
    )


_CUMULATIVE = Bound("cumsum", "value", ((ELEMENTS,),))

LOOPS = (
    Routine("loops.scan_3x3.value", scan_3x3, _matrices, Bound("scan_3x3", "value", ((),))),
    Routine(
        "loops.scan_3x3.gradient",
        gradient(scan_3x3, (0, 1, 2)),
        _matrices,
        Bound("scan_3x3", "gradient", ((3, 3), (3, 3), (3, 3))),
        "loops.scan_3x3.value",
    ),
    *_scalar_rows("recurrence", recurrence),
    *_scalar_rows("recurrence_of_sines", recurrence_of_sines),
    Routine("loops.cumsum.op", cumulative_sum, _row, _CUMULATIVE),
    Routine("loops.cumsum.scan", cumulative_scan, _row, _CUMULATIVE),
    Routine(
        "loops.layers.value", layers, _layer_arguments, Bound("layers", "value", ((ROWS, WIDTH),))
    ),
    Routine("loops.while.value", trips, _trip_arguments, Bound("trips", "value", ((),))),
)

"""Stencils: what reads neighbors along the axes of an array, and its derivatives."""

from __future__ import annotations

from typing import Any

from bench.routine import Bound, FrontEnd, Function, Routine, gradient, samples
from bench.workload import Array

EDGE = 128


def smoothness(library: FrontEnd) -> Function:
    """Squares of the differences of neighbors along three axes: a regularization loss."""

    def loss(x: Any) -> Any:
        return (
            library.numpy.sum((x[1:] - x[:-1]) ** 2)
            + library.numpy.sum((x[:, 1:] - x[:, :-1]) ** 2)
            + library.numpy.sum((x[:, :, 1:] - x[:, :, :-1]) ** 2)
        )

    return loss


def _cube() -> tuple[Array, ...]:
    return samples((EDGE, EDGE, EDGE))


STENCILS = (
    Routine(
        "stencils.smoothness.value",
        smoothness,
        _cube,
        Bound("smoothness", "value", ((),)),
    ),
    Routine(
        "stencils.smoothness.gradient",
        gradient(smoothness, (0,)),
        _cube,
        Bound("smoothness", "gradient", ((EDGE, EDGE, EDGE),)),
        "stencils.smoothness.value",
    ),
)

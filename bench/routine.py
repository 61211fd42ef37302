"""Routines: workloads written as functions, for front ends that share JAX's names.

A graph says nothing of loops and derivatives as a user writes them; a function does. Each has
a bound next to it: the same computation in straight C, in `bounds/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bench.workload import Array


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """A library's own names: its NumPy, its transformations, its loops."""

    numpy: Any
    transform: Any
    control: Any


@dataclass(frozen=True, slots=True)
class Bound:
    """A function in a file of `bounds/`, compiled with `macros` as we compile our own C.

    It takes pointers to the arguments and then to the results: f64 arrays of the shapes `results`.
    """

    file: str
    function: str
    results: tuple[tuple[int, ...], ...]
    macros: tuple[str, ...] = ()


Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Routine:
    """A function of arrays, its arguments, and its bound in C.

    `value` names the routine whose derivative this one is.
    """

    name: str
    write: Callable[[FrontEnd], Function]
    arguments: Callable[[], tuple[Array, ...]]
    bound: Bound
    value: str | None = None
    peers: tuple[str, ...] = ("rlx_c", "bound", "jax")
    tolerance: float = 1e-9


def gradient(
    of: Callable[[FrontEnd], Function], argnums: tuple[int, ...]
) -> Callable[[FrontEnd], Function]:
    """Return what writes the derivative of a routine by the arguments in `argnums`."""
    return lambda library: library.transform.grad(of(library), argnums=argnums)


def samples(*shapes: tuple[int, ...], seed: int = 7) -> tuple[Array, ...]:
    """Return standard normal f64 arrays."""
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal(shape) for shape in shapes)

"""What a call of a jitted function costs beyond its arithmetic, and what importing rlx costs.

    python -m bench.call_overhead

The function multiplies and adds four numbers; NumPy arrays go in and come out. JAX, where it is
installed, runs the same function on the same arrays.
"""

from __future__ import annotations

import subprocess
import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx

_CALLS = 50_000


def microseconds(call: Callable[[], Any]) -> float:
    """Return the best mean of several runs."""
    return min(timeit.repeat(call, number=_CALLS, repeat=7)) / _CALLS * 1e6


def multiply_add(x: Any, y: Any) -> Any:
    return x * y + 1


def overheads() -> dict[str, float]:
    """Return microseconds per call by what is called."""
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    jitted = rlx.jit(multiply_add, threads=1)
    of_tree = rlx.jit(lambda tree: multiply_add(**tree), threads=1)
    tree = {"x": x, "y": y}
    for function, argument in ((jitted, (x, y)), (of_tree, (tree,))):
        function(*argument)
    run = jitted.executable(x, y)
    found = {
        "rlx.jit, two arrays": microseconds(lambda: jitted(x, y)),
        "rlx.jit, a dict of two arrays": microseconds(lambda: of_tree(tree)),
        "the executable itself": microseconds(lambda: run(x, y)),
    }
    try:
        import jax
    except ImportError:
        return found
    peer = jax.jit(multiply_add)
    peer(x, y)
    return {**found, "jax.jit, two arrays": microseconds(lambda: peer(x, y))}


def import_seconds(module: str) -> float:
    """Return the time to import `module` in a fresh interpreter, less an interpreter's start."""

    def seconds(code: str) -> float:
        command = [sys.executable, "-c", code]
        return min(timeit.repeat(lambda: subprocess.run(command, check=True), number=1, repeat=3))

    return seconds(f"import {module}") - seconds("pass")


if __name__ == "__main__":
    for what, cost in overheads().items():
        print(f"{what:<32}{cost:8.2f} us")
    for module in ("rlx", "rlx.numpy", "numpy"):
        print(f"import {module:<25}{import_seconds(module) * 1e3:8.1f} ms")

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
import rlx.numpy as rnp
from bench.workloads.small import tiny_mlp
from rlx.runtime.gateway import find_gateway
from rlx.runtime.native import function_at, pointer_to
from rlx.runtime.signature import concrete

_CALLS = 20_000


def microseconds(call: Callable[[], Any]) -> float:
    """Return the best mean of several runs."""
    for _ in range(32):  # the short way in is there after a few calls
        call()
    return min(timeit.repeat(call, number=_CALLS, repeat=7)) / _CALLS * 1e6


def multiply_add(x: Any, y: Any) -> Any:
    return x * y + 1


def add_to_all(tree: Any, x: Any) -> Any:
    return {name: {part: leaf + x for part, leaf in layer.items()} for name, layer in tree.items()}


def overheads() -> dict[str, float]:
    """Return microseconds per call by what is called."""
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    jitted = rlx.jit(multiply_add, threads=1)
    of_dict = rlx.jit(lambda tree: multiply_add(**tree), threads=1)
    of_tree = rlx.jit(add_to_all, threads=1)
    step = rlx.jit(add_to_all, threads=1, donate_argnums=0)
    run = jitted.executable(x, y)
    arena, native = pointer_to(run.arena.address), function_at(run.address, "int (*)(uint8_t *)")
    pair, tree = {"x": x, "y": y}, {f"layer{i}": {"w": x, "b": y} for i in range(10)}
    state = step(tree, x)
    return {
        "rlx.jit, two arrays": microseconds(lambda: jitted(x, y)),
        "rlx.jit, a dict of two arrays": microseconds(lambda: of_dict(pair)),
        "rlx.jit, 10 dicts of two arrays": microseconds(lambda: of_tree(tree, x)),
        "... donated": microseconds(lambda: step(state, x)),
        "the executable itself": microseconds(lambda: run(x, y)),
        "... its `run` through cffi": microseconds(lambda: native(arena)),
        **tiny_mlp_split(),
        **outside_jit(),
        **_jax_overhead(x, y),
    }


def tiny_mlp_split() -> dict[str, float]:
    """Return what a call of the tiny MLP costs, and its native part, called through cffi."""
    graph = tiny_mlp()
    leaves = (*graph.inputs, *graph.params)
    x, *values = (np.ones(concrete(leaf.shape, {}), np.float32) for leaf in leaves)
    params = {str(leaf.node.name): w for leaf, w in zip(graph.params, values, strict=True)}
    program = rlx.compile(graph, params=params, threads=1)
    program(x)
    arena = pointer_to(program.arena.address)
    native = function_at(program.address, "int (*)(uint8_t *)")
    return {
        "tiny MLP": microseconds(lambda: program(x)),
        "... its `run` through cffi": microseconds(lambda: native(arena)),
    }


def outside_jit() -> dict[str, float]:
    """Return what calls of a hundred numbers cost that are not compiled, and NumPy's."""
    x = np.ones(100, np.float32)
    return {
        "rlx.numpy.add(x, x), not compiled": microseconds(lambda: rnp.add(x, x)),
        "rlx.numpy.sum(x)": microseconds(lambda: rnp.sum(x)),
        "rlx.numpy.sum(a=x)": microseconds(lambda: rnp.sum(a=x)),
        "numpy.add(x, x)": microseconds(lambda: np.add(x, x)),
        "numpy.sum(x)": microseconds(lambda: np.sum(x)),
    }


def _jax_overhead(x: Any, y: Any) -> dict[str, float]:
    try:
        import jax
    except ImportError:
        return {}
    peer = jax.jit(multiply_add)
    return {"jax.jit, two arrays": microseconds(lambda: peer(x, y))}


def import_seconds(module: str) -> float:
    """Return the time to import `module` in a fresh interpreter, less an interpreter's start."""

    def seconds(code: str) -> float:
        command = [sys.executable, "-c", code]
        return min(timeit.repeat(lambda: subprocess.run(command, check=True), number=1, repeat=3))

    return seconds(f"import {module}") - seconds("pass")


if __name__ == "__main__":
    find_gateway(wait=True)
    find_gateway("eager_gateway", wait=True)
    for what, cost in overheads().items():
        print(f"{what:<34}{cost:8.2f} us")
    for module in ("rlx", "rlx.numpy", "numpy"):
        print(f"import {module:<27}{import_seconds(module) * 1e3:8.1f} ms")

"""Programs whose first answers are timed, written once for rlx and JAX.

Each takes a `Library` and returns a compiled function and its arguments.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from rlx.dataclass import dataclass

Made: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Library:
    """What a program is written with."""

    numpy: ModuleType
    jit: Callable[..., Any]
    value_and_grad: Callable[..., Any]
    tree_map: Callable[..., Any]
    backend: str


@dataclass(frozen=True, slots=True)
class FirstProgram:
    """A program, the modules that it imports, and the columns that it has no version for."""

    make: Callable[[Library], Made]
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def library(column: str) -> Library:
    """Return JAX for "jax", else rlx with the back end of that name, or LLVM."""
    if column == "jax":
        import jax

        def run(function: Callable[..., Any]) -> Callable[..., Any]:
            compiled = jax.jit(function)
            return lambda *arguments: jax.block_until_ready(compiled(*arguments))

        return Library(jax.numpy, run, jax.value_and_grad, jax.tree_util.tree_map, "jax")
    import rlx
    import rlx.numpy

    backend = "c" if column in ("c", "c-wait") else "llvm"
    jit = functools.partial(rlx.jit, backend=backend)
    return Library(rlx.numpy, jit, rlx.value_and_grad, rlx.tree_map, backend)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def readme_step(lib: Library) -> Made:
    """The training step of the README."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        w, v = params
        return lib.numpy.mean((lib.numpy.tanh(x @ w) @ v - y) ** 2)

    def step(params: Any, x: Any, y: Any) -> Any:
        _, gradients = lib.value_and_grad(loss)(params, x, y)
        return lib.tree_map(lambda p, g: p - 0.1 * g, params, gradients)

    params = (normal(3, 16), normal(16, 1, seed=1))
    return lib.jit(step), (params, normal(32, 3, seed=2), normal(32, 1, seed=3))


def elementwise(lib: Library, count: int = 10_000) -> Made:
    """A chain of elementwise ops."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(count // 4):
            x = lib.numpy.sin(x) * y + 0.5
            y = lib.numpy.maximum(x, y)
        return x + y

    return lib.jit(chain), (normal(64), normal(64, seed=1))


def leaves(lib: Library, count: int = 2_000) -> Made:
    """An update of many small arrays."""

    def update(params: Any) -> Any:
        return lib.tree_map(lambda a: a * 0.9, params)

    return lib.jit(update), ({f"k{i}": normal(3, seed=i) for i in range(count)},)


def transformer_gradient(lib: Library, layers: int = 8) -> Made:
    """The gradient of a transformer whose layers are written out."""
    rnp, heads, width = lib.numpy, 4, 64

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        centered = x - rnp.mean(x, axis=-1, keepdims=True)
        spread = rnp.mean(centered**2, axis=-1, keepdims=True)
        return centered / rnp.sqrt(spread + 1e-5) * scale + shift

    def attention(p: Any, x: Any) -> Any:
        rows, length, _ = x.shape

        def split(z: Any) -> Any:
            return z.reshape(rows, length, heads, width // heads).transpose(0, 2, 1, 3)

        q, k, v = (split(x @ p[name]) for name in ("q", "k", "v"))
        scores = q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5
        weights = rnp.exp(scores - rnp.max(scores, axis=-1, keepdims=True))
        weights = weights / rnp.sum(weights, axis=-1, keepdims=True)
        return (weights @ v).transpose(0, 2, 1, 3).reshape(rows, length, width) @ p["o"]

    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = x + attention(p, norm(x, p["scale"], p["shift"]))
            hidden = norm(x, p["scale2"], p["shift2"]) @ p["up"]
            x = x + 0.5 * hidden * (1 + rnp.tanh(0.8 * (hidden + 0.045 * hidden**3))) @ p["down"]
        return rnp.mean(x * x)

    shapes: dict[str, tuple[int, ...]] = dict.fromkeys("qkvo", (width, width))
    shapes |= {"up": (width, 4 * width)}
    shapes |= {"down": (4 * width, width)} | dict.fromkeys(("scale", "shift"), (width,))
    shapes |= dict.fromkeys(("scale2", "shift2"), (width,))
    params = [{n: 0.1 * normal(*s, seed=i) for n, s in shapes.items()} for i in range(layers)]
    return lib.jit(lib.value_and_grad(loss)), (params, normal(2, 32, width))


def diffrax_gradient(lib: Library) -> Made:
    """The gradient of an adaptive solve by diffrax, through `rlx.from_jax` as it is called."""
    import jax

    import rlx
    from tests.jaxpr.programs import diffrax_solve

    function = jax.value_and_grad(diffrax_solve(), (0, 1))
    arguments = (jax.numpy.array([1.0, 0.0]), jax.numpy.array(2.0))
    compiled = lib.jit(function) if lib.backend == "jax" else rlx.from_jax(function)
    return compiled, arguments


def resnet50(lib: Library) -> Made:
    """ResNet-50, compiled from its graph."""
    import rlx
    from bench.workloads import WORKLOADS

    workload = next(each for each in WORKLOADS if each.name == "resnet50")
    graph = workload.build()
    feeds, params = workload.feeds(graph), workload.params(graph)

    def run() -> Any:
        compiled = rlx.compile(graph, backend=lib.backend, params=params)
        return compiled(*[feeds[str(leaf.node.name)] for leaf in graph.inputs])

    return run, ()


PROGRAMS = {
    "readme_step": FirstProgram(readme_step),
    "transformer_8_gradient": FirstProgram(transformer_gradient),
    "diffrax_gradient": FirstProgram(diffrax_gradient, needs=("jax", "diffrax"), without=("c",)),
    "resnet50": FirstProgram(resnet50, without=("jax",)),
    "leaves_2000": FirstProgram(leaves),
    "elementwise_10000": FirstProgram(elementwise),
}


def first_call(name: str, column: str) -> None:
    """Call a program for the first time in this process, and print the seconds."""
    function, arguments = PROGRAMS[name].make(library(column))
    started = time.perf_counter()
    function(*arguments)
    print(time.perf_counter() - started)

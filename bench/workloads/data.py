"""Memory-bound work: normalization, reductions, elementwise chains, gathers."""

from __future__ import annotations

import functools
from collections.abc import Callable

from bench.workload import TENSOR_LIBRARIES, Workload
from rlx.ir.graph import Graph

_MILLION = 1 << 20


def layer_norm(dtype: str) -> Graph:
    g = Graph("layer_norm")
    x = g.input("x", (1024, 768), dtype)
    gamma, beta = g.param("gamma", (768,), dtype), g.param("beta", (768,), dtype)
    g.set_outputs([g.layer_norm(x, gamma, beta, axis=-1, eps=1e-5)])
    return g


def softmax(dtype: str) -> Graph:
    g = Graph("softmax")
    g.set_outputs([g.softmax(g.input("x", (4096, 1024), dtype), axis=-1)])
    return g


def elementwise(dtype: str) -> Graph:
    g = Graph("elementwise")
    a, b, c = (g.input(name, (4 * _MILLION,), dtype) for name in "abc")
    g.set_outputs([g.tanh(a * b + c) * g.sigmoid(a)])
    return g


def reduction(axis: int) -> Graph:
    g = Graph(f"reduce_{axis}")
    g.set_outputs([g.reduce_sum(g.input("x", (64, 512, 512)), axes=(axis,))])
    return g


def gather() -> Graph:
    g = Graph("gather")
    table = g.param("table", (30522, 384))
    g.set_outputs([g.gather(table, g.input("rows", (4096,), "i32"), axis=0)])
    return g


def sorting(op: str, *shape: int) -> Graph:
    g = Graph(op)
    g.set_outputs([getattr(g, op)(g.input("x", shape))])
    return g


def median() -> Graph:
    g = Graph("median")
    middle = g.narrow(g.sort(g.input("x", (100_000,))), axis=0, start=49_999, length=2)
    g.set_outputs([g.reduce_mean(middle, axes=(0,))])
    return g


def _sorting(name: str, build: Callable[[], Graph]) -> Workload:
    return Workload(name, build, peers=TENSOR_LIBRARIES, aim="< 1x")


def _reduction(axis: int, where: str) -> Workload:
    return Workload(
        f"reduce_{where}",
        functools.partial(reduction, axis),
        bytes=4 * (64 * 512 * 512 + 64 * 512 * 512 // (64 if axis == 0 else 512)),
        tolerance=1e-3,
        aim="< 1x",
    )


DATA = (
    Workload(
        "layer_norm",
        functools.partial(layer_norm, "f32"),
        bytes=4 * 2 * 1024 * 768,
        aim="<= 0.9x",
    ),
    Workload(
        "softmax",
        functools.partial(softmax, "f32"),
        bytes=4 * 2 * 4096 * 1024,
        aim="<= 0.8x",
    ),
    Workload(
        "softmax_f64",
        functools.partial(softmax, "f64"),
        bytes=8 * 2 * 4096 * 1024,
        aim="< 1x",
    ),
    Workload(
        "elementwise_4m",
        functools.partial(elementwise, "f32"),
        bytes=4 * 4 * 4 * _MILLION,
        aim="<= 0.9x",
    ),
    Workload(
        "elementwise_4m_bf16",
        functools.partial(elementwise, "bf16"),
        peers=("jax", "torch"),
        bytes=2 * 4 * 4 * _MILLION,
        tolerance=3e-2,
        aim="< 1x",
    ),
    _reduction(0, "first"),
    _reduction(1, "middle"),
    _reduction(2, "last"),
    Workload(
        "gather",
        gather,
        bytes=4 * 2 * 4096 * 384,
        ranges=(("rows", 30522),),
        aim="< 1x",
    ),
    _sorting("sort", functools.partial(sorting, "sort", _MILLION)),
    _sorting("sort_rows", functools.partial(sorting, "sort", 1000, 1000)),
    _sorting("argsort", functools.partial(sorting, "argsort", 100_000)),
    _sorting("median", median),
)

"""Small programs, where calls, launches and compile time are what one pays for."""

from __future__ import annotations

from bench.workload import Workload
from rlx.ir.graph import Graph, Value


def tiny_mlp() -> Graph:
    g = Graph("tiny_mlp")
    x: Value = g.input("x", (1, 16))
    for layer, (rows, columns) in enumerate(((16, 32), (32, 32), (32, 4))):
        w, b = g.param(f"w{layer}", (rows, columns)), g.param(f"b{layer}", (columns,))
        x = g.matmul(x, w) + b
        if columns > 4:
            x = g.relu(x)
    g.set_outputs([x])
    return g


def tiny_products() -> Graph:
    """One hundred rotations, one after another: a chain of 3x3 products."""
    g = Graph("tiny_products")
    x: Value = g.input("x", (3, 3))
    step = g.input("step", (3, 3))
    for _ in range(100):
        x = g.matmul(x, step) * 0.5 + 0.1
    g.set_outputs([x])
    return g


def scalar_chain() -> Graph:
    """Three hundred operations on one number."""
    g = Graph("scalar_chain")
    x: Value = g.input("x", (1,))
    for step in range(100):
        x = g.sin(x * (1.0 + 0.01 * step)) + 0.5
    g.set_outputs([x])
    return g


def wide_fan() -> Graph:
    """Two hundred independent branches of one vector, added up."""
    g = Graph("wide_fan")
    x = g.input("x", (64,))
    branches: list[Value] = [g.tanh(x * (0.01 * i + 0.1)) for i in range(200)]
    while len(branches) > 1:
        pairs = zip(branches[::2], branches[1::2], strict=False)
        odd = branches[-1:] if len(branches) % 2 else []
        branches = [a + b for a, b in pairs] + odd
    g.set_outputs([branches[0]])
    return g


SMALL = (
    Workload("tiny_mlp", tiny_mlp, aim="<= 1.5 us"),
    Workload("tiny_products", tiny_products, tolerance=1e-3, aim="< 1x"),
    Workload("scalar_chain", scalar_chain, tolerance=1e-3, aim="< 1x"),
    Workload("wide_fan", wide_fan, aim="< 1x"),
)

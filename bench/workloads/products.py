"""Matrix products: an activation by a weight, over sizes, shapes and dtypes."""

from __future__ import annotations

import functools

from bench.workload import ALL_PEERS, Workload
from rlx.ir.graph import Graph

_SIZES = {"f32": 4, "f64": 8, "bf16": 2}
_TOLERANCES = {"f32": 1e-4, "f64": 1e-9, "bf16": 5e-2}

_PEERS = {"f64": ("jax", "torch", "onnxruntime"), "bf16": ("jax", "torch")}
"""ONNX Runtime's CPU provider has no bf16 products; OpenVINO computes f64 and bf16 in f32."""


def product(rows: int, inner: int, columns: int, dtype: str) -> Graph:
    g = Graph(f"matmul_{rows}x{inner}x{columns}_{dtype}")
    x = g.input("x", (rows, inner), dtype)
    g.set_outputs([g.matmul(x, g.param("w", (inner, columns), dtype))])
    return g


def product_of_inputs(size: int) -> Graph:
    g = Graph(f"matmul_inputs_{size}")
    a, b = g.input("a", (size, size)), g.input("b", (size, size))
    g.set_outputs([g.matmul(a, b)])
    return g


def _workload(name: str, rows: int, inner: int, columns: int, dtype: str = "f32") -> Workload:
    return Workload(
        f"matmul_{name}",
        functools.partial(product, rows, inner, columns, dtype),
        peers=_PEERS.get(dtype, ALL_PEERS),
        flops=2.0 * rows * inner * columns,
        bytes=_SIZES[dtype] * (rows * inner + inner * columns + rows * columns),
        tolerance=_TOLERANCES[dtype],
        aim="< 1x",
    )


PRODUCTS = (
    _workload("16", 16, 16, 16),
    _workload("64", 64, 64, 64),
    _workload("256", 256, 256, 256),
    _workload("1024", 1024, 1024, 1024),
    _workload("1x4096x4096", 1, 4096, 4096),
    _workload("127x333x259", 127, 333, 259),
    _workload("513x511x509", 513, 511, 509),
    _workload("256_f64", 256, 256, 256, "f64"),
    _workload("256_bf16", 256, 256, 256, "bf16"),
    Workload(
        "matmul_inputs_1024",
        functools.partial(product_of_inputs, 1024),
        flops=2.0 * 1024**3,
        bytes=4 * 3 * 1024**2,
        aim="< 1x",
    ),
)

"""Products of few rows: rows of `b` stream by, in blocks of columns, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.schedule import Thunk
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import Schedule
from rlx.ir.op import make_attrs
from rlx.passes.layout.pack_operands import choose_stream
from rlx.runtime.executable import Executable

BACKENDS = ("c", "llvm")

Build = Callable[[Value, Value], Value]


def product(
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    dtype: str = "f32",
    build: Build = ops.matmul,
) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a graph of `build(a, b)` of two inputs, and feeds."""
    g = Graph("product")
    a, b = g.input("a", a_shape, dtype), g.input("b", b_shape, dtype)
    g.set_outputs([build(a, b)])
    random = np.random.default_rng(11)
    return g, {
        x: random.standard_normal(s).astype(a.dtype.numpy)
        for x, s in (("a", a_shape), ("b", b_shape))
    }


def streams(compiled: object) -> list[Schedule]:
    """Return the records of the streamed products of a program."""
    assert isinstance(compiled, Executable)
    thunks = [thunk for thunk in compiled.schedule.thunks if isinstance(thunk, Thunk)]
    nodes = [node for thunk in thunks for node in thunk_body(thunk).nodes]
    return [node.lowering for node in nodes if isinstance(node.lowering, Schedule)]


@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((1, 96), (96, 64)),
        ((2, 97), (97, 96)),
        ((3, 66), (66, 131)),
        ((4, 2), (2, 4100)),
        ((4, 9), (9, 515)),
        ((2, 2, 70), (70, 77)),
        ((3, 2, 48), (3, 48, 90)),
        ((2, 48), (3, 48, 90)),
    ],
)
def test_rows_of_an_input_are_streamed_past_few_rows(
    backend: str, dtype: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    g, feeds = product(a_shape, b_shape, dtype)
    compiled = runtime.compile(g, backend=backend, threads=1)
    assert len(streams(compiled)) == 1
    (got,) = compiled.run(feeds)
    np.testing.assert_allclose(got, feeds["a"] @ feeds["b"], atol=1e-4 if dtype == "f32" else 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_surrounds_a_streamed_product_is_computed_by_its_kernel(backend: str) -> None:
    def build(a: Value, b: Value) -> Value:
        return ops.relu(ops.matmul(ops.transpose(a, perm=(1, 0)), b)) + 1.0

    g, feeds = product((90, 3), (90, 101), build=build)
    compiled = runtime.compile(g, backend=backend, threads=1)
    assert len(streams(compiled)) == 1
    assert isinstance(compiled, Executable)
    assert len(compiled.schedule.thunks) == 1
    (got,) = compiled.run(feeds)
    expected = np.maximum(feeds["a"].T @ feeds["b"], 0) + 1
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_b_is_not_packed_and_its_columns_are_shared_by_threads() -> None:
    g, _ = product((1, 2048), (2048, 3000))
    compiled = runtime.compile(g, backend="llvm", threads=2)
    (record,) = streams(compiled)
    assert isinstance(compiled, Executable)
    assert len(compiled.schedule.thunks) == 1
    assert (record.left, record.right, record.groups) == ("registers", "in_place", 2)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    g, feeds = product((2, 700), (700, 1501))
    results = [
        runtime.compile(g, backend="llvm", threads=threads).run(feeds)[0] for threads in (1, 2, 3)
    ]
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


@pytest.mark.parametrize("columns", [16, 17, 255, 511, 512, 3000, 4096, 100_000])
def test_blocks_cover_the_columns_and_stay_in_the_cache(columns: int) -> None:
    for height in range(1, 9):
        record = choose_stream(height, columns, 16, 32)
        blocks = record.groups
        assert record.columns == record.lanes == 16
        assert -(-columns // (16 * blocks)) * 16 <= 2048
        assert (height + 1) * record.depth < 32 or record.depth == 1
        assert blocks == 1 or blocks % 2 == 0


@pytest.mark.parametrize(
    "misfit", [{"rows": 2}, {"depth": 0}, {"right": "panels"}, {"columns": 32}, {"blocks": 2}]
)
def test_a_record_must_fit_the_operands(misfit: dict[str, Any]) -> None:
    record = replace(choose_stream(1, 32, 16, 32), **misfit)
    g = Graph("product")
    a, b = g.input("a", (1, 8)), g.input("b", (8, 32))
    with pytest.raises(ShapeError, match="do not fit"):
        g.append(ops.matmul, (a, b), make_attrs(ops.matmul, {}), lowering=record)

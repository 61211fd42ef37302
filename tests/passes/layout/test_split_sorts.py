"""Long sorts in stages: the same permutation, and the same bits for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.layout.split_sorts import LONG, split_sorts
from rlx.runtime.toolchain import has_toolchain

BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
LENGTH = LONG + 4321


def sorted_graph(shape: tuple[int, ...], dtype: DType) -> Graph:
    graph = Graph("sorted")
    x = graph.input("x", shape, dtype)
    graph.set_outputs([ops.sort(x), ops.argsort(x)])
    return graph


def kinds(graph: Graph) -> list[str]:
    return [node.op.name for node in split_sorts(graph).nodes]


def samples(dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(4)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, LENGTH).astype(bool)
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        return rng.integers(limits.min, limits.max, LENGTH, dtype.numpy, endpoint=True)
    values = rng.standard_normal(LENGTH).astype(np.float32)
    values[::5] = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5], values[::5].shape)
    return values.astype(dtype.numpy)


@pytest.mark.parametrize(
    ("dtype", "backend"),
    [
        *(
            (dtype, "llvm")
            for dtype in (
                DType.F32,
                DType.F16,
                DType.BF16,
                DType.BOOL,
                DType.I8,
                DType.I16,
                DType.U32,
                DType.F64,
                DType.I64,
                DType.U64,
            )
        ),
        *((DType.F32, backend) for backend in BACKENDS[1:]),
    ],
    ids=str,
)
def test_a_long_row_is_sorted_as_numpy_sorts_it(dtype: DType, backend: str) -> None:
    graph, x = sorted_graph((LENGTH,), dtype), samples(dtype)
    expected = evaluate(graph, {"x": x})
    for threads in (1, 2, 3):
        found = rlx.compile(graph, backend=backend, threads=threads).run({"x": x})
        for ours, other in zip(found, expected, strict=True):
            assert ours.tobytes() == other.tobytes()


def test_one_long_row_is_split() -> None:
    for shape in ((LONG,), (1, LONG)):
        assert kinds(sorted_graph(shape, DType.F32)).count("radix_move") == 6
    assert kinds(sorted_graph((LONG,), DType.U8)).count("radix_move") == 2


@pytest.mark.parametrize(
    ("shape", "dtype"), [((LONG - 1,), DType.F32), ((2, LONG), DType.F32)], ids=str
)
def test_short_rows_and_several_stay_whole(shape: tuple[int, ...], dtype: DType) -> None:
    assert kinds(sorted_graph(shape, dtype)) == ["input", "sort", "argsort"]


def test_indices_of_wide_elements_are_sorted_by_either_half() -> None:
    """A key of 64 bits leaves no room for an index next to it."""
    wide = Graph("wide")
    wide.set_outputs([ops.argsort(wide.input("x", (LONG,), DType.I64))])
    found = kinds(wide)
    assert found.count("radix_move") == 6
    assert found.count("gather") == 1
    assert "argsort" not in found


@pytest.mark.parametrize("dtype", [DType.I64, DType.U64, DType.F64], ids=str)
def test_wide_elements_that_differ_in_one_half_keep_their_order(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    halves = rng.integers(0, 3, (2, LENGTH)) * np.array([[1 << 32], [1]])
    x = halves.sum(0).astype(dtype.numpy)
    if dtype is not DType.U64:
        x -= np.array(1 << 32).astype(dtype.numpy)
    graph = Graph("wide")
    graph.set_outputs([ops.argsort(graph.input("x", (LENGTH,), dtype))])
    for threads in (1, 2):
        (found,) = rlx.compile(graph, backend="llvm", threads=threads).run({"x": x})
        np.testing.assert_array_equal(found, np.argsort(x, kind="stable"))

"""The largest elements of long rows, whatever their order, ties and NaNs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.codegen.kernels.sort.sort import SHORT_ROW
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.toolchain import has_toolchain

BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
DTYPES = [d for d in DType if not d.is_complex and not d.is_storage and d is not DType.BOOL]
LENGTH = 3109
WANTED = (1, 7, SHORT_ROW, SHORT_ROW + 1, 100)


def _rows(dtype: DType, length: int) -> NDArray[Any]:
    """Rows in and against order, of equals, of few values, with large ones at each stride."""
    random = np.random.default_rng(length)
    drawn = random.standard_normal(length) * 50
    strided = drawn.copy()
    strided[::64] += 60
    edges = random.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], length)
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        edges = np.zeros(length)
        drawn, strided = np.abs(drawn) % 120, np.abs(strided) % 120
    special = drawn.copy()
    special[random.permutation(length)[: length // 20]] = edges[: length // 20]
    orders = [drawn, np.sort(drawn), -np.sort(-drawn), strided, special, edges]
    constants = [np.zeros(length), np.full(length, edges[0]), np.round(drawn / 40)]
    rows = np.stack([*orders, *constants]).astype(dtype.numpy)
    if not dtype.is_int:
        bounds = [np.nan, np.inf, -np.inf]
        return np.concatenate(
            [rows, np.stack([np.full(length, b) for b in bounds]).astype(rows.dtype)]
        )
    whole = random.integers(limits.min, limits.max, length, dtype.numpy, endpoint=True)
    full = [np.full(length, b, dtype.numpy) for b in (limits.min, limits.max)]
    return np.concatenate([rows, np.stack([whole, *full])])


def _same(given: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Compare bits but for those of NaNs."""
    assert given.dtype == wanted.dtype
    if wanted.dtype.kind not in "iu":
        given, wanted = given.astype(np.float64), wanted.astype(np.float64)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(given)[numbers], np.signbit(wanted)[numbers])
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_order_of_a_row_changes_what_is_largest(dtype: DType, backend: str) -> None:
    feeds = {"x": _rows(dtype, LENGTH), "short": _rows(dtype, 333)}
    graph = Graph("largest")
    inputs = [graph.input(name, x.shape, dtype) for name, x in feeds.items()]
    graph.set_outputs([y for x in inputs for k in WANTED for y in ops.topk(x, k=k)])
    run = rlx.compile(graph, backend=backend)
    for given, wanted in zip(run.run(feeds), evaluate(graph, feeds), strict=True):
        _same(given, wanted)


@pytest.mark.parametrize("k", [1, 7, 100, 1000])
def test_threads_share_rows_of_which_many_are_wanted(k: int) -> None:
    graph = Graph("shared")
    graph.set_outputs(ops.topk(graph.input("x", (12, 9001)), k=k))
    feeds = {"x": _rows(DType.F32, 9001)[:12]}
    expected = evaluate(graph, feeds)
    for threads in (1, 2):
        run = rlx.compile(graph, backend="llvm", threads=threads)
        for given, wanted in zip(run.run(feeds), expected, strict=True):
            _same(given, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("k", [3, 60])
def test_rows_of_symbolic_length_have_largest_elements(k: int, backend: str) -> None:
    n = rlx.Dim("n", min=k, max=2000)
    graph = Graph("symbolic")
    graph.set_outputs(ops.topk(graph.input("x", (9, n)), k=k))
    run = rlx.compile(graph, backend=backend)
    for length in (k, 61, 64, 96, 127, 1024, 2000):
        feeds = {"x": _rows(DType.F32, length)[:9]}
        for given, wanted in zip(run.run(feeds), evaluate(graph, feeds), strict=True):
            _same(given, wanted)

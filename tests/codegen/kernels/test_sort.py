"""Sorting: the same permutation as NumPy's stable sort, by insertion, network and digits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx import numpy as rnp
from rlx.codegen.kernels.sort.network import exchanges
from rlx.codegen.kernels.sort.sort import SHORT_ROW
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.lowering import BatchInLanes, Bitonic, Lowering
from rlx.ir.reference import evaluate
from rlx.passes.layout.sort_in_lanes import sort_in_lanes
from rlx.passes.rewrite import with_lowering
from rlx.runtime.toolchain import has_toolchain
from rlx.target import named_target

BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
DTYPES = [d for d in DType if not d.is_complex and not d.is_storage]
SHAPES = [
    (5, 7), (19, 16), (2, 9, 21), (3, SHORT_ROW - 1), (3, SHORT_ROW + 1), (2, 9000), (80, 500),
]  # fmt: skip


def _samples(dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    random = np.random.default_rng(3)
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        x = random.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
        x[..., :4] = [limits.max, limits.min, 0, limits.min]
        return x
    y = random.standard_normal(shape).astype(np.float32)
    y[..., ::3] = random.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], y[..., ::3].shape)
    return y.astype(dtype.numpy)


def _same(given: NDArray[Any], wanted: NDArray[Any]) -> None:
    assert given.dtype == wanted.dtype
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(given, wanted)
        return
    given, wanted = given.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(given, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(given)[zero], np.signbit(wanted)[zero])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_sorts_stably_with_nan_last_and_equal_zeros(dtype: DType, backend: str) -> None:
    graph = Graph("sorted")
    inputs = [graph.input(f"x{i}", shape, dtype) for i, shape in enumerate(SHAPES)]
    graph.set_outputs([op(x) for x in inputs for op in (ops.sort, ops.argsort)])
    feeds = {f"x{i}": _samples(dtype, shape) for i, shape in enumerate(SHAPES)}
    expected = evaluate(graph, feeds)
    found = rlx.compile(graph, backend=backend, threads=1).run(feeds)
    for given, wanted in zip(found, expected, strict=True):
        _same(given, wanted)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I8, DType.BF16], ids=str)
def test_threads_sort_as_one_does(dtype: DType, backend: str) -> None:
    graph = Graph("sorted")
    inputs = [graph.input(f"x{i}", shape, dtype) for i, shape in enumerate(SHAPES[-2:])]
    graph.set_outputs([op(x) for x in inputs for op in (ops.sort, ops.argsort)])
    feeds = {f"x{i}": _samples(dtype, shape) for i, shape in enumerate(SHAPES[-2:])}
    found = rlx.compile(graph, backend=backend, threads=2).run(feeds)
    for given, wanted in zip(found, evaluate(graph, feeds), strict=True):
        _same(given, wanted)


@pytest.mark.whole
@pytest.mark.parametrize("n", range(2, 33))
def test_the_exchanges_of_a_network_sort(n: int) -> None:
    """What sorts every row of zeros and ones sorts every row; of long ones a sample is tried."""
    rows = np.arange(1 << min(n, 12))[:, None] >> np.arange(n) & 1
    if n > 12:
        rows = np.random.default_rng(n).integers(0, 2, (4096, n))
    places = list(rows.T)
    for i, j in exchanges(n):
        places[i], places[j] = np.minimum(places[i], places[j]), np.maximum(places[i], places[j])
    np.testing.assert_array_equal(np.stack(places), np.sort(rows.T, axis=0))


NETWORKS = [("llvm", d) for d in (DType.F32, DType.F64, DType.I64, DType.U32)] + [
    (backend, DType.F32) for backend in BACKENDS if backend == "c"
]


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize(("backend", "dtype"), NETWORKS, ids=str)
def test_short_rows_are_sorted_side_by_side(backend: str, dtype: DType) -> None:
    """Rows that fill the lanes and do not, that blocks of vectors cover once and twice."""
    graph = Graph("network")
    x = {"x0": _samples(dtype, (19, 8)), "x1": _samples(dtype, (3, 3, 11))}
    inputs = [graph.input(name, array.shape, dtype) for name, array in x.items()]
    graph.set_outputs([op(each) for each in inputs for op in (ops.sort, ops.argsort)])
    run = rlx.compile(graph, backend=backend)
    for given, wanted in zip(run.run(x), evaluate(graph, x), strict=True):
        _same(given, wanted)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.U32, DType.F64], ids=str)
def test_rows_of_hundreds_are_sorted_by_a_bitonic_network(dtype: DType, backend: str) -> None:
    """Rows that fill their places and do not; with zeros of both signs, NaNs and the greatest."""
    graph = Graph("bitonic")
    lengths = (33, 64, 300) if dtype is DType.F64 else (33, 256, 1000)
    x = {f"x{n}": _samples(dtype, (3, n)) for n in lengths}
    if dtype is DType.U32:
        x["x33"][0, :7] = 2**32 - 1
    inputs = [graph.input(name, array.shape, dtype) for name, array in x.items()]
    graph.set_outputs([op(each) for each in inputs for op in (ops.sort, ops.argsort)])
    run = rlx.compile(graph, backend=backend)
    for given, wanted in zip(run.run(x), evaluate(graph, x), strict=True):
        _same(given, wanted)


def test_a_bitonic_network_is_chosen_for_rows_that_fill_its_lanes() -> None:
    def chosen(dtype: DType, *shape: int, target: str = "x86-64-v4") -> list[Lowering | None]:
        graph = Graph("chosen")
        x = graph.input("x", shape, dtype)
        graph.set_outputs([ops.sort(x), ops.argsort(x)])
        nodes = sort_in_lanes(named_target(target))(graph).nodes
        return [node.lowering for node in nodes if node.operands]

    assert chosen(DType.F32, 1000) == [Bitonic(16), Bitonic(8)]
    assert chosen(DType.F32, 3, 33) == [Bitonic(8), Bitonic(8)]
    assert chosen(DType.F32, 3, 33, target="x86-64-v3") == [Bitonic(8), Bitonic(4)]
    assert chosen(DType.F64, 1000) == [Bitonic(8), None]
    assert chosen(DType.F32, 3000) == [Bitonic(16), None]
    assert chosen(DType.F32, 5000) == chosen(DType.U8, 1000) == [None, None]
    node = ops.sort(Graph("wrong").input("x", (8, 64))).node
    with pytest.raises(ShapeError, match="64 elements do not fill 16 lanes of eight vectors"):
        with_lowering(node, Bitonic(16))


def test_networks_are_chosen_for_short_rows_of_words() -> None:
    def lanes(dtype: DType, *shape: int) -> list[int | None]:
        graph = Graph("chosen")
        x = graph.input("x", shape, dtype)
        graph.set_outputs([ops.sort(x), ops.argsort(x)])
        nodes = sort_in_lanes(named_target("x86-64-v3"))(graph).nodes
        return [getattr(node.lowering, "lanes", None) for node in nodes if node.operands]

    assert lanes(DType.F32, 100, 16) == [8, 4]
    assert lanes(DType.F64, 100, 16) == [4, None]
    assert lanes(DType.F32, 3, 16) == [2, 2]  # no more than there are rows
    for dtype, shape in ((DType.U8, (100, 16)), (DType.F32, (16,))):
        assert lanes(dtype, *shape) == [None, None]
    node = ops.sort(Graph("wrong").input("x", (8, 3))).node
    with pytest.raises(ShapeError, match="3 elements are not sorted in 4 lanes"):
        with_lowering(node, BatchInLanes(4))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.U8, DType.I64], ids=str)
def test_many_of_the_largest_come_in_order_with_their_first_indices(dtype: DType) -> None:
    graph = Graph("largest")
    graph.set_outputs(ops.topk(graph.input("x", (3, 500), dtype), k=SHORT_ROW + 5))
    feeds = {"x": _samples(dtype, (3, 500))}
    for given, wanted in zip(
        rlx.compile(graph, backend="llvm").run(feeds), evaluate(graph, feeds), strict=True
    ):
        _same(given, wanted)


def test_rows_of_symbolic_length_sort() -> None:
    n = rlx.Dim("n", max=100)
    graph = Graph("symbolic")
    x = graph.input("x", (3, n))
    graph.set_outputs([ops.sort(x), ops.argsort(x)])
    run = rlx.compile(graph, backend="llvm")
    for length in (0, 1, 63, 100):
        feeds = {
            "x": _samples(DType.F32, (3, length)) if length > 3 else np.ones((3, length), "f4")
        }
        for given, wanted in zip(run.run(feeds), evaluate(graph, feeds), strict=True):
            _same(given, wanted)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_any_axis_sorts_as_numpy_sorts(axis: int | None) -> None:
    x = np.random.default_rng(0).standard_normal((6, 5, 4)).astype(np.float32)
    np.testing.assert_array_equal(rlx.jit(lambda v: rnp.sort(v, axis))(x), np.sort(x, axis))
    found = rlx.jit(lambda v: rnp.argsort(v, axis))(x)
    np.testing.assert_array_equal(found, np.argsort(x, axis, kind="stable"))


def test_the_gradient_goes_where_the_elements_went() -> None:
    x = np.array([3.0, 1.0, 2.0, 1.0], np.float32)
    weights = np.array([1.0, 10.0, 100.0, 1000.0], np.float32)
    gradient = rlx.grad(lambda v: (rnp.sort(v) * weights).sum())(x)
    np.testing.assert_array_equal(gradient, [1000.0, 1.0, 100.0, 10.0])


@pytest.mark.parametrize("function", [rnp.sort, rnp.argsort, rnp.median])
def test_a_hundred_thousand_elements_take_no_quadratic_time(function: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    run = rlx.jit(function)
    run(x)
    ours, theirs = [], []
    for _ in range(5):
        started = time.perf_counter()
        run(x)
        between = time.perf_counter()
        np.argsort(x, kind="stable")
        ours.append(between - started)
        theirs.append(time.perf_counter() - between)
    assert min(ours) < 10 * min(theirs)  # insertion took a thousand times as long


@pytest.mark.skipif(not has_toolchain(), reason="needs a C compiler")
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64])
def test_keys_of_64_bits_are_exchanged_as_whole_vectors(dtype: type) -> None:
    """GCC compares them lane by lane where an exchange is written as a loop over lanes."""
    source = rlx.jit(rnp.sort, backend="c").c_source(np.zeros((40, 16), dtype))
    bodies = re.findall(r"i64x\d+ (?:min|max)_i64x\d+\(.*?\n}", source, re.DOTALL)
    assert len(bodies) == 2
    assert all("select_i64x" in body and "for (" not in body for body in bodies)

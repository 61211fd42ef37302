"""Large gathers on several threads: all copy, one checks, and the first bad index is reported."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.codegen.checks import split_checks
from rlx.codegen.entry import can_fail
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.lower import lower_graph
from rlx.errors import IndexOutOfRangeError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate

ROWS, TABLE, WIDTH = 900, 50, 48


def lookup(rows: int = ROWS, *, then: str = "", dtype: str = "i32") -> Graph:
    """Rows of a table, with work after them that the fuser or another thread may take."""
    g = Graph("lookup")
    picked = g.gather(g.input("table", (TABLE, WIDTH)), g.input("rows", (rows,), dtype), axis=0)
    outputs = {"": picked, "fused": g.tanh(picked + 1.0)}
    g.set_outputs([outputs[then] if then != "sums" else g.reduce_sum(picked, axes=(0,))])
    return g


def feeds(rows: int = ROWS, dtype: str = "int32") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {
        "table": rng.normal(size=(TABLE, WIDTH)).astype(np.float32),
        "rows": rng.integers(0, TABLE, rows).astype(dtype),
    }


def kernel_of(graph: Graph) -> Kernel:
    return next(iter(lower_graph(graph).kernels.values()))


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("then", ["", "sums"])
def test_rows_have_the_same_bits_for_any_number_of_threads(
    backend: str, threads: int, then: str
) -> None:
    graph, given = lookup(then=then), feeds()
    expected = given["table"][given["rows"]]
    f = rlx.compile(graph, backend=backend, threads=threads)
    (got,) = f(given["table"], given["rows"])
    if then == "sums":
        (once,) = rlx.compile(graph, backend=backend)(given["table"], given["rows"])
        assert got.tobytes() == once.tobytes()
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("bad", "first"),
    [
        ({ROWS - 1: TABLE}, ROWS - 1),  # in the share of the last thread
        ({0: -1}, 0),
        ({3: TABLE, ROWS - 5: -1}, 3),  # in two shares
        ({ROWS - 5: -(2**31), ROWS - 9: 2**31 - 1}, ROWS - 9),
    ],
)
def test_the_first_bad_index_is_reported_whichever_thread_copies_its_row(
    backend: str, threads: int, bad: dict[int, int], first: int
) -> None:
    given = feeds()
    f = rlx.compile(lookup(then="sums"), backend=backend, threads=threads)
    good = given["rows"].copy()
    for position, index in bad.items():
        given["rows"][position] = index
    with pytest.raises(IndexOutOfRangeError, match=rf"position {first}$|position {first}\D") as e:
        f(given["table"], given["rows"])
    assert e.value.source is not None
    assert e.value.source.file.endswith("test_checks.py")
    (after,) = f(given["table"], good)
    np.testing.assert_allclose(after, given["table"][good].sum(axis=0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fused_gather_agrees_with_the_reference_and_fails_alike(threads: int) -> None:
    graph, given = lookup(then="fused"), feeds()
    f = rlx.compile(graph, threads=threads)
    (expected,) = evaluate(graph, given)
    np.testing.assert_allclose(f(given["table"], given["rows"])[0], expected, rtol=1e-6, atol=1e-6)
    given["rows"][[40, ROWS - 2]] = TABLE
    with pytest.raises(IndexOutOfRangeError, match="position 40"):
        f(given["table"], given["rows"])


def test_a_large_gather_comes_apart_into_a_loop_and_checks() -> None:
    parts = split_checks(kernel_of(lookup()))
    assert parts is not None
    assert parts.loop.parallel_loop is not None
    assert not can_fail(parts.loop)
    assert can_fail(parts.checks)
    assert not any(buffer.writable for buffer in parts.checks.buffers)


@pytest.mark.parametrize(
    "graph", [lookup(8), lookup(dtype="f32")], ids=["small", "positions that are not integers"]
)
def test_other_gathers_stay_in_one_piece(graph: Graph) -> None:
    kernel = kernel_of(graph)
    assert can_fail(kernel)
    assert split_checks(kernel) is None

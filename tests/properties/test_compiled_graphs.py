"""Random graphs mean the same in the reference, in LLVM and in C, on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rlx
from rlx.ir.graph import Graph
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.passes.memory.check import check_plan
from rlx.runtime.executable import Executable
from rlx.runtime.toolchain import has_toolchain
from tests.properties.typed_graphs import LARGE, LARGEST_EXTENT, typed_feeds, typed_graphs

Array = NDArray[Any]

# Some ten ops deep, each may magnify the rounding of those before it a few times.
_ROUNDING = {
    np.dtype(np.float64): 1e-11,
    np.dtype(np.float32): 1e-4,
    np.dtype(np.complex64): 1e-4,
    np.dtype(np.complex128): 1e-11,
    np.dtype(np.float16): 0.05,
    np.dtype(ml_dtypes.bfloat16): 0.3,
}


def profile(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


needs_compiler = pytest.mark.skipif(not has_toolchain(), reason="there is no C compiler")


def compiled(graph: Graph, backend: str, threads: int = 1) -> Executable:
    made = rlx.compile(graph, backend=backend, threads=threads)
    assert isinstance(made, Executable)
    return made


def run(executable: Executable, graph: Graph, feeds: dict[str, Array]) -> Sequence[Array]:
    for leaf in graph.params:
        executable.set_param(str(leaf.node.name), feeds[str(leaf.node.name)])
    return executable.run(
        {str(leaf.node.name): feeds[str(leaf.node.name)] for leaf in graph.inputs}
    )


def check(graph: Graph, backend: str, extents: Sequence[int] = (1,)) -> None:
    note(format_graph(graph))
    executable = compiled(graph, backend)
    check_plan(executable.plan)
    for seed, n in enumerate(extents):
        feeds = typed_feeds(graph, seed, n)
        expected = evaluate(graph, feeds)
        for given_, wanted in zip(run(executable, graph, feeds), expected, strict=True):
            agree(given_, wanted)


def agree(found: Array, expected: Array) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    bound = _ROUNDING.get(expected.dtype)
    if bound is None or not expected.size:
        np.testing.assert_array_equal(found, expected)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    np.testing.assert_allclose(a, b, rtol=bound, atol=bound * max(1.0, float(np.abs(b).max())))


@pytest.mark.slow
@given(typed_graphs())
@profile(60)
def test_llvm_agrees_with_the_reference(graph: Graph) -> None:
    check(graph, "llvm")


@pytest.mark.slow
@given(typed_graphs(symbolic=True))
@profile(30)
def test_llvm_agrees_with_the_reference_at_every_extent(graph: Graph) -> None:
    check(graph, "llvm", (1, 4, LARGEST_EXTENT))


@needs_compiler
@given(st.booleans().flatmap(lambda symbolic: typed_graphs(symbolic=symbolic)))
@profile(10)
def test_c_agrees_with_the_reference(graph: Graph) -> None:
    check(graph, "c", (1, LARGEST_EXTENT))


@given(typed_graphs(shapes=LARGE, most_steps=10))
@profile(12)
def test_two_threads_give_the_bits_that_one_gives(graph: Graph) -> None:
    feeds = typed_feeds(graph)
    alone = run(compiled(graph, "llvm"), graph, feeds)
    together = run(compiled(graph, "llvm", threads=2), graph, feeds)
    for one, two in zip(alone, together, strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.mark.slow
@given(st.booleans().flatmap(lambda symbolic: typed_graphs(symbolic=symbolic)))
@profile(60)
def test_a_graph_is_what_is_parsed_from_its_text(graph: Graph) -> None:
    text = format_graph(graph)
    parsed = parse_graph(text)
    assert format_graph(parsed) == text
    for n in (1, LARGEST_EXTENT):
        feeds = typed_feeds(graph, n=n)
        for given_, wanted in zip(evaluate(parsed, feeds), evaluate(graph, feeds), strict=True):
            assert given_.tobytes() == wanted.tobytes()


@pytest.mark.slow
@given(typed_graphs(most_steps=30))
@profile(250)
def test_llvm_agrees_with_the_reference_on_larger_graphs(graph: Graph) -> None:
    check(graph, "llvm")


@pytest.mark.slow
@needs_compiler
@given(typed_graphs(most_steps=30, symbolic=True))
@profile(30)
def test_c_agrees_with_the_reference_on_larger_graphs(graph: Graph) -> None:
    check(graph, "c", (1, LARGEST_EXTENT))

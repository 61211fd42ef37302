"""Every op that is recorded, with every choice of batched operands, does what a loop does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, Trait
from rlx.ir.reference import evaluate
from rlx.passes.vmap import vmap
from rlx.passes.vmap.batching import Batching, MappedAxis
from rlx.passes.vmap.registry import Kind, kind_of
from rlx.passes.vmap.sweep import unroll
from tests.passes.vmap.checking import Feeds, assert_is_loop, input_names
from tests.records import OpRecord, records

_SIZE = 3
_MOST_BATCHED = 3


def main_dtype(record: OpRecord) -> DType:
    return DType.F64 if DType.F64 in record.dtypes else record.dtypes[0]


def chosen() -> list[OpRecord]:
    """Return all records with operands; of elementwise ops, which share a rule, the first two."""
    found: list[OpRecord] = []
    for record in records():
        alike = [other for other in found if other.op is record.op]
        if record.operands and not (record.op.has(Trait.ELEMENTWISE) and len(alike) == 2):
            found.append(record)
    return found


def subsets(names: list[str], most: int = _MOST_BATCHED) -> Iterator[tuple[str, ...]]:
    for count in range(1, min(len(names), most) + 1):
        yield from itertools.combinations(names, count)


def feeds_of(record: OpRecord, batched: tuple[str, ...], size: int) -> Feeds:
    """Return the record's arrays, those named in `batched` drawn anew for each example."""
    draws = [record.inputs(main_dtype(record), seed) for seed in range(max(size, 1))]
    return {
        name: np.stack([draw[name] for draw in draws])[:size] if name in batched else draws[0][name]
        for name in draws[0]
    }


CHOSEN = chosen()
FIRSTS = list({record.op: record for record in reversed(CHOSEN)}.values())


def named(record: OpRecord) -> str:
    return record.id


STAGES_OF_SORT = {"radix_counts", "radix_move", "sorted_values"}
STAGES_OF_TRANSFORMS = {"dft", "dft_of_prime", "dft_of_reals", "dft_to_reals"}
MADE_AFTER_BATCHING = {
    *("all_reduce_start", "all_reduce_done"), *STAGES_OF_SORT, *STAGES_OF_TRANSFORMS,
}  # fmt: skip
"""What passes make of sums over ranks, of long sorts and of Fourier transforms."""


def test_only_ragged_products_walks_and_ops_of_packages_are_unrolled() -> None:
    unrolled = {op.name for op in OPS.values() if kind_of(op) is Kind.UNROLLED}
    custom = {op.name for op in OPS.values() if op.family == "custom"}
    assert unrolled - custom - MADE_AFTER_BATCHING == {
        *("ragged_matmul", "ragged_outer", "walk_trees"),
    }


@pytest.mark.whole
@pytest.mark.parametrize("record", CHOSEN, ids=named)
def test_batched_op_is_a_loop_over_the_examples(record: OpRecord) -> None:
    dtype = main_dtype(record)
    graph = record.graph(dtype)
    bound = max(record.tolerance(output.dtype).rtol for output in graph.outputs)
    most = 1 if kind_of(record.op) is Kind.UNROLLED else _MOST_BATCHED
    for names in subsets(input_names(graph), most):
        axes, feeds = dict.fromkeys(names, 0), feeds_of(record, names, _SIZE)
        assert_is_loop(graph, feeds, axes, _SIZE, rtol=bound, atol=bound)


@pytest.mark.whole
@pytest.mark.parametrize("record", FIRSTS, ids=named)
def test_batch_of_one_is_the_example(record: OpRecord) -> None:
    graph = record.graph(main_dtype(record))
    names = tuple(input_names(graph))
    bound = max(record.tolerance(output.dtype).rtol for output in graph.outputs)
    feeds = feeds_of(record, names, 1)
    assert_is_loop(graph, feeds, dict.fromkeys(names, 0), 1, rtol=bound, atol=bound)


@pytest.mark.whole
@pytest.mark.parametrize("record", FIRSTS, ids=named)
def test_batch_of_nothing_has_results_of_nothing(record: OpRecord) -> None:
    graph = record.graph(main_dtype(record))
    for names in subsets(input_names(graph)):
        nothing = vmap(graph, dict.fromkeys(names, 0), size=0)
        results = evaluate(nothing, feeds_of(record, names, 0))
        assert [array.shape for array in results] == [(0, *o.shape) for o in graph.outputs]


@pytest.mark.whole
@pytest.mark.parametrize("record", FIRSTS, ids=named)
def test_unrolling_is_a_loop_over_the_examples(record: OpRecord) -> None:
    graph = record.graph(main_dtype(record))
    names = tuple(input_names(graph))
    feeds = feeds_of(record, names, _SIZE)
    batched = evaluate(vmap(graph, dict.fromkeys(names, 0), size=_SIZE), feeds)
    bound = max(record.tolerance(output.dtype).rtol for output in graph.outputs)
    for array, expected in zip(evaluate(unrolled(graph, _SIZE), feeds), batched, strict=True):
        np.testing.assert_allclose(array, expected, rtol=bound, atol=bound)


def unrolled(graph: Graph, size: int) -> Graph:
    """Return a graph of one node, all inputs batched, as the fallback batches it."""
    target = Graph("unrolled")
    operands = [
        target.input(str(leaf.node.name), (size, *leaf.shape), leaf.dtype) for leaf in graph.inputs
    ]
    at = Batching(
        target,
        MappedAxis(size),
        (True,) * len(operands),
        tuple(leaf.type for leaf in graph.inputs),
        tuple(output.type for output in graph.outputs),
    )
    target.set_outputs(unroll(graph.outputs[0].node, at, operands))
    return target

"""Large sums begin early and are awaited late."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.passes.communication.start_collectives import start_collectives
from tests.passes.communication.test_bundle_collectives import graph_of

X = np.random.default_rng(0).normal(size=(72, 64)).astype(np.float32)


def names(graph: Any) -> list[str]:
    kept = ("all_reduce", "all_reduce_start", "all_reduce_done", "matmul", "mul")
    return [node.op.name for node in graph.nodes if node.op.name in kept]


def test_work_that_does_not_need_the_sum_comes_before_the_wait() -> None:
    def step(x: Any) -> Any:
        return rlx.distributed.psum(x, "ranks") * 0.5, x.T @ x

    assert names(start_collectives(graph_of(step, X))) == [
        "all_reduce_start", "matmul", "all_reduce_done", "mul",
    ]  # fmt: skip


def test_a_sum_that_is_needed_at_once_stays_whole() -> None:
    graph = graph_of(lambda x: rlx.distributed.psum(x, "ranks") * 0.5, X)
    assert start_collectives(graph) is graph


def test_a_small_sum_stays_whole() -> None:
    graph = graph_of(lambda x: (rlx.distributed.psum(x[0], "ranks") * 0.5, x.T @ x), X)
    assert start_collectives(graph) is graph


def test_a_result_without_readers_inside_is_awaited_at_the_end() -> None:
    def step(x: Any) -> Any:
        return rlx.distributed.psum(x, "ranks"), rnp.tanh(x.T) @ x

    assert names(start_collectives(graph_of(step, X)))[-1] == "all_reduce_done"


def test_a_few_numbers_are_no_work_to_begin_a_sum_before() -> None:
    def step(x: Any, count: Any) -> Any:
        return rlx.distributed.psum(x, "ranks") * 0.5, 1.0 / (1.0 - 0.9 ** (count + 1))

    graph = graph_of(step, X, np.float32(3))
    assert start_collectives(graph) is graph


def test_what_is_computed_with_a_reader_of_the_sum_is_no_work_before_it() -> None:
    def update(gradient: Any, mean: Any) -> Any:
        return 0.9 * mean + 0.1 * rlx.distributed.psum(gradient, "ranks")

    graph = graph_of(update, X, X)
    assert start_collectives(graph) is graph


def test_an_update_is_work_while_the_next_sum_is_under_way() -> None:
    def update(x: Any, y: Any) -> Any:
        return x - 0.1 * rlx.distributed.psum(x, "ranks"), y - 0.1 * rlx.distributed.psum(
            y, "ranks"
        )

    assert names(start_collectives(graph_of(update, X, X))) == [
        "all_reduce_start", "all_reduce_start",
        "all_reduce_done", "mul", "all_reduce_done", "mul",
    ]  # fmt: skip

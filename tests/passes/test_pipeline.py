"""The whole pipeline keeps meanings, and says what it did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.verify import verify
from rlx.passes.fusion.fuse import fuse
from rlx.passes.pipeline import Pipeline, pipeline
from rlx.passes.rewrite import GraphPass, Rewritten
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.rewrites.fold_constants import fold_constants
from rlx.passes.rewrites.simplify import simplify
from rlx.passes.rewrites.unfuse import unfuse
from tests.passes.models import CLAIMED, TARGET, encoder, prepared
from tests.properties.typed_graphs import f32_graphs, typed_feeds

_QUICK = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
_EXACT = (dead_code, common_subexpressions, fold_constants, fuse())


def _assert_same(before: Graph, after: Graph, tolerance: float) -> None:
    feeds = typed_feeds(before)
    expected, given_back = evaluate(before, feeds), evaluate(after, feeds)
    for wanted, got in zip(expected, given_back, strict=True):
        assert wanted.dtype == got.dtype
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@given(f32_graphs())
@_QUICK
def test_the_pipeline_keeps_the_values_of_random_graphs(graph: Graph) -> None:
    _assert_same(graph, prepared(graph), 2e-5)  # packed products sum in another order


@pytest.mark.slow
@given(f32_graphs())
@_QUICK
def test_passes_that_recompute_nothing_keep_every_bit(graph: Graph) -> None:
    for graph_pass in _EXACT:
        after = graph_pass(graph)
        verify(after, after=graph_pass.name)
        feeds = typed_feeds(graph)
        for wanted, got in zip(evaluate(graph, feeds), evaluate(after, feeds), strict=True):
            assert wanted.tobytes() == got.tobytes()


@given(f32_graphs())
@_QUICK
def test_simplify_keeps_values(graph: Graph) -> None:
    _assert_same(graph, simplify(graph), 1e-6)


@given(f32_graphs())
@_QUICK
def test_unfuse_undoes_fuse(graph: Graph) -> None:
    whole = dead_code(graph)
    restored = unfuse(fuse()(whole))
    feeds = typed_feeds(graph)
    assert not any(node.op is ops.fused for node in restored.nodes)
    for wanted, got in zip(evaluate(whole, feeds), evaluate(restored, feeds), strict=True):
        assert wanted.tobytes() == got.tobytes()


@given(f32_graphs())
@_QUICK
def test_running_a_pass_twice_is_running_it_once(graph: Graph) -> None:
    for graph_pass in (*_EXACT, simplify, decompose(CLAIMED)):
        once = graph_pass(graph)
        assert graph_pass(once) == once, graph_pass.name


@pytest.mark.slow
@given(f32_graphs())
@_QUICK
def test_leaves_and_donations_survive_every_pass(graph: Graph) -> None:
    after = prepared(graph)
    leaves = [leaf.node.name for leaf in (*graph.inputs, *graph.params)]
    assert [leaf.node.name for leaf in (*after.inputs, *after.params)] == leaves
    assert after.donations == graph.donations
    assert [o.type for o in after.outputs] == [o.type for o in graph.outputs]


@given(f32_graphs())
@_QUICK
def test_the_value_map_leads_from_old_outputs_to_new_ones(graph: Graph) -> None:
    done, _ = Pipeline((dead_code, simplify, fuse())).run_with_report(graph)
    assert tuple(done.value_map[output] for output in graph.outputs) == done.graph.outputs


def test_the_same_graph_gives_the_same_result_every_time() -> None:
    assert prepared(encoder(layers=2)) == prepared(encoder(layers=2))


def test_equal_layers_get_equal_bodies() -> None:
    def bodies(layers: int) -> set[Graph]:
        graph = fuse()(simplify(decompose(CLAIMED)(encoder(layers=layers))))
        return {node.attribute("body") for node in graph.nodes if node.op is ops.fused}

    assert bodies(3) == bodies(1)


def test_the_report_lists_what_each_pass_changed() -> None:
    _, report = pipeline(CLAIMED, TARGET).run_with_report(encoder(layers=1))
    by_name = {record.name: record for record in report.passes}
    assert not by_name["dead-code"].changed
    assert by_name["fuse"].changed
    assert by_name["fuse"].nodes_after < by_name["fuse"].nodes_before
    assert "(unchanged)" in str(report)


def test_a_dump_is_numbered_and_notes_what_is_unchanged(tmp_path: Path) -> None:
    graph = encoder(layers=1)
    Pipeline((dead_code, fuse())).run_with_report(graph, dump=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["00_input.rlx", "01_dead_code (unchanged).rlx", "02_fuse.rlx"]


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    def break_it(graph: Graph) -> Rewritten:
        broken = Graph(graph.name)
        x = broken.input("x", (2,))
        stranger = Value(Graph("other"), x.node, 0, x.type)
        broken.outputs = (stranger,)
        return Rewritten(broken, {})

    graph = Graph("victim")
    graph.set_outputs([graph.input("x", (2,))])
    with pytest.raises(GraphError, match="after break-it"):
        Pipeline((GraphPass("break-it", break_it),)).run(graph)

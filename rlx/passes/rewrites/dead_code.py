"""Dead-code elimination: nodes that no output depends on are removed."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.passes.rewrite import Rewritten, graph_pass, live_nodes, rebuild


@graph_pass
def dead_code(graph: Graph) -> Rewritten:
    """Drop nodes that no output depends on; inputs and params stay, used or not.

    %1: f32[4] = exp %0
    %2: f32[4] = neg %0      ->      %1: f32[4] = neg %0
    return %2                        return %1
    """
    live = live_nodes(graph)
    return rebuild(graph, [node for node in graph.nodes if node in live], dead_code)

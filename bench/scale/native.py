"""Compiled steps by themselves: runs on what an arena holds, without the copies of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import rlx
from bench.scale.steps import Step
from bench.scale.turns import Call
from rlx.codegen.lower.graph import lower_graph
from rlx.distributed import Mesh
from rlx.ir.graph import Graph
from rlx.passes.pipeline import pipeline
from rlx.runtime.compile import choose_backend
from rlx.runtime.executable import Executable
from rlx.runtime.lower import claimed_ops
from rlx.runtime.native import function_at, pointer_to
from rlx.target import detect_target

Feeds = Mapping[str, Any]


def local_feeds(graph: Graph, step: Step, mesh: Mesh) -> Feeds:
    """Return what a rank gives to the graph of a step: communicators, state, its share."""
    shares = [np.split(x, mesh.world.size)[mesh.world.rank] for x in step.batch]
    leaves = rlx.tree_leaves([mesh.communicators, *step.state, *shares])
    names = [str(value.node.name) for value in graph.inputs]
    return dict(zip(names, map(np.asarray, leaves), strict=True))


def native_call(graph: Graph, feeds: Feeds, without: tuple[str, ...] = ()) -> Call:
    """Return the run of the compiled code alone, made without some of the passes."""
    target = detect_target()
    legal = pipeline(claimed_ops(), target).without(*without).run(graph)
    program = lower_graph(legal, target)
    executable = Executable(graph, program, choose_backend("auto").load(program.module, target))
    executable.run(feeds)
    arena = pointer_to(executable.arena.address)
    run = function_at(executable.address, "int (*)(uint8_t *)")
    return lambda: (executable, run(arena))

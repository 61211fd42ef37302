"""Convex groups against their definition, on random graphs and in random order."""

from __future__ import annotations

import random

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.passes.fusion.groups import Group, Groups
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.recompute import find_recomputed


def _random_graph(seed: int, nodes: int = 40) -> Graph:
    chance = random.Random(seed)
    graph = Graph("random")
    values = [graph.input("x", (4,))]
    for _ in range(nodes):
        a, b = (values[-chance.randint(1, min(6, len(values)))] for _ in range(2))
        values.append(ops.add(a, b))
    graph.set_outputs(values[-3:])
    return graph


def _groups(graph: Graph) -> Groups:
    return Groups(graph, find_recomputed(graph, FusionPolicy()))


def _is_convex(groups: Groups, union: set[Group]) -> bool:
    """True if no path of groups leaves `union` and comes back."""
    outside = {r for g in union for r in _readers(groups, g)} - union
    pending = list(outside)
    while pending:
        for reader in _readers(groups, pending.pop()):
            if reader in union:
                return False
            if reader not in outside:
                outside.add(reader)
                pending.append(reader)
    return True


def _readers(groups: Groups, group: Group) -> set[Group]:
    return {groups.group_of[r] for node in group.members for r in groups.readers[node]} - {group}


def test_groups_merge_exactly_if_their_union_is_convex_and_stay_ordered() -> None:
    for seed in range(30):
        groups = _groups(_random_graph(seed))
        chance = random.Random(seed)
        nodes: list[Node] = list(groups.group_of)
        for _ in range(80):
            a, b = (groups.group_of[node] for node in chance.sample(nodes, 2))
            if a is b:
                continue
            convex = _is_convex(groups, {a, b})
            assert (groups.obstacle(a, b) is None) == convex
            if convex:
                assert groups.merge(a, b) is a
            present = set(groups.group_of.values())
            assert all(g.rank < r.rank for g in present for r in _readers(groups, g))
            assert len({g.rank for g in present}) == len(present)


def test_groups_that_are_far_apart_stay_apart_at_a_bounded_cost() -> None:
    graph = Graph("towers")
    x = graph.input("x", (4,))
    left, right = ops.add(x, x), ops.add(x, x)
    first, last = left.node, right.node
    for _ in range(3000):
        left, right = ops.add(left, left), ops.add(right, right)
        last = right.node
    graph.set_outputs([left, right])
    groups = _groups(graph)
    assert groups.obstacle(groups.group_of[first], groups.group_of[last]) is not None
    assert groups.obstacle(groups.group_of[first], groups.group_of[left.node]) is not None

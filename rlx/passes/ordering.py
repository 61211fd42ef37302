"""Topological orders that stay as close to the given one as they can."""

from __future__ import annotations

import heapq

from rlx.ir.graph import Node


def sorted_by_need(units: list[Node], needed: dict[Node, set[Node]]) -> list[Node]:
    """Sort topologically; among the ready ones the smallest index comes first."""
    readers: dict[Node, list[Node]] = {unit: [] for unit in units}
    for unit in units:
        for source in needed[unit]:
            readers[source].append(unit)
    missing = {unit: len(needed[unit]) for unit in units}
    by_index = {unit.index: unit for unit in units}
    ready = [unit.index for unit in units if not needed[unit]]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        unit = by_index[heapq.heappop(ready)]
        ordered.append(unit)
        for reader in readers[unit]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader.index)
    return ordered

"""Residual selection: which values of a step are stored for the backward sweep, or recomputed.

Storing costs memory and traffic at every step, computing again costs time. The choice is a
minimum cut: of all sets of values from which the sweep can compute what it needs cheaply,
the one of fewest bytes; of two such sets the one that leaves less to compute.

- Free: consts and rows of `xs`, which the backward loop reads as the forward one did, and
  whatever depends on consts alone, which leaves both loops.
- Cheap, computed again: arithmetic, comparisons, movement, reductions of cheap values.
- Expensive, stored at or after: transcendental functions, products, loops and all else.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.rewrite import ancestors

_UNLIMITED = 1 << 60

_Port: TypeAlias = tuple[Value | None, bool]
"""A value's side in the network: where it comes in (False) or goes out (True). None: source."""
_SOURCE: _Port = (None, True)
_SINK: _Port = (None, False)


def choose_residuals(
    needed: Iterable[Value], carries: Sequence[Value], invariant: set[Value]
) -> list[Value]:
    """Return the values to store so that `needed` ones can be had in the backward sweep.

    `carries` are the carry inputs of the step, `invariant` what depends on consts alone.
    """
    wanted = [v for v in dict.fromkeys(needed) if not _is_free(v, invariant)]
    network = _Network()
    for value in sorted(ancestors(wanted), key=_place):
        if _is_free(value, invariant):
            continue
        network.join((value, False), (value, True), value.type.bytes * 16 + 1)
        if value in carries or not is_cheap(value.node):
            network.join(_SOURCE, (value, False), _UNLIMITED)
            continue
        for operand in value.node.operands:
            if not _is_free(operand, invariant):
                network.join((operand, True), (value, False), _UNLIMITED)
    for value in wanted:
        network.join((value, True), _SINK, _UNLIMITED)
    return sorted(network.cut(), key=_place)


def is_cheap(node: Node) -> bool:
    """True for what is computed again rather than stored."""
    if node.op.has(Trait.MOVEMENT) or node.op.has(Trait.REDUCTION):
        return True
    return (
        node.op.has(Trait.ELEMENTWISE)
        and not node.op.has(Trait.EXPENSIVE)
        and node.op.decompose is None
    )


def invariant_values(graph: Graph, consts: Sequence[Value]) -> set[Value]:
    """Return what depends on `consts` and constants alone."""
    found = set(consts)
    for node in graph.nodes:
        pure = node.op.name != "input" and not node.op.has(Trait.IMPURE)
        if pure and all(operand in found for operand in node.operands):
            found.update(node.results)
    return found


def _is_free(value: Value, invariant: set[Value]) -> bool:
    return value in invariant


def _place(value: Value) -> tuple[int, int]:
    return value.node.index, value.index


class _Network:
    """A flow network; `cut` finds the minimum cut nearest to the sink."""

    def __init__(self) -> None:
        self._room: dict[_Port, dict[_Port, int]] = {_SOURCE: {}, _SINK: {}}

    def join(self, start: _Port, stop: _Port, capacity: int) -> None:
        self._room.setdefault(start, {})[stop] = capacity
        self._room.setdefault(stop, {}).setdefault(start, 0)

    def cut(self) -> list[Value]:
        """Return the values whose two sides the cut separates."""
        while (path := self._path()) is not None:
            self._fill(path)
        reaching = self._reaching_sink()
        return [
            port[0]
            for port in self._room
            if port[0] is not None
            and not port[1]
            and port not in reaching
            and (port[0], True) in reaching
        ]

    def _path(self) -> list[_Port] | None:
        """Return a shortest path with room from source to sink."""
        came_from: dict[_Port, _Port] = {_SOURCE: _SOURCE}
        waiting = deque([_SOURCE])
        while waiting:
            port = waiting.popleft()
            for following, room in self._room[port].items():
                if room and following not in came_from:
                    came_from[following] = port
                    if following == _SINK:
                        return _trace(came_from)
                    waiting.append(following)
        return None

    def _fill(self, path: list[_Port]) -> None:
        steps = list(itertools.pairwise(path))
        amount = min(self._room[start][stop] for start, stop in steps)
        for start, stop in steps:
            self._room[start][stop] -= amount
            self._room[stop][start] += amount

    def _reaching_sink(self) -> set[_Port]:
        found = {_SINK}
        waiting = [_SINK]
        while waiting:
            port = waiting.pop()
            for before in self._room[port]:
                if before not in found and self._room[before][port]:
                    found.add(before)
                    waiting.append(before)
        return found


def _trace(came_from: dict[_Port, _Port]) -> list[_Port]:
    path = [_SINK]
    while path[-1] != _SOURCE:
        path.append(came_from[path[-1]])
    return path[::-1]

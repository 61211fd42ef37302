"""Calls outside `jit` on large arrays: interpreted at first, compiled after repeated calls.

Interpreting a call costs about what `work` estimates. When the calls of one kind have cost as
much as a compilation does, the next one is compiled, and so are all that follow: what is called
once is not compiled, and what is called often never costs more than twice the best choice. The
count is of the arrays' sizes and not of time, so that a program does the same in every run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from math import prod
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import RlxError
from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.locks import call_lock, unforkable
from rlx.runtime.arrays import Array
from rlx.tracing.executor import Run, arena_bytes, compile_program

COMPILING = 100_000_000
"""Nanoseconds of interpreting that a compilation may cost."""
LARGE = 200_000
"""Nanoseconds from which a call is counted at all."""
KINDS_KEPT = 256
MOST_BYTES = 1 << 30
"""Memory that all compiled kinds of calls may keep."""
_NODE = 3000
_UNKNOWN_TRIPS = 16


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Programs: compiled so far, kept, and kept at most."""

    compiled: int
    kept: int
    limit: int


@dataclass(slots=True)
class _Kind:
    """Statistics of calls of one kind."""

    spent: int = 0
    run: Run | None = None
    bytes: int = 0
    is_refused: bool = False
    """No code can be generated, or it would keep too much memory: it stays interpreted."""
    compiling: Any = field(default_factory=call_lock)
    """Held by the thread that compiles it; other kinds of calls go on meanwhile."""


_lock = call_lock()
"""Guards the table of kinds and the counts; never held while something is compiled."""
_kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
_compiled = 0


def run_compiled(
    key: Hashable, graph: Graph, cost: int, weak: Sequence[bool], arrays: Sequence[Any]
) -> tuple[Array, ...] | None:
    """Return the outputs of `graph`, whose calls are known by `key`; None: interpret this one."""
    run = _run_of(key, graph, cost, weak)
    return None if run is None else run(*arrays)


def _run_of(key: Hashable, graph: Graph, cost: int, weak: Sequence[bool]) -> Run | None:
    with _lock:
        kind = _kinds.setdefault(key, _Kind())
        _kinds.move_to_end(key)
        kind.spent += cost
        _forget_oldest(kind)
        is_due = kind.run is None and not kind.is_refused and kind.spent > COMPILING
    if is_due:
        with kind.compiling:
            if kind.run is None and not kind.is_refused:
                _compile(key, kind, graph, weak)
    return kind.run


def _compile(key: Hashable, kind: _Kind, graph: Graph, weak: Sequence[bool]) -> None:
    global _compiled
    try:
        with unforkable():
            run = compile_program(graph, "auto", None, weak=weak)
    except (RlxError, MemoryError):
        kind.is_refused = True
        return
    with _lock:
        _compiled += 1
        if arena_bytes(run) > MOST_BYTES:
            kind.is_refused = True
            return
        kind.run, kind.bytes = run, arena_bytes(run)
        if _kinds.get(key) is kind:  # it may have been forgotten meanwhile
            _forget_oldest(kind)


def _forget_oldest(current: _Kind) -> None:
    total = sum(kind.bytes for kind in _kinds.values())
    while len(_kinds) > KINDS_KEPT or (total > MOST_BYTES and len(_kinds) > 1):
        key = next(key for key, kind in _kinds.items() if kind is not current)
        total -= _kinds.pop(key).bytes


def eager_cache_info() -> CacheInfo:
    """Return how many programs were compiled for calls outside `jit`, are kept, and may be."""
    with _lock:
        kept = sum(kind.run is not None for kind in _kinds.values())
        return CacheInfo(_compiled, kept, KINDS_KEPT)


def clear_eager_cache() -> None:
    """Forget what was compiled, and counted, for calls outside `jit`."""
    with _lock:
        _kinds.clear()


def counted_work(graph: Graph) -> int:
    """Return the `work` of a call; 0 for a small one, which is always interpreted."""
    cost = graph.once(work)
    return cost if cost >= LARGE else 0


def work(graph: Graph) -> int:
    """Return about how many nanoseconds the reference interpreter takes for `graph`."""
    return sum(_node_work(node) for node in graph.nodes)


def _node_work(node: Node) -> int:
    if node.op.has(Trait.LEAF) or node.op.has(Trait.VIEW):
        return _NODE
    bodies = sum(body.once(work) for body in _bodies(node))
    if bodies:
        return _NODE + bodies * _trips(node)
    elements = max(prod(value.type.static_shape) for value in (*node.operands, *node.results))
    return _NODE + _per_element(node) * elements


def _trips(node: Node) -> int:
    if not node.op.has(Trait.CONTROL):
        return 1
    return int(node.attrs.get("length", _UNKNOWN_TRIPS))


def _per_element(node: Node) -> int:
    if node.op.has(Trait.EXPENSIVE):
        return 3
    if node.op.has(Trait.ALL_ELEMENTS):  # sorts, transforms, factorizations
        return 30
    return 1


def _bodies(node: Node) -> Iterator[Graph]:
    for attribute in node.attrs.as_dict().values():
        for each in attribute if isinstance(attribute, tuple) else (attribute,):
            if isinstance(each, Graph):
                yield each

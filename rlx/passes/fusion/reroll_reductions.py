"""Reduction rerolling: a long sum of terms of one form becomes one sum over an array of terms.

A likelihood with a term for each datum, added up one by one, is thousands of nodes that say
the same thing: what each differs in is a constant, or the row of an array that it reads. The
terms become one, batched over arrays of what differs:

    %0 = exp (%x[0] * 1.0)                       %c = constant [1.0, 1.1, ...]
    %1 = exp (%x[1] * 1.1)               ->      %t = exp (%x * %c)
    %s = %0 + %1 + ...                           %s = reduce_sum %t

So the number of nodes, hence compile time, no longer grows with the number of terms, before
and after differentiation. The order of the additions becomes that of `reduce_sum`. Sums of f16
and bf16 stay: `reduce_sum` rounds once, the additions each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, is_leaf, unchanged

LEAST_TERMS = 16
"""Fewer terms than this are left as they are written."""

_DEEPEST = 64
"""Operations from a term down to what terms share; deeper ones are left as they are written."""

_LOOK = 4
"""Operations from a term down that must agree for terms to be tried together."""

Feed: TypeAlias = Callable[[Graph, dict[Value, Value]], Value]
"""Makes the array of what differs, in the target."""
Kind: TypeAlias = tuple[Any, ...]


class _UnlikeError(Exception):
    """Terms are not alike."""


@graph_pass
def reroll_reductions(graph: Graph) -> Rewritten:
    """Make long sums of alike scalar terms sums over arrays."""
    sums = _find_sums(graph)
    if not sums:
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    live = _live(graph, sums)
    for node in graph.nodes:
        if node in sums and node in live:
            with target.attributed(node.source, node.scope):
                value_map[node.result] = sums[node].build(target, value_map)
        elif node in live:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _live(graph: Graph, sums: dict[Node, _Sum]) -> set[Node]:
    """Return what is still needed when sums are built from what their terms share."""
    live = {output.node for output in graph.outputs} | {n for n in graph.nodes if is_leaf(n)}
    for node in reversed(graph.nodes):
        if node in live:
            needs: Iterable[Value] = sums[node].needs if node in sums else node.operands
            live.update(value.node for value in needs)
    return live


# Finding sums


@dataclass(frozen=True, slots=True)
class _Term:
    value: Value
    negative: bool = False


def _find_sums(graph: Graph) -> dict[Node, _Sum]:
    """Return what becomes of each last addition of a long sum, if any of its terms are alike."""
    if sum(node.op in (ops.add, ops.sub) for node in graph.nodes) < LEAST_TERMS:
        return {}
    reads = _count_reads(graph)
    inner: set[Node] = set()
    found: dict[Node, _Sum] = {}
    for node in reversed(graph.nodes):
        if node in inner or not _adds_scalars(node):
            continue
        terms = _terms(node, reads, inner)
        if len(terms) >= LEAST_TERMS:
            gathered = _gathered(terms)
            if gathered is not None:
                found[node] = gathered
    return found


def _count_reads(graph: Graph) -> dict[Value, int]:
    reads: dict[Value, int] = {}
    for value in (*graph.outputs, *(operand for node in graph.nodes for operand in node.operands)):
        reads[value] = reads.get(value, 0) + 1
    return reads


def _adds_scalars(node: Node) -> bool:
    if node.op not in (ops.add, ops.sub) or node.result.dtype.is_low_precision:
        return False
    return node.result.rank == 0 and all(o.type == node.result.type for o in node.operands)


def _terms(root: Node, reads: dict[Value, int], inner: set[Node]) -> list[_Term]:
    """Return the terms of a sum in their order, and mark its additions."""
    terms: list[_Term] = []
    node = root
    while True:
        inner.add(node)
        before, term = node.operands
        terms.append(_Term(term, node.op is ops.sub))
        if reads[before] > 1 or not _adds_scalars(before.node):
            return [_Term(before), *reversed(terms)]
        node = before.node


# Gathering terms


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum as it will be built: single terms, and bodies batched over alike ones."""

    parts: tuple[_Term | _Batch, ...]

    @property
    def needs(self) -> list[Value]:
        needed: list[Value] = []
        for part in self.parts:
            needed.extend([part.value] if isinstance(part, _Term) else part.needs)
        return needed

    def build(self, target: Graph, value_map: dict[Value, Value]) -> Value:
        total: Value | None = None
        for part in self.parts:
            value = (
                value_map[part.value] if isinstance(part, _Term) else part.build(target, value_map)
            )
            if total is None:
                total = ops.neg(value) if part.negative else value
            else:
                total = ops.sub(total, value) if part.negative else ops.add(total, value)
        assert total is not None, "a sum has terms"
        return total


def _gathered(terms: Sequence[_Term]) -> _Sum | None:
    groups: dict[Kind, list[_Term]] = {}
    for term in terms:
        groups.setdefault((term.negative, *_kind(term.value, _LOOK)), []).append(term)
    batches: dict[_Term, _Batch | None] = {}
    for alike in groups.values():
        batch = _batch(alike) if len(alike) >= LEAST_TERMS else None
        if batch is not None:
            batches |= dict.fromkeys(alike)
            batches[alike[0]] = batch
    if not batches:
        return None
    parts: list[_Term | _Batch] = []
    for term in terms:
        part = batches.get(term, term)
        if part is not None:
            parts.append(part)
        if isinstance(part, _Batch):
            batches[term] = None  # a value may be a term twice; the batch has both
    return _Sum(tuple(parts))


def _kind(value: Value, depth: int) -> Kind:
    """Return what terms that are tried together have in common."""
    node = value.node
    if not depth or not node.operands:
        return ()
    return (node.op.name, *(_kind(operand, depth - 1) for operand in node.operands))


@dataclass(slots=True)
class _Batch:
    """Alike terms: the body of one, and what it is batched over."""

    negative: bool
    count: int
    body: Graph
    shared: dict[str, Value] = field(default_factory=dict)
    feeds: dict[str, Feed] = field(default_factory=dict)
    sources: list[Value] = field(default_factory=list)

    @property
    def needs(self) -> list[Value]:
        return [*self.shared.values(), *self.sources]

    def build(self, target: Graph, value_map: dict[Value, Value]) -> Value:
        from rlx.passes.vmap import vmap  # few programs need it

        axes = {name: 0 if name in self.feeds else None for name in (*self.shared, *self.feeds)}
        batched = vmap(self.body, axes, size=self.count)
        operands = [
            self.feeds[name](target, value_map)
            if name in self.feeds
            else value_map[self.shared[name]]
            for name in (str(leaf.node.name) for leaf in batched.inputs)
        ]
        (rows,) = target.inline(batched, operands)
        return ops.reduce_sum(rows, axes=(0,))


def _batch(alike: Sequence[_Term]) -> _Batch | None:
    batch = _Batch(alike[0].negative, len(alike), Graph("term"))
    try:
        output = _Body(batch).of(tuple(term.value for term in alike), 0)
    except _UnlikeError:
        return None
    batch.body.set_outputs([output])
    return batch if batch.feeds else None


@dataclass(slots=True)
class _Body:
    """Builds the body of a batch from all its terms at once."""

    batch: _Batch
    known: dict[tuple[Value, ...], Value] = field(default_factory=dict)

    def of(self, values: tuple[Value, ...], depth: int) -> Value:
        """Return the value of the body that replaces `values`, one of each term."""
        if values not in self.known:
            self.known[values] = self._made(values, depth)
        return self.known[values]

    def _made(self, values: tuple[Value, ...], depth: int) -> Value:
        first = values[0]
        if any(value.type != first.type for value in values) or depth > _DEEPEST:
            raise _UnlikeError
        if all(value is first for value in values):
            return self._shared(first)
        if all(value.op is ops.constant for value in values):
            return self._constants(values)
        rows = [_row(value) for value in values]
        if rows[0] is not None and all(r is not None and r[0] is rows[0][0] for r in rows):
            return self._rows(first, rows[0][0], [row[1] for row in rows if row is not None])
        return self._applied(values, depth)

    def _applied(self, values: tuple[Value, ...], depth: int) -> Value:
        node = values[0].node
        if is_leaf(node) or not node.operands or is_impure(node):
            raise _UnlikeError
        if not all(_is_alike(node, value.node) for value in values):
            raise _UnlikeError
        if any(value.index != values[0].index for value in values):
            raise _UnlikeError
        columns = zip(*(value.node.operands for value in values), strict=True)
        operands = [self.of(column, depth + 1) for column in columns]
        results = self.batch.body.append(node.op, operands, node.attrs, source=node.source)
        return results[values[0].index]

    def _shared(self, value: Value) -> Value:
        if value.op is ops.constant:
            return self.batch.body.constant(value.node.attribute("value").array)
        name = f"shared_{len(self.batch.shared)}"
        self.batch.shared[name] = value
        return self.batch.body.input(name, value.shape, value.dtype)

    def _constants(self, values: tuple[Value, ...]) -> Value:
        arrays = np.stack([value.node.attribute("value").array for value in values])
        if arrays.tobytes() == arrays[:1].tobytes() * len(arrays):
            return self.batch.body.constant(arrays[0])
        return self._fed(values[0], lambda target, _: target.constant(arrays))

    def _rows(self, like: Value, source: Value, starts: list[int]) -> Value:
        """Take rows from `source`: a view of it where they follow each other."""
        self.batch.sources.append(source)
        first, count = starts[0], len(starts)

        def feed(target: Graph, value_map: dict[Value, Value]) -> Value:
            rows: Value = value_map[source]
            if starts != list(range(first, first + count)):
                rows = ops.gather(rows, target.constant(np.array(starts, np.int64)), axis=0)
            elif count != source.shape[0]:
                rows = ops.narrow(rows, axis=0, start=first, length=count)
            return rows

        return self._fed(like, feed)

    def _fed(self, like: Value, feed: Feed) -> Value:
        name = f"term_{len(self.batch.feeds)}"
        self.batch.feeds[name] = feed
        return self.batch.body.input(name, like.shape, like.dtype)


def _is_alike(a: Node, b: Node) -> bool:
    if a.op is not b.op or len(a.operands) != len(b.operands):
        return False
    return not a.attrs.__dataclass_fields__ or a.attrs == b.attrs


def _row(value: Value) -> tuple[Value, int] | None:
    """Return the array that `value` is a row of, and which, or None."""
    cut = value.node.operands[0] if value.op is ops.reshape else None
    if cut is None or cut.op is not ops.narrow or cut.node.attribute("length") != 1:
        return None
    source = cut.node.operands[0]
    whole = source.shape[1:] == value.shape and cut.node.attribute("axis") in (0, -source.rank)
    return (source, int(cut.node.attribute("start"))) if whole else None

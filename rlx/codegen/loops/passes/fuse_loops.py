"""Loop fusion: loops over one range become one, if iterations depend on themselves alone.

    for i in 0 .. 8:                for i in 0 .. 8:
      t[i] = x[i] * 2.0     ->        t[i] = x[i] * 2.0
    for j in 0 .. 8:                  y[i] = t[i] + 1.0
      y[j] = t[j] + 1.0

Statements between the two move before or after both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
)
from rlx.codegen.loops.passes.affine import Affine, Forms
from rlx.codegen.loops.passes.effects import (
    Effects,
    conflict,
    effects,
    may_overlap,
    mutable_names,
)
from rlx.codegen.loops.passes.names import substituted
from rlx.codegen.loops.visit import (
    evaluated,
    map_blocks,
    walk,
)
from rlx.dataclass import dataclass


def fuse_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` with loops over equal ranges joined, outer ones first."""
    fusion = _Fusion(frozenset(mutable_names(kernel.body)))
    body = fusion.block(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store inside a loop: how its index moves."""

    buffer: Buffer
    lanes: int
    writes: bool
    stride: int
    """Per unit of the loop's variable."""
    inner: tuple[tuple[int, int, int], ...]
    """First and last value of the variables of loops inside, and their coefficients."""
    outer: Affine | None
    """The part that is constant in the loop; None if the index is not affine in its variables."""

    def span(self, period: int) -> tuple[int, int]:
        """Return the range over which inner loops move the index, modulo `period`."""
        ends = [(c * first, c * last) for first, last, c in self.inner if c % period]
        return sum(min(pair) for pair in ends), sum(max(pair) for pair in ends)


@dataclass(slots=True)
class _Summary:
    """Effects of a statement, and the accesses of a loop."""

    statement: Stmt
    effects: Effects
    accesses: dict[Access, None] | None = None


class _Fusion:
    def __init__(self, changing: frozenset[str]) -> None:
        self._changing = changing
        self._known: dict[int, _Summary] = {}

    def block(self, body: Block) -> Block:
        statements = list(body)
        at = 0
        while at < len(statements):
            joined = self._joined(statements, at)
            if joined is None:
                at += 1
            else:
                statements = joined
        return tuple(map_blocks(statement, self.block) for statement in statements)

    def _of(self, statement: Stmt) -> _Summary:
        known = self._known.get(id(statement))
        if known is None or known.statement is not statement:
            known = self._known[id(statement)] = _Summary(statement, effects([statement]))
        return known

    def _joined(self, statements: list[Stmt], at: int) -> list[Stmt] | None:
        """Return the statements with the loop at `at` fused with the next possible one, or None."""
        first = statements[at]
        if not _may_fuse(first):
            return None
        before: list[Stmt] = []
        between: list[Stmt] = []
        for position in range(at + 1, len(statements)):
            second = statements[position]
            if _has_range_of(second, first):
                after = self._fused(first, second, between)
                if after is not None:
                    done = [*before, after, *between]
                    return [*statements[:at], *done, *statements[position + 1 :]]
            if self._passes(second, [first, *between]):
                before.append(second)
            else:
                between.append(second)
        return None

    def _passes(self, statement: Stmt, others: list[Stmt]) -> bool:
        """True if `statement` may move before `others`."""
        mine = self._of(statement).effects
        return not any(conflict(mine, self._of(other).effects) for other in others)

    def _fused(self, first: Stmt, second: Stmt, between: list[Stmt]) -> For | None:
        """Return both loops as one that runs before `between`; None if they may not be fused."""
        assert isinstance(first, For), "callers ask by their ranges"
        assert isinstance(second, For), "callers ask by their ranges"
        one, other = self._of(first).effects, self._of(second).effects
        if one.is_opaque or other.is_opaque or one.binds & other.uses or other.binds & one.uses:
            return None
        if not self._passes(second, between):
            return None
        here, there = self._accesses(first), self._accesses(second)
        span = _range(first)
        assert span, "only loops of known trips are fused"
        for a in here:
            for b in there:
                if _may_depend(a, b) and not _keeps_apart(span, a, b):
                    return None
        body = substituted(second.body, {second.var.name: first.var})
        folded = (*first.accumulators, *second.accumulators)
        fused = replace(first, body=(*first.body, *body), accumulators=folded)
        self._known[id(fused)] = _Summary(fused, one | other, here | there)
        return fused

    def _accesses(self, loop: For) -> dict[Access, None]:
        known = self._of(loop)
        if known.accesses is None:
            known.accesses = dict.fromkeys(self._found(loop))
        return known.accesses

    def _found(self, loop: For) -> Iterator[Access]:
        lets = {s.var.name: s.value for s in walk(loop.body) if isinstance(s, Let)}
        forms = Forms(lets, self._changing)
        bounds = _inner_bounds(loop)
        inside = effects(loop.body).binds | {loop.var.name}

        def access(buffer: Buffer, index: Expr, lanes: int, *, writes: bool) -> Access:
            form = forms.of(index)
            if form is None:
                return Access(buffer, lanes, writes, 0, (), None)
            stride, rest = form.coefficient(loop.var.name), form.without(loop.var.name)
            inner = tuple((*bounds[n], c) for n in bounds if (c := rest.coefficient(n)))
            outer = rest.without(*bounds)
            same = not outer.names & inside
            return Access(buffer, lanes, writes, stride, inner, outer if same else None)

        for statement in walk(loop.body):
            if isinstance(statement, Store):
                lanes = statement.value.type.lanes
                yield access(statement.buffer, statement.index, lanes, writes=True)
            for expr in evaluated(statement):
                if isinstance(expr, Load):
                    yield access(expr.buffer, expr.index, expr.lanes, writes=False)


def _may_fuse(statement: Stmt) -> bool:
    if not isinstance(statement, For) or statement.kind is LoopKind.PARALLEL:
        return False
    return bool(_range(statement))  # known, and not empty


def _range(loop: For) -> range | None:
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return None
    return range(int(loop.start.value), int(loop.stop.value), loop.step)


def _has_range_of(second: Stmt, first: Stmt) -> bool:
    if not isinstance(second, For) or not isinstance(first, For):
        return False
    return second.kind is first.kind and _range(second) == _range(first)


def _may_depend(a: Access, b: Access) -> bool:
    return (a.writes or b.writes) and may_overlap(a.buffer, b.buffer)


def _keeps_apart(span: range, a: Access, b: Access) -> bool:
    """True if accesses `a` and `b` of different iterations over `span` touch different elements.

    With stride S over N iterations, what else moves the index may do so by less than S, or by
    multiples of S * N.
    """
    if a.buffer.name != b.buffer.name or a.outer is None or b.outer is None:
        return False
    if a.stride == 0 or b.stride != a.stride:
        return False
    distance = a.outer.minus(b.outer)
    if distance.terms:
        return False
    step = abs(a.stride) * span.step
    period = step * len(span)
    (least, most), (least_there, most_there) = a.span(period), b.span(period)
    low, high = least - most_there + 1 - b.lanes, most - least_there + a.lanes - 1
    rest = distance.constant % period
    return any(-step < low + offset and high + offset < step for offset in (rest, rest - period))


def _inner_bounds(loop: For) -> dict[str, tuple[int, int]]:
    """Return the first and last value of the variables of loops inside."""
    bounds = {}
    for statement in walk(loop.body):
        if isinstance(statement, For):
            span = _range(statement)
            if span is not None and len(span):
                bounds[statement.var.name] = (span[0], span[-1])
    return bounds

"""Loop fusion: adjacent loops over one range become one, if each iteration keeps to its own.

    for i in 0 .. 8:                for i in 0 .. 8:
      t[i] = x[i] * 2.0     ->        t[i] = x[i] * 2.0
    for j in 0 .. 8:                  y[i] = t[i] + 1.0
      y[j] = t[j] + 1.0

Statements between the two move before or behind both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlx.codegen.loops.nodes import (
    Block,
    Buffer,
    Const,
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
    evaluated,
    may_overlap,
    mutable_names,
)
from rlx.codegen.loops.passes.names import substituted
from rlx.codegen.loops.visit import (
    map_blocks,
    walk,
)


def fuse_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` with loops over equal ranges joined, outer ones first."""
    fusion = _Fusion(frozenset(mutable_names(kernel.body)))
    body = fusion.block(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store inside a loop, at an index in terms of the loops around it."""

    buffer: Buffer
    form: Affine | None
    lanes: int
    writes: bool


class _Fusion:
    def __init__(self, changing: frozenset[str]) -> None:
        self._changing = changing
        self._effects: dict[int, tuple[Stmt, Effects]] = {}

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

    def _of(self, statement: Stmt) -> Effects:
        known = self._effects.get(id(statement))
        if known is None or known[0] is not statement:
            known = (statement, effects([statement]))
            self._effects[id(statement)] = known
        return known[1]

    def _joined(self, statements: list[Stmt], at: int) -> list[Stmt] | None:
        """Return the statements with the loop at `at` fused with the next that it can be."""
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
        mine = self._of(statement)
        return not any(conflict(mine, self._of(other)) for other in others)

    def _fused(self, first: Stmt, second: Stmt, between: list[Stmt]) -> For | None:
        """Return both loops as one, or None if they may not be; `between` is to follow it."""
        assert isinstance(first, For), "callers ask by their ranges"
        assert isinstance(second, For), "callers ask by their ranges"
        if not self._passes(second, between):
            return None
        one, other = self._of(first), self._of(second)
        if one.is_opaque or other.is_opaque or one.binds & other.uses or other.binds & one.uses:
            return None
        for a in self._accesses(first):
            for b in self._accesses(second):
                if _may_depend(a, b) and not _keeps_apart(first, second, a, b):
                    return None
        body = substituted(second.body, {second.var.name: first.var})
        folded = (*first.accumulators, *second.accumulators)
        return replace(first, body=(*first.body, *body), accumulators=folded)

    def _accesses(self, loop: For) -> list[Access]:
        return list(self._found(loop))

    def _found(self, loop: For) -> Iterator[Access]:
        lets = {s.var.name: s.value for s in walk(loop.body) if isinstance(s, Let)}
        forms = Forms(lets, self._changing)
        for statement in walk(loop.body):
            if isinstance(statement, Store):
                lanes = statement.value.type.lanes
                yield Access(statement.buffer, forms.of(statement.index), lanes, writes=True)
            for expr in evaluated(statement):
                if isinstance(expr, Load):
                    yield Access(expr.buffer, forms.of(expr.index), expr.lanes, writes=False)


def _may_fuse(statement: Stmt) -> bool:
    if not isinstance(statement, For) or statement.kind is LoopKind.PARALLEL:
        return False
    return _range(statement) is not None


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


def _keeps_apart(first: For, second: For, a: Access, b: Access) -> bool:
    """True if no iteration of `first` touches by `a` what another one of `second` does by `b`.

    With stride S over N iterations, what else moves the index may do so by less than S, or by
    multiples of S * N.
    """
    span = _range(first)
    if a.buffer.name != b.buffer.name or a.form is None or b.form is None or span is None:
        return False
    stride = a.form.coefficient(first.var.name)
    if stride == 0 or b.form.coefficient(second.var.name) != stride:
        return False
    here, there = _Inner(first, a.form), _Inner(second, b.form)
    outer = here.outer.minus(there.outer)
    if outer.terms or here.moves_freely or there.moves_freely:
        return False
    step = abs(stride) * span.step
    period = step * len(span)
    (least, most), (least_there, most_there) = here.range(period), there.range(period)
    low, high = least - most_there + 1 - b.lanes, most - least_there + a.lanes - 1
    rest = outer.constant % period
    return any(-step < low + offset and high + offset < step for offset in (rest, rest - period))


class _Inner:
    """An index inside a loop: what the loops inside it add, and what is the same all along."""

    def __init__(self, loop: For, form: Affine) -> None:
        bounds = _inner_bounds(loop)
        plain = form.without(loop.var.name)
        self.outer = plain.without(*bounds)
        self.moves_freely = bool(self.outer.names & (effects(loop.body).binds | {loop.var.name}))
        """True if it moves in other ways."""
        self._terms = [(bounds[n], c) for n in bounds if (c := plain.coefficient(n))]

    def range(self, period: int) -> tuple[int, int]:
        """Return how far the loops inside move it, but for multiples of `period`."""
        ends = [(c * a, c * b) for (a, b), c in self._terms if c % period]
        return sum(min(pair) for pair in ends), sum(max(pair) for pair in ends)


def _inner_bounds(loop: For) -> dict[str, tuple[int, int]]:
    """Return the first and last value of the variables of loops inside."""
    bounds = {}
    for statement in walk(loop.body):
        if isinstance(statement, For):
            span = _range(statement)
            if span is not None and len(span):
                bounds[statement.var.name] = (span[0], span[-1])
    return bounds

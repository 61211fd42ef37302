"""The reverse sweep of a scan whose carries, or some of them, are known."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.dataclass import dataclass
from rlx.errors import GraphError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.loops import require_carries, require_inputs, switch
from rlx.ir.ops.segments import Segments, declare, row_of, run_steps
from rlx.ir.ops.shape import concat, expand, narrow, reshape
from rlx.ir.types import TensorType

_SEED = "d_output"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scan from the last step to the first that carries the cotangent of the carry."""

    init: Value
    trajectory: Value
    upstream: Value
    xs: tuple[Value, ...]
    body_vjp: Graph
    segments: Segments
    save_trajectory: bool
    forward_body: Graph | None

    @classmethod
    def of(
        cls, init: Value, trajectory: Value, upstream: Value, xs: tuple[Value, ...],
        body_vjp: Graph, length: int, save_trajectory: bool, num_checkpoints: int,
        forward_body: Graph | None,
    ) -> Sweep:  # fmt: skip
        segments = Segments.of(length, num_checkpoints)
        _require_rows("trajectory", trajectory, init, [segments.count])
        if save_trajectory:
            _require_rows("upstream", upstream, init, [length, segments.count])
        elif upstream.type != init.type:
            raise ShapeError(
                f"upstream has type {upstream.type}; it must be the carry's, {init.type}",
                remedy="pass the cotangent of the last carry",
            )
        rows = [row_of(x, length) for x in xs]
        _require_pullback(body_vjp, init.type, rows)
        if not segments.are_steps:
            _require_forward(forward_body, init.type, rows)
        return cls(
            init, trajectory, upstream, xs, body_vjp, segments, save_trajectory, forward_body
        )

    @property
    def adds_everywhere(self) -> bool:
        """True if every step has a cotangent of its own."""
        return self.save_trajectory and self.upstream.shape[0] == self.segments.length

    @property
    def first(self) -> Value:
        """The cotangent with which the sweep begins."""
        return _zeros(self.init) if self.save_trajectory else self.upstream

    @property
    def entering(self) -> Value:
        """The carry that enters each segment."""
        count, shape = self.segments.count, (1, *self.init.shape)
        before = narrow(self.trajectory, axis=0, start=0, length=max(count - 1, 0))
        start = reshape(self.init, shape=shape)
        return concat(start, before, axis=0) if count else before

    def run(self) -> tuple[Value, tuple[Value, ...]]:
        """Return the cotangents of the first carry and of the `xs`."""
        added = (self.upstream,) if self.save_trajectory else ()
        if self.segments.are_steps:
            return self._back(self.first, self.entering, self.xs, added, self.segments.length)
        return self._by_segments()

    def _back(
        self, d: Value, carries: Value, xs: Sequence[Value], added: Sequence[Value], length: int
    ) -> tuple[Value, tuple[Value, ...]]:
        """Pull `d` back through `length` steps, of which the entering carries are known."""

        def step(d: Value, given: Sequence[Value]) -> tuple[Value, ...]:
            carry, *rest = given
            rows, more = rest[: len(xs)], rest[len(xs) :]
            return self._pull(d + more[0] if more else d, carry, rows)

        last, *rows = run_steps(step, d, (carries, *xs, *added), (), length, reverse=True)
        return last, tuple(rows)

    def _pull(self, d: Value, carry: Value, rows: Sequence[Value]) -> tuple[Value, ...]:
        given = iter((carry, *rows))
        inputs = [d if is_seed(v) else next(given) for v in self.body_vjp.inputs]
        return d.graph.inline(self.body_vjp, inputs)

    def _by_segments(self) -> tuple[Value, tuple[Value, ...]]:
        """Sweep over the segments; each computes its carries again and sweeps over its steps."""
        everywhere = (self.upstream,) if self.adds_everywhere else ()
        at_ends = (self.upstream,) if self.save_trajectory and not everywhere else ()
        count = len(self.xs)

        def segment(d: Value, given: Sequence[Value]) -> tuple[Value, ...]:
            start, longer, carry, *rest = given
            ends, wholes = rest[: len(at_ends)], rest[len(at_ends) :]
            if ends:
                d = d + ends[0]
            return self._segment(d, start, longer, carry, wholes[:count], wholes[count:])

        cut = (*self.xs, *everywhere)
        rows = (
            *self.segments.places(self.init.graph),
            self.entering,
            *at_ends,
            *self.segments.scanned(cut),
        )
        d, *parts = run_steps(
            segment, self.first, rows, self.segments.shared(cut), self.segments.count, reverse=True
        )
        pairs = zip(parts[:count], parts[count:], strict=True)
        return d, tuple(self.segments.joined(firsts, lasts) for firsts, lasts in pairs)

    def _segment(
        self, d: Value, start: Value, longer: Value, carry: Value, xs: Sequence[Value],
        added: Sequence[Value],
    ) -> tuple[Value, ...]:  # fmt: skip
        """Return `d` before the segment, the rows of its first steps, and of the longer's last."""
        segments, forward = self.segments, self.forward_body
        assert forward is not None  # checked when the sweep was made
        cut, more = ([segments.rows(x, start) for x in group] for group in (xs, added))
        known = [narrow(x, axis=0, start=0, length=segments.short - 1) for x in cut]
        carries = _entering(carry, known, forward, segments.short)
        lasts: Sequence[Value] = [_last(x) for x in cut]  # of no meaning in equal segments
        if not segments.are_equal:
            further = [segments.last_row(x, start) for x in (*xs, *added)]
            d, *lasts = switch(
                longer, d, _last(carries), *lasts, *further,
                branches=self._last_step(forward, bool(added)),
            )  # fmt: skip
        d, firsts = self._back(d, carries, cut, more, segments.short)
        return (d, *firsts, *lasts)

    def _last_step(self, forward: Graph, adds: bool) -> tuple[Graph, Graph]:
        """Return what a short segment and what a longer one does after its first steps."""
        count = len(self.xs)
        types = [x.type.with_shape(x.shape[1:]) for x in self.xs]
        given = [self.init.type, self.init.type, *types, *types, *[self.init.type] * adds]
        idle, busy = Graph("no_last_step"), Graph("last_step")
        d, *_ = declare(idle, given)
        idle.set_outputs([d, *(_zeros_of(idle, type) for type in types)])
        d, tail, *rest = declare(busy, given)
        before, rows, more = rest[:count], rest[count : 2 * count], rest[2 * count :]
        (carry,) = busy.inline(forward, (tail, *before))
        busy.set_outputs(self._pull(d + more[0] if more else d, carry, rows))
        return idle, busy


def _entering(init: Value, xs: Sequence[Value], body: Graph, count: int) -> Value:
    """Return the carries that enter `count` steps, of which the first is given `init`."""

    def step(carry: Value, given: Sequence[Value]) -> tuple[Value, Value]:
        return carry.graph.inline(body, (carry, *given))[0], carry

    last, earlier = run_steps(step, init, xs, (), count - 1)
    return concat(earlier, reshape(last, shape=(1, *last.shape)), axis=0)


def _last(x: Value) -> Value:
    """Return the last row."""
    row = narrow(x, axis=0, start=x.shape[0] - 1, length=1)
    return reshape(row, shape=x.shape[1:])


def _zeros(like: Value) -> Value:
    return _zeros_of(like.graph, like.type)


def _zeros_of(graph: Graph, type: TensorType) -> Value:
    return expand(graph.constant(0, type.dtype), shape=type.shape)


def is_seed(value: Value) -> bool:
    return value.node.name == _SEED


def _require_rows(what: str, value: Value, init: Value, counts: Sequence[int]) -> None:
    allowed = [init.type.with_shape((count, *init.shape)) for count in dict.fromkeys(counts)]
    if value.type not in allowed:
        listed = " or ".join(map(str, allowed))
        raise ShapeError(
            f"{what} has type {value.type}; it must be {listed}",
            remedy="pass one row for each step, or for each segment",
        )


def _require_pullback(body: Graph, carry: TensorType, rows: Sequence[TensorType]) -> None:
    seeds = [value for value in body.inputs if is_seed(value)]
    if len(seeds) != 1:
        raise GraphError(
            f"body {body.name!r} has no input called {_SEED!r}",
            remedy="add it: the cotangent of the next carry",
        )
    expected = [carry if is_seed(v) else None for v in body.inputs]
    given = iter((carry, *rows))
    types = [type or next(given, carry) for type in expected]
    if len(body.inputs) != len(rows) + 2:
        raise GraphError(
            f"body {body.name!r} takes {len(body.inputs)} inputs; it must take the carry, "
            f"{len(rows)} rows and {_SEED!r}",
            remedy="declare one input for each of these",
        )
    require_inputs(body, types)
    found, due = tuple(output.type for output in body.outputs), (carry, *rows)
    if found != due:
        listed, wanted = (", ".join(map(str, types)) for types in (found, due))
        raise GraphError(
            f"body {body.name!r} returns {listed}; it must return the cotangents of carry and "
            f"rows, {wanted}",
            remedy="return one cotangent for each of them, in this order",
        )


def _require_forward(body: Graph | None, carry: TensorType, rows: Sequence[TensorType]) -> None:
    if body is None:
        raise GraphError(
            "forward_body is missing",
            remedy="give the body of the scan: a trajectory with fewer rows than steps is "
            "completed by running it again",
        )
    require_inputs(body, (carry, *rows))
    require_carries(body, (carry,), exactly=True)

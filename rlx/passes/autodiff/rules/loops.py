"""Derivatives of scans.

Forward mode is one scan over values and tangents. Reverse mode is two: one forward that stores
what `residuals` chooses, and one over the same rows in the other direction that carries the
cotangents of the carries and adds up those of the consts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import Parts, loop_signature
from rlx.passes.algebra import or_zeros, zeros
from rlx.passes.autodiff.derived import Derivatives, Sparse, place, present
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.residuals import choose_residuals, invariant_values
from rlx.passes.autodiff.sweep import active_values, jvp_in_graph, vjp_in_graph
from rlx.passes.autodiff.through import pull_through
from rlx.passes.loops.hoist_updates import hoist_updates
from rlx.passes.loops.loop_steps import LoopStep, fresh_input, name_of
from rlx.passes.loops.segment_scans import segmented
from rlx.passes.rewrite import ancestors


@dataclass(frozen=True, slots=True)
class Loop:
    """The scan that a rule differentiates, and its types."""

    body: Graph
    given: Parts[Value]
    inputs: Parts[Value]
    length: int
    reverse: bool

    @property
    def num_carries(self) -> int:
        return len(self.given.carries)

    def declare(self, step: LoopStep) -> list[Value]:
        """Declare this scan's operands in `step`; return what the body's inputs become."""
        return [
            *_declared(step.carry, self.given.carries, self.inputs.carries),
            *_declared(step.const, self.given.consts, self.inputs.consts),
            *_declared(step.row, self.given.rows, self.inputs.rows),
        ]


def _declared(
    declare: Callable[[Value, str], Value], outer: Sequence[Value], like: Sequence[Value]
) -> list[Value]:
    return [declare(value, name_of(named)) for value, named in zip(outer, like, strict=True)]


# Forward


@jvp(ops.scan)
def scan_jvp(
    at: Pushforward,
    *operands: Value,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    checkpoints: int | None = None,
    residuals: int = 0,
) -> Derivatives:
    """Run values and tangents in one scan; which carries have tangents is a fixpoint."""
    tangents, body = list(at.tangents), hoist_updates(body)
    for carry in moving_carries(body, [t is not None for t in tangents], num_carries):
        tangents[carry] = or_zeros(at.graph, tangents[carry], operands[carry].type)
    loop = Loop(
        body,
        Parts.of(operands, num_carries, num_consts),
        Parts.of(body.inputs, num_carries, num_consts),
        length,
        reverse,
    )
    step = LoopStep(f"{body.name}_jvp")
    values, moving = _dual_inputs(loop, step, tangents)
    results = step.graph.inline(body, values)
    moved = jvp_in_graph(step.graph, results, values, moving)
    flowing = [t is not None for t in tangents[:num_carries]]
    flowing += [t is not None for t in moved[num_carries:]]
    filled = [
        or_zeros(step.graph, moved[i], result.type) if flows else None
        for i, (result, flows) in enumerate(zip(results, flowing, strict=True))
    ]
    carried, stacked = step.scan(
        [*results[:num_carries], *present(filled[:num_carries])],
        [*results[num_carries:], *present(filled[num_carries:])],
        length=length,
        reverse=reverse,
        checkpoints=checkpoints,
    )
    pushed = (*carried[num_carries:], *stacked[len(results) - num_carries :])
    return place(pushed, tuple(flowing))


def moving_carries(body: Graph, mask: Sequence[bool], num_carries: int) -> list[int]:
    """Return the carries that have a tangent at some step, where `mask` marks the operands."""
    moving = [value for value, moves in zip(body.inputs, mask, strict=True) if moves]
    while True:
        active = active_values(body, moving, body.outputs)
        active |= set(moving)
        pairs = zip(body.inputs[:num_carries], body.outputs, strict=False)
        grown = [v for v, output in pairs if output in active and v not in moving]
        if not grown:
            break
        moving += grown
    return [i for i, value in enumerate(body.inputs[:num_carries]) if value in moving]


def _dual_inputs(
    loop: Loop, step: LoopStep, tangents: Sequence[Value | None]
) -> tuple[list[Value], list[Value | None]]:
    """Declare every operand and after each part its tangents."""
    values: list[Value] = []
    moving: list[Value | None] = []
    rest = iter(tangents)
    parts = (
        (step.carry, loop.given.carries, loop.inputs.carries),
        (step.const, loop.given.consts, loop.inputs.consts),
        (step.row, loop.given.rows, loop.inputs.rows),
    )
    for declare, outer, like in parts:
        values += _declared(declare, outer, like)
        named = [(next(rest), f"t_{name_of(value)}") for value in like]
        moving += [None if t is None else declare(t, name) for t, name in named]
    return values, moving


# Reverse


@vjp(ops.scan)
def scan_vjp(
    at: Pullback,
    *operands: Value,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    checkpoints: int | None = None,
    residuals: int = 0,
) -> Derivatives:
    if checkpoints is not None:
        return pull_through(
            at,
            operands,
            lambda values, _: segmented(
                *values,
                body=body,
                length=length,
                num_carries=num_carries,
                num_consts=num_consts,
                reverse=reverse,
                checkpoints=checkpoints,
            ),
        )
    body = hoist_updates(body)  # derivatives of one store are stores, too
    given = Parts.of(operands, num_carries, num_consts)
    inputs = Parts.of(body.inputs, num_carries, num_consts)
    return _Sweep(at, Loop(body, given, inputs, length, reverse)).run()


@dataclass(frozen=True, slots=True)
class _Joint:
    """One step and its pullback in one graph."""

    graph: Graph
    inputs: Parts[Value]
    carry_seeds: Sparse
    row_seeds: Sparse
    results: tuple[Value, ...]
    pulled: dict[Value, Value | None]
    """The cotangent of every input that may have one."""


class _Sweep:
    """The reverse rule for one scan."""

    def __init__(self, at: Pullback, loop: Loop) -> None:
        self.at = at
        self.loop = loop
        self.wanted = self._wanted_inputs()
        carries = loop.num_carries
        self.carry_cotangents, self.row_cotangents = (
            at.cotangents[:carries],
            at.cotangents[carries:],
        )

    def run(self) -> Sparse:
        joint = self._joint()
        saved, stored = self._record(joint)
        return self._backward(joint, saved, stored)

    def _wanted_inputs(self) -> list[Value]:
        """Return the inputs whose cotangents matter, carries to a fixpoint."""
        body = self.loop.body
        mask = list(self.at.wanted)
        for carry in moving_carries(body, mask, self.loop.num_carries):
            mask[carry] = True
        return [v for v, wanted in zip(body.inputs, mask, strict=True) if wanted]

    def _joint(self) -> _Joint:
        """Build step and pullback; a carry is seeded if its last or any later value matters."""
        carries = [v in self.wanted for v in self.loop.inputs.carries]
        seeded = [
            wanted and given is not None
            for wanted, given in zip(carries, self.carry_cotangents, strict=True)
        ]
        while True:
            joint = self._build_joint(seeded)
            reached = [joint.pulled.get(v) is not None for v in joint.inputs.carries]
            grown = [s or r for s, r in zip(seeded, reached, strict=True)]
            if grown == seeded:
                return joint
            seeded = grown

    def _build_joint(self, seeded: Sequence[bool]) -> _Joint:
        body, carries = self.loop.body, self.loop.num_carries
        graph = Graph(f"{body.name}_vjp")
        values = [graph.input(name_of(v), v.shape, v.dtype) for v in body.inputs]
        results = graph.inline(body, values)
        carry_seeds = tuple(
            fresh_input(graph, f"d_{name_of(v)}", v.type) if wanted else None
            for v, wanted in zip(self.loop.inputs.carries, seeded, strict=True)
        )
        row_seeds = tuple(
            None
            if given is None
            else fresh_input(graph, f"d_row{i}", given.type.with_shape(given.shape[1:]))
            for i, given in enumerate(self.row_cotangents)
        )
        wanted = [v for v, old in zip(values, body.inputs, strict=True) if old in self.wanted]
        pulled = vjp_in_graph(graph, results, wanted, [*carry_seeds, *row_seeds])
        inputs = Parts.of(values, carries, len(self.loop.given.consts))
        found = dict(zip(wanted, pulled, strict=True))
        return _Joint(graph, inputs, carry_seeds, row_seeds, results, found)

    def _record(self, joint: _Joint) -> tuple[list[Value], tuple[Value, ...]]:
        """Append the forward scan that stores residuals; return them, in a step and stacked."""
        seeds = present((*joint.carry_seeds, *joint.row_seeds))
        free = invariant_values(joint.graph, joint.inputs.consts) | set(joint.inputs.rows)
        needed = _frontier(joint, _dependent(joint.graph, seeds))
        saved = choose_residuals(needed, joint.inputs.carries, free)
        if not saved:
            return [], ()
        step = LoopStep(self.loop.body.name)
        value_map = dict(zip(joint.inputs.all, self.loop.declare(step), strict=True))
        outputs = (*joint.results[: self.loop.num_carries], *saved)
        _copy_ancestors(step.graph, joint.graph, outputs, value_map)
        carried = [value_map[value] for value in outputs]
        _, stored = step.scan(
            carried[: self.loop.num_carries],
            carried[self.loop.num_carries :],
            length=self.loop.length,
            reverse=self.loop.reverse,
            residuals=len(saved),
        )
        return saved, stored

    def _backward(self, joint: _Joint, saved: Sequence[Value], stored: Sequence[Value]) -> Sparse:
        """Append the scan in the other direction."""
        at, loop = self.at, self.loop
        step = LoopStep(f"{loop.body.name}_vjp")
        value_map: dict[Value, Value] = {}
        for seed, cotangent, like in zip(
            joint.carry_seeds, self.carry_cotangents, loop.given.carries, strict=True
        ):
            if seed is not None:
                first = or_zeros(at.graph, cotangent, like.type)
                value_map[seed] = step.carry(first, name_of(seed))
        totals = {
            inner: step.carry(zeros(at.graph, inner.type), f"d_{name_of(inner)}")
            for inner in joint.inputs.consts
            if joint.pulled.get(inner) is not None
        }
        for inner, outer in zip(joint.inputs.consts, loop.given.consts, strict=True):
            value_map[inner] = step.const(outer, name_of(inner))
        for inner, outer in zip(joint.inputs.rows, loop.given.rows, strict=True):
            value_map[inner] = step.row(outer, name_of(inner))
        for inner, outer in zip(saved, stored, strict=True):
            value_map[inner] = step.row(outer, f"saved_{inner.op.name}")
        for seed, given in zip(joint.row_seeds, self.row_cotangents, strict=True):
            if seed is not None and given is not None:
                value_map[seed] = step.row(given, name_of(seed))
        continued = _continued(joint, totals)
        starts = {place: totals[inner] for inner, place in continued.items()}
        _copy_ancestors(step.graph, joint.graph, present(joint.pulled.values()), value_map, starts)
        return self._finish(joint, step, value_map, totals, continued.keys())

    def _finish(
        self,
        joint: _Joint,
        step: LoopStep,
        value_map: dict[Value, Value],
        totals: dict[Value, Value],
        continued: Collection[Value],
    ) -> Sparse:
        """Close the backward scan; return the cotangents of the operands."""

        def pulled(inner: Value) -> Value | None:
            found = joint.pulled.get(inner)
            return None if found is None else value_map[found]

        seeded = [
            inner
            for inner, seed in zip(joint.inputs.carries, joint.carry_seeds, strict=True)
            if seed is not None
        ]
        carried = [or_zeros(step.graph, pulled(inner), inner.type) for inner in seeded]
        carried += [
            grown if inner in continued else total + grown
            for inner, total in totals.items()
            for grown in present([pulled(inner)])
        ]
        rows = [inner for inner in joint.inputs.rows if joint.pulled.get(inner) is not None]
        if not carried and not rows:
            return (None,) * len(self.at.wanted)
        lasts, stacked = step.scan(
            carried,
            present(pulled(inner) for inner in rows),
            length=self.loop.length,
            reverse=not self.loop.reverse,
        )
        found = dict(zip([*seeded, *totals, *rows], [*lasts, *stacked], strict=True))
        return tuple(
            found.get(inner) if wanted else None
            for inner, wanted in zip(joint.inputs.all, self.at.wanted, strict=True)
        )


def _dependent(graph: Graph, seeds: Iterable[Value]) -> set[Value]:
    """Return the values that depend on `seeds`."""
    found = set(seeds)
    for node in graph.nodes:
        if any(operand in found for operand in node.operands):
            found.update(node.results)
    return found


def _frontier(joint: _Joint, dependent: set[Value]) -> list[Value]:
    """Return what the pullback reads of the step itself."""
    outputs = present(joint.pulled.values())
    read = [output for output in outputs if output not in dependent]
    for value in ancestors(outputs):
        if value in dependent:
            read += [operand for operand in value.node.operands if operand not in dependent]
    return sorted(set(read), key=lambda value: (value.node.index, value.index))


def _continued(joint: _Joint, totals: Iterable[Value]) -> dict[Value, tuple[Node, int]]:
    """Return the totals that an inner scan adds up from zero, and its operand for the start.

    The inner scan goes on from the outer total instead: the terms are added one by one, in
    the order in which a single loop adds them.
    """
    readers = joint.graph.users()
    found: dict[Value, tuple[Node, int]] = {}
    for inner in totals:
        (pulled,) = present([joint.pulled[inner]])
        node, at = pulled.node, pulled.index
        alone = not readers[pulled] and list(joint.pulled.values()).count(pulled) == 1
        if alone and node.op is ops.scan and _adds_up(node, at):
            found[inner] = (node, at)
    return found


def _adds_up(scan: Node, carry: int) -> bool:
    """True if a carry starts at zero, and every step only adds to it."""
    body: Graph = scan.attribute("body")
    start = scan.operands[carry].node
    while start.op is ops.expand:
        start = start.operands[0].node
    if carry >= loop_signature(scan).num_carries or start.op is not ops.constant:
        return False
    total, following = body.inputs[carry], body.outputs[carry]
    only_reader = body.users()[total] == [following.node]
    adds = following.op is ops.add and following.node.operands[0] is total
    return only_reader and adds and not start.attribute("value").array.any()


def _copy_ancestors(
    target: Graph,
    source: Graph,
    outputs: Sequence[Value],
    value_map: dict[Value, Value],
    starts: Mapping[tuple[Node, int], Value] | None = None,
) -> None:
    """Copy what `outputs` depend on, up to the values in `value_map`.

    `starts` replaces single operands of nodes.
    """
    needed: set[Value] = set()
    waiting = [output for output in outputs if output not in value_map]
    while waiting:
        value = waiting.pop()
        if value not in needed:
            needed.add(value)
            waiting.extend(o for o in value.node.operands if o not in value_map)
    for node in source.nodes:
        if any(result in needed for result in node.results):
            known = {r: value_map[r] for r in node.results if r in value_map}
            operands = [
                (starts or {}).get((node, position), value_map[operand])
                for position, operand in enumerate(node.operands)
            ]
            with target.attributed(node.source, node.scope):
                results = target.append(node.op, operands, node.attrs, name=node.name)
            value_map.update(zip(node.results, results, strict=True))
            value_map.update(known)

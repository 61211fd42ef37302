"""Checks turned into results, through loops and branches.

    %2: i32[] = check %1, %0 {report = 7}        ->   nothing, and three results more:
    return %3                                         the error's number, %0, %3

A body is functionalized by itself. A loop carries the first error and the payloads of its checks, a
branch returns them, with zeros for the checks of the branches not taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import CheckError, InternalError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import Parts, loop_signature, rebuild_loop
from rlx.ir.op import Attrs, Trait
from rlx.ir.registry import Registry
from rlx.ir.reports import Report, report_of
from rlx.passes.checks.automatic import AUTOMATIC, guarded, note_results, without_faults
from rlx.passes.checks.first_error import FirstError, by_report, carried_on, nothing_yet
from rlx.passes.rewrite import bodies_of, copy_node, has_effect, map_bodies

Errors: TypeAlias = frozenset[type[CheckError]]


@dataclass(frozen=True, slots=True)
class Functionalized:
    """A program without checks, whose first results say what would have failed."""

    graph: Graph
    """Its outputs: the number of the error, the payloads of all checks, the results."""
    reports: tuple[Report, ...]
    counts: tuple[int, ...]
    """How many values the text of each report has."""

    @property
    def state(self) -> int:
        """How many outputs precede the results."""
        return 1 + sum(self.counts)

    def inlined(self, errors: FirstError, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append the program, its errors to those before; return its results."""
        outputs = errors.graph.inline(self.graph, operands)
        errors.merge(outputs[0], self.reports, by_report(outputs[1 : self.state], self.counts))
        return outputs[self.state :]

    def results_alone(self) -> Graph:
        """Return the program without the outputs of its checks."""
        alone = Graph(self.graph.name)
        inputs = [alone.input_of(str(x.node.name), x.type) for x in self.graph.inputs]
        alone.set_outputs(alone.inline(self.graph, inputs)[self.state :])
        return alone


def functionalize(graph: Graph, errors: Errors) -> Functionalized:
    """Return `graph` with the checks of kinds in `errors` as results, and without the others.

    Those of AUTOMATIC kinds are made here, for every op that may fail.
    """
    return _Sweep(graph, errors, {}).run()


_Rule: TypeAlias = "Callable[[_Sweep, Node, list[Value]], Sequence[Value]]"
_rules: Registry[_Rule] = Registry("checks in bodies")
"""What becomes of ops whose bodies check something; others are taken apart by their formulas."""


class _Sweep:
    """One graph on its way into `target`."""

    def __init__(self, graph: Graph, errors: Errors, known: dict[int, Functionalized]) -> None:
        self.graph = graph
        self.target = Graph(graph.name)
        self.kinds = errors
        self.known = known
        """What was made of bodies, by the identity of each: rules ask more than once."""
        self.errors = FirstError.none(self.target)
        self.value_map: dict[Value, Value] = {}

    def run(self) -> Functionalized:
        self._walk(self.graph, self.value_map)
        outputs = [self.value_map[output] for output in self.graph.outputs]
        self.target.set_outputs([*self.errors.values, *outputs])
        counts = tuple(map(len, self.errors.payloads))
        return Functionalized(self.target, tuple(self.errors.reports), counts)

    def _walk(self, graph: Graph, value_map: dict[Value, Value]) -> None:
        for node in graph.nodes:
            if node.op.name == "input" and node.result in value_map:
                continue  # of a formula: bound already
            with self.target.attributed(node.source, node.scope):
                results = self._node(node, value_map)
            value_map.update(zip(node.results, results, strict=True))

    def _node(self, node: Node, value_map: dict[Value, Value]) -> Sequence[Value]:
        operands = [value_map[operand] for operand in node.operands]
        if node.op is ops.check:
            return self._check(node, operands)
        if bodies_of(node.attrs) and (self.kinds & AUTOMATIC or has_effect(node)):
            return self._with_bodies(node, operands, value_map)
        if not self.kinds & AUTOMATIC:
            return copy_node(self.target, node, value_map)
        operands = guarded(node, operands, self.errors, self.kinds)
        bound = dict(zip(node.operands, operands, strict=True))
        results = copy_node(self.target, node, bound, attrs=without_faults(node, self.kinds))
        note_results(node, results, self.errors, self.kinds)
        return results

    def _check(self, node: Node, operands: Sequence[Value]) -> Sequence[Value]:
        report = report_of(node.attribute("report"))
        if report.error in self.kinds:
            self.errors.note(operands[0], report, operands[1:])
        return (self.target.constant(0, DType.I32),)

    def _with_bodies(
        self, node: Node, operands: list[Value], value_map: dict[Value, Value]
    ) -> Sequence[Value]:
        if node.op.has(Trait.FUSED):
            return copy_node(self.target, node, value_map)
        if not any(self._made(body).reports for body in bodies_of(node.attrs)):
            return self._quiet(node, operands)
        rule = _rules.get(node.op)
        if rule is not None:
            return rule(self, node, operands)
        if node.op.decompose is None:
            raise InternalError(f"checks in a body of {node.op.name}", source=node.source)
        formula = Graph(node.op.name)
        inputs = [formula.input_of(f"x{i}", x.type) for i, x in enumerate(operands)]
        built = node.op.decompose(*inputs, **node.attrs.as_dict())
        results = (built,) if isinstance(built, Value) else tuple(built)
        inner = dict(zip(inputs, operands, strict=True))
        self._walk(formula, inner)
        return [inner[result] for result in results]

    def _made(self, body: Graph) -> Functionalized:
        if id(body) not in self.known:
            self.known[id(body)] = _Sweep(body, self.kinds, self.known).run()
        return self.known[id(body)]

    def _quiet(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Append the node with bodies that check nothing."""
        attrs = map_bodies(node.attrs, lambda body: self._made(body).results_alone())
        return self._appended(node, operands, attrs)

    def _appended(self, node: Node, operands: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
        return self.target.append(
            node.op, operands, attrs, name=node.name, source=node.source, scope=node.scope
        )

    @_rules(ops.scan)
    def scan(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Carry the first error along with the carries."""
        body, signature = self._made(node.attribute("body")), loop_signature(node)
        given = signature.split(operands)
        stepping = _Stepping(body.graph, body)

        def step(errors: FirstError, inputs: Sequence[Value]) -> tuple[Value, ...]:
            return body.inlined(errors, inputs)

        state = nothing_yet(self.target, stepping.types)
        carries = Parts((*state, *given.carries), given.consts, given.rows)
        results = rebuild_loop(self.target, node, carries, stepping.graph(step))
        return self._taken_apart(results, stepping)

    @_rules(ops.while_loop)
    def while_loop(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Check the condition before the loop and after every trip."""
        body, condition = (
            self._made(node.attribute("body")),
            self._made(node.attribute("condition")),
        )
        signature = loop_signature(node)
        count, given = signature.num_carries, signature.split(operands)
        if condition.reports:
            condition.inlined(self.errors, operands)
        stepping = _Stepping(body.graph, body, condition)

        def step(errors: FirstError, inputs: Sequence[Value]) -> tuple[Value, ...]:
            following = body.inlined(errors, inputs)
            if condition.reports:
                condition.inlined(errors, (*following, *inputs[count:]))
            return following

        state = nothing_yet(self.target, stepping.types)
        carries = Parts((*state, *given.carries), given.consts)
        asked = stepping.ignoring(condition.results_alone())
        results = rebuild_loop(self.target, node, carries, stepping.graph(step), condition=asked)
        return self._taken_apart(results, stepping)

    def _taken_apart(self, results: Sequence[Value], loop: _Stepping) -> Sequence[Value]:
        split = len(loop.types)
        self.errors.merge(results[0], loop.reports, by_report(results[1:split], loop.counts))
        return results[split:]

    @_rules(ops.switch)
    def switch(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Return from every branch the payloads of the checks of all branches."""
        branches = [self._made(branch) for branch in node.attribute("branches")]
        reports = [report for branch in branches for report in branch.reports]
        counts = [count for branch in branches for count in branch.counts]
        payloads = [x.type for b in branches for x in b.graph.outputs[1 : b.state]]
        made: list[Graph] = []
        before = values = 0
        for branch in branches:
            graph = Graph(branch.graph.name)
            inputs = [graph.input_of(str(x.node.name), x.type) for x in branch.graph.inputs]
            number, *outputs = graph.inline(branch.graph, inputs)
            shifted = ops.where(ops.eq(number, 0), 0, number + before)
            own = outputs[: branch.state - 1]
            first = nothing_yet(graph, payloads[:values])
            last = nothing_yet(graph, payloads[values + len(own) :])
            graph.set_outputs([shifted, *first, *own, *last, *outputs[len(own) :]])
            made.append(graph)
            before, values = before + len(branch.reports), values + len(own)
        attrs = _with(node, branches=tuple(made))
        results = self._appended(node, operands, attrs)
        split = 1 + len(payloads)
        self.errors.merge(results[0], reports, by_report(results[1:split], counts))
        return results[split:]

    @_rules(ops.checkpoint)
    def checkpoint(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Put the results of the body's checks first, and saved values last."""
        body = self._made(node.attribute("body"))
        attrs = _with(node, body=body.graph)
        results = self._appended(node, operands, attrs)
        payloads = by_report(results[1 : body.state], body.counts)
        self.errors.merge(results[0], body.reports, payloads)
        return results[body.state :]

    @_rules(ops.custom_call)
    def custom_call(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        """Check the body apart from the call, whose rules have no errors.

        What both compute is merged later.
        """
        self._made(node.attribute("body")).inlined(self.errors, operands)
        return self._quiet(node, operands)


def _with(node: Node, **changed: object) -> Attrs:
    return dataclasses.replace(node.attrs, **changed)


class _Stepping:
    """A loop's body that carries the errors of `parts` in front of its inputs `like`."""

    def __init__(self, like: Graph, *parts: Functionalized) -> None:
        self.like = like
        self.reports = [report for part in parts for report in part.reports]
        self.counts = [count for part in parts for count in part.counts]
        payloads = [x.type for part in parts for x in part.graph.outputs[1 : part.state]]
        self.types = [like.outputs[0].type, *payloads]

    def _inputs(self, graph: Graph) -> tuple[list[Value], list[Value]]:
        prefix = "error"
        while any(str(x.node.name).startswith(prefix) for x in self.like.inputs):
            prefix = f"outer_{prefix}"
        state = [graph.input_of(f"{prefix}_{i}", type) for i, type in enumerate(self.types)]
        return state, [graph.input_of(str(x.node.name), x.type) for x in self.like.inputs]

    def graph(self, step: Callable[[FirstError, Sequence[Value]], Sequence[Value]]) -> Graph:
        """Return the body: `step`, and the first error of this step or of those before."""
        graph = Graph(self.like.name)
        before, inputs = self._inputs(graph)
        errors = FirstError.none(graph)
        results = step(errors, inputs)
        graph.set_outputs([*carried_on(before, errors.values), *results])
        return graph

    def ignoring(self, condition: Graph) -> Graph:
        """Return a condition that is given the errors, too."""
        graph = Graph(condition.name)
        _, inputs = self._inputs(graph)
        graph.set_outputs(graph.inline(condition, inputs))
        return graph

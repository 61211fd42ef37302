"""Loop dead-code elimination: unread results, and carries that keep their first values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import Parts, loop_signature, rebuild_loop
from rlx.ir.op import Trait
from rlx.passes.effects import is_impure
from rlx.passes.loops.rebuild_body import restricted
from rlx.passes.rewrite import (
    Rewritten,
    ancestors,
    copy_node,
    finish,
    graph_pass,
    has_effect,
    is_leaf,
    unchanged,
)


@graph_pass
def loop_dead_code(graph: Graph) -> Rewritten:
    """Drop the dead parts of loops and branches, and dead nodes.

    - Stacked rows, carries and results that nothing reads, and operands that no body reads.
    - A carry that the body returns as it is becomes a const.
    - A scanned operand whose rows are all one (an `expand`) becomes a const.

        %c, %y = scan %c0, %k, %xs {(c, k, x) -> (c + x, k * x)}; return %c
                                           ->      %c = scan %c0, %xs {(c, x) -> (c + x)}
    """
    if not any(node.op.has(Trait.CONTROL) for node in graph.nodes):
        return unchanged(graph)
    keeps = _plan(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        keep = keeps.get(node)
        if keep is not None:
            keep.rebuild(target, node, value_map)
        elif node in keeps or is_leaf(node):
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map) if target != graph else unchanged(graph)


@dataclass(frozen=True, slots=True)
class _Keep:
    """Positions of a control node that are kept."""

    operands: list[int]
    results: list[int]
    constant_carries: list[int]
    repeated_rows: list[int]

    def rebuild(self, target: Graph, node: Node, value_map: dict[Value, Value]) -> None:
        with target.attributed(node.source, node.scope):
            if node.op is ops.switch:
                self._rebuild_switch(target, node, value_map)
            else:
                self._rebuild_loop(target, node, value_map)

    def _rebuild_switch(self, target: Graph, node: Node, value_map: dict[Value, Value]) -> None:
        branches = tuple(
            loop_dead_code(_restricted(b, self.operands, [b.outputs[i] for i in self.results]))
            for b in node.attribute("branches")
        )
        operands = [value_map[node.operands[1 + i]] for i in self.operands]
        results = target.append(
            node.op,
            (value_map[node.operands[0]], *operands),
            dataclasses.replace(node.attrs, **{"branches": branches}),
            name=node.name,
        )
        value_map.update(zip((node.results[i] for i in self.results), results, strict=True))

    def _rebuild_loop(self, target: Graph, node: Node, value_map: dict[Value, Value]) -> None:
        keep = self._parts(node)
        operands = Parts(
            tuple(value_map[node.operands[i]] for i in keep.carries),
            tuple(self._const(value_map[node.operands[i]], i) for i in keep.consts),
            tuple(value_map[node.operands[i]] for i in keep.rows),
        )
        for i in self.constant_carries:
            value_map[node.results[i]] = value_map[node.operands[i]]
        signature = loop_signature(node)
        is_scan = node.op is ops.scan
        rows = [i for i in self.results if is_scan and i >= signature.num_carries]
        if not (keep.carries or rows or node.op is ops.while_loop):
            return
        body: Graph = node.attribute("body")
        outputs = [body.outputs[i] for i in (*keep.carries, *rows)]
        first_residual = len(node.results) - signature.num_residuals
        results = rebuild_loop(
            target,
            node,
            operands,
            loop_dead_code(_restricted(body, keep.all, outputs)),
            condition=_restricted_condition(node, keep.all),
            num_residuals=sum(i >= first_residual for i in rows),
        )
        trips = [len(node.results) - 1] if node.op is ops.while_loop else []
        kept = (node.results[i] for i in (*keep.carries, *rows, *trips))
        value_map.update(zip(kept, results, strict=True))

    def _parts(self, node: Node) -> Parts[int]:
        """Return the positions of the operands that stay, in the parts that they become."""
        signature = loop_signature(node)
        moved = {*self.constant_carries, *self.repeated_rows}
        kept = [i for i in self.operands if i not in moved]
        consts = {i for i in kept if signature.num_carries <= i < signature.first_row}
        return Parts(
            tuple(i for i in kept if i < signature.num_carries),
            (*sorted(consts.union(self.constant_carries)), *self.repeated_rows),
            tuple(i for i in kept if i >= signature.first_row),
        )

    def _const(self, operand: Value, position: int) -> Value:
        return _row(operand) if position in self.repeated_rows else operand


def _restricted_condition(node: Node, inputs: Sequence[int]) -> Graph | None:
    if node.op is ops.scan:
        return None
    condition: Graph = node.attribute("condition")
    return _restricted(condition, inputs, condition.outputs)


def _plan(graph: Graph) -> dict[Node, _Keep | None]:
    """Return the live nodes, with what stays of those that can be pruned."""
    used: set[Value] = set(graph.outputs)
    keeps: dict[Node, _Keep | None] = {}
    for node in reversed(graph.nodes):
        results = [i for i, result in enumerate(node.results) if result in used]
        if not results and not has_effect(node):
            continue
        keep = _keep(node, results) if node.op.has(Trait.CONTROL) and not is_impure(node) else None
        keeps[node] = keep
        if keep is None:
            used.update(node.operands)
        else:
            shift = 1 if node.op is ops.switch else 0
            used.update(node.operands[:shift])
            used.update(node.operands[shift + i] for i in keep.operands)
    return keeps


def _keep(node: Node, results: list[int]) -> _Keep:
    if node.op is ops.switch:
        branches: tuple[Graph, ...] = node.attribute("branches")
        read = {i for b in branches for i in _read(b, (b.outputs[r] for r in results))}
        return _Keep(sorted(read), results, [], [])
    body: Graph = node.attribute("body")
    signature = loop_signature(node)
    count = signature.num_carries
    needed = {i for i in results if i < len(body.outputs)}
    operands: set[int] = {i for i in needed if i < count}
    if node.op is ops.while_loop:
        operands |= _read(node.attribute("condition"), node.attribute("condition").outputs)
    if not operands and node.operands:
        operands.add(len(node.operands) - 1)  # steps that read nothing read something all the same
    while True:
        roots = [body.outputs[i] for i in needed | {i for i in operands if i < count}]
        grown = operands | _read(body, roots)
        if grown == operands:
            break
        operands = grown
    constant = [i for i in operands if i < count and body.outputs[i] is body.inputs[i]]
    first_row = signature.first_row
    repeated = [i for i in operands if i >= first_row and _is_repeated(node.operands[i])]
    return _Keep(sorted(operands), results, sorted(constant), sorted(repeated))


def _read(body: Graph, outputs: Iterable[Value]) -> set[int]:
    """Return the positions of the inputs that `outputs` depend on."""
    reached = ancestors(outputs)
    return {i for i, value in enumerate(body.inputs) if value in reached}


def _restricted(body: Graph, inputs: Sequence[int], outputs: Sequence[Value]) -> Graph:
    """Return `body` with only some of its inputs, in that order, and these outputs."""
    return restricted(body, inputs, outputs, ancestors(outputs))


def _is_repeated(whole: Value) -> bool:
    """True if all rows of `whole` are one."""
    if whole.op is not ops.expand:
        return False
    source = whole.node.operands[0]
    return source.rank < whole.rank or source.shape[0] == 1


def _row(whole: Value) -> Value:
    """Return the row that `whole` repeats."""
    source = whole.node.operands[0]
    if source.rank == whole.rank:
        source = ops.reshape(source, shape=source.shape[1:])
    row = ops.expand(source, shape=whole.shape[1:])
    return row if source.shape != whole.shape[1:] else source

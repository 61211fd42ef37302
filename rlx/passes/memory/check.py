"""The verifier of memory plans: an independent proof that one is sound.

Nothing here is shared with the planner. The check runs the graph in the abstract, in plan order,
twice in a row without feeding inputs again: writing a value marks its bytes, whatever else held
any of them is lost, and a value that is read, or is there for the caller at the end, must
still have all of its bytes. So no two live values overlap unless one is a view of the other.
"""

from __future__ import annotations

from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import row_major_strides
from rlx.passes.memory.bodies import OUTSIDE
from rlx.passes.memory.plan import MemoryPlan, Slot
from rlx.passes.phases import setup_nodes


def check_plan(plan: MemoryPlan, *, alignment: int = 64) -> None:
    """Raise InternalError that lists every way in which `plan` is unsound."""
    faults = plan_faults(plan, alignment=alignment)
    if faults:
        raise InternalError(f"memory plan of {plan.graph.name!r}: " + "; ".join(faults))


def plan_faults(plan: MemoryPlan, *, alignment: int = 64) -> list[str]:
    """Return every way in which `plan` is unsound, each with the values and steps involved."""
    return _faults(plan, alignment, setup_nodes(plan.graph))


def _faults(plan: MemoryPlan, alignment: int, setup: frozenset[Node]) -> list[str]:
    faults = _Simulation(plan, alignment, setup).run()
    for inner in plan.bodies.values():
        for body in inner:
            faults += _faults(body, alignment, frozenset())  # a body computes all that it holds
    return faults


class _NoViewError(Exception):
    """A value that is planned within its operand, and cannot be."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes [begin, end)."""

    begin: int
    end: int

    def overlaps(self, other: _Span) -> bool:
        return max(self.begin, other.begin) < min(self.end, other.end)


class _Simulation:
    def __init__(self, plan: MemoryPlan, alignment: int, setup: frozenset[Node]) -> None:
        self.plan = plan
        self.alignment = alignment
        self.faults: list[str] = []
        self.held: dict[Value, _Span] = {}
        """What the arena holds: values that were written and not overwritten since."""
        self.setup = setup

    def run(self) -> list[str]:
        graph = self.plan.graph
        self._check_slots()
        for leaf in (*graph.inputs, *graph.params):
            self._write(leaf)
        for node in self.plan.order:
            if node in self.setup:
                self._execute(node)
        for _ in range(2):
            for node in self.plan.order:
                if node not in self.setup:
                    self._execute(node)
            self._finish_run(graph)
        return self.faults

    def _check_slots(self) -> None:
        for node in self.plan.graph.nodes:
            for value in node.results:
                slot = self.plan.slots[value]
                beyond = slot.offset + slot.size > self.plan.arena_bytes
                if (beyond and slot.offset < OUTSIDE) or slot.offset < self.plan.header_bytes:
                    self._fault(f"{value.label} is outside of the arena")
                if slot.size != value.type.bytes:
                    self._fault(f"{value.label} has {slot.size} bytes, not {value.type.bytes}")
                if slot.root is None and slot.offset % self.alignment:
                    self._fault(f"{value.label} at {slot.offset} is not aligned")

    def _execute(self, node: Node) -> None:
        if node.op.has(Trait.NAMED):
            return
        if self._is_view(node):
            self._check_view(node)
            return
        for operand in node.operands:
            self._require(operand, f"read by {node.results[0].label}")
        self._use_scratch(node)
        written = [self._span(self.plan.slots[result]) for result in node.results]
        for position, operand in enumerate(node.operands):
            for index, span in enumerate(written):
                if span.overlaps(self._span(self.plan.slots[operand])):
                    self._check_in_place(node, position, index)
        for index, span in enumerate(written):
            if any(span.overlaps(other) for other in written[:index]):
                self._fault(f"results of {node.results[0].label} overlap")
        for result in node.results:
            self._write(result)

    def _is_view(self, node: Node) -> bool:
        if not node.operands or len(node.results) != 1:
            return False
        return self.plan.slots[node.results[0]].root is not None and node not in self.plan.in_place

    def _check_view(self, node: Node) -> None:
        result, operand = node.results[0], node.operands[0]
        try:
            expected = self.plan.slots[operand].offset + _view_offset(node)
        except _NoViewError as error:
            self._fault(str(error))
            return
        if self.plan.slots[result].offset != expected:
            self._fault(f"view {result.label} is not at byte {expected}")

    def _check_in_place(self, node: Node, position: int, index: int) -> None:
        operand, result = node.operands[position], node.results[index]
        listed = (position, index) in self.plan.in_place.get(node, ())
        same = self.plan.slots[operand].offset == self.plan.slots[result].offset
        if not (
            listed
            and same
            and operand.type == result.type
            and (_works_in_place(node, position, index) or _is_carry(node, position, index))
        ):
            self._fault(f"{result.label} overwrites its operand {operand.label}")

    def _use_scratch(self, node: Node) -> None:
        spans = [self._span(self.plan.scratch[node])] if node in self.plan.scratch else []
        for body in self.plan.bodies.get(node, ()):
            inside = (s for s in body.slots.values() if not s.resident and s.offset < OUTSIDE)
            spans += [self._span(s) for s in inside if s.size]
        touched = [self._span(self.plan.slots[v]) for v in (*node.operands, *node.results)]
        for span in spans:
            if any(span.overlaps(other) for other in touched):
                self._fault(f"scratch of {node.results[0].label} overlaps its operands")
            self._clobber(span)

    def _finish_run(self, graph: Graph) -> None:
        for output in graph.outputs:
            self._require(output, "an output")
        for name, position in graph.donations.items():
            leaf, output = graph.leaf(name), graph.outputs[position]
            if self.plan.slots[leaf].offset != self.plan.slots[output].offset:
                self._fault(f"output {output.label} does not replace {name!r}")
            self.held[leaf] = self._span(self.plan.slots[leaf])
        for leaf in (*graph.inputs, *graph.params):
            self._require(leaf, "kept for the next run")

    def _write(self, value: Value) -> None:
        span = self._span(self.plan.slots[value])
        self._clobber(span)
        self.held[value] = span

    def _clobber(self, span: _Span) -> None:
        for value in [value for value, held in self.held.items() if held.overlaps(span)]:
            del self.held[value]

    def _require(self, value: Value, why: str) -> None:
        """Check that the bytes of `value`, or of what it is a view of, are still there."""
        while self._is_view(value.node):
            value = value.node.operands[0]
        if value not in self.held:
            self._fault(f"{value.label} is lost ({why})")

    def _span(self, slot: Slot) -> _Span:
        return _Span(slot.offset, slot.offset + slot.size)

    def _fault(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)


def _view_offset(node: Node) -> int:
    """Return the byte at which a view starts, from strides; _NoViewError if it is no view."""
    operand, attrs = node.operands[0], node.attrs.as_dict()
    same_dtype = operand.dtype is node.results[0].dtype
    if node.op.has(Trait.VIEW) or (node.op.name == "cast" and same_dtype):
        return 0
    starts = attrs.get("start", 0)
    if node.op.name == "narrow":
        axis = attrs["axis"] % operand.rank
        starts = tuple(attrs["start"] if i == axis else 0 for i in range(operand.rank))
    if node.op.name not in ("narrow", "slice"):
        raise _NoViewError(f"{node.op.name} is planned as a view")
    strides = row_major_strides(operand.shape)
    kept = row_major_strides(node.results[0].shape)
    for extent, stride, own in zip(node.results[0].shape, strides, kept, strict=True):
        if extent != 1 and stride != own:
            raise _NoViewError(f"{node.op.name} of scattered elements is planned as a view")
    steps = (start * stride for start, stride in zip(starts, strides, strict=True))
    return int(sum(steps)) * operand.dtype.size


def _is_carry(node: Node, position: int, index: int) -> bool:
    """True if a loop begins with that operand where it leaves that result, and reads it once."""
    attrs = node.attrs.as_dict()
    carries = {"scan": attrs.get("num_carries", 0), "while_loop": len(node.results) - 1}
    alone = node.operands.count(node.operands[position]) == 1
    return position == index < carries.get(node.op.name, 0) and alone


def _works_in_place(node: Node, position: int, index: int) -> bool:
    """True if the kernel of `node` reads that operand where it writes that result, before."""
    if not node.op.has(Trait.FUSED):
        return node.op.has(Trait.IN_PLACE)
    body: Graph = node.attribute("body")
    if node.op.name == "row_region" and not ops.is_of_last_row_pass(body, index):
        return False
    folded = {body.inputs[position]}
    for inner in body.nodes:
        if folded.isdisjoint(inner.operands):
            continue
        if node.op.name == "row_region" and inner.op.has(Trait.REDUCTION):
            continue
        if not inner.op.has(Trait.ELEMENTWISE) and inner.op.name not in ("expand", "reshape"):
            return False
        folded.update(inner.results)
    return True

"""Lowering rules: how a node becomes thunks.

The default is one thunk of the op's name with the op's attributes. A rule is registered where
that is wrong:

    @lowering(ops.some_op)
    def some_op_lowering(node: Node, place: Placement) -> list[Thunk]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from rlx.codegen.kernels.values import known_number
from rlx.codegen.loops.nodes import Const
from rlx.codegen.lower.comments import tensor_name
from rlx.codegen.schedule import AnyThunk, BufferRef, Phase, Thunk
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.registry import Registry
from rlx.ir.types import TensorType
from rlx.passes.memory.bodies import OUTSIDE
from rlx.passes.memory.plan import MemoryPlan
from rlx.passes.views import view_of


@dataclass(frozen=True, slots=True)
class Placement:
    """Input of a lowering rule: offsets of values and the phase of the node."""

    plan: MemoryPlan
    phase: Phase
    depth: int = 0
    """The number of loops around."""
    outside: Mapping[int, BufferRef] = field(default_factory=dict)
    """In a body: where the memory really is that the plan puts outside of it."""
    numbers: Mapping[Node, int] = field(default_factory=dict)
    """Of all nodes of the program, those of bodies too."""

    def ref(self, value: Value) -> BufferRef:
        offset = self.plan.slots[value].offset
        if offset < OUTSIDE:
            return BufferRef(offset, value.type, label=self._label(value))
        start = max(known for known in self.outside if known <= offset)
        return self.outside[start].shifted(offset - start, value.type)

    def _label(self, value: Value) -> str:
        """Name a tensor, and the one that it replaces in memory."""
        source = self._source(value)
        own, first = self._name(source), self._first(source)
        replaces = first is not source and view_of(source.node) is None
        return f"{own}_in_{self._name(first)}" if replaces else own

    def _name(self, value: Value) -> str:
        return tensor_name(value, self.numbers.get(value.node))

    def _first(self, value: Value) -> Value:
        """Return the value whose memory `value` uses."""
        root = self.plan.slots[value].root
        return value if root is None else self._first(root)

    def _source(self, value: Value) -> Value:
        """Return the value that `value` is a view of, if it starts at the same byte."""
        offset = self.plan.slots[value].offset
        while view_of(value.node) is not None:
            source = value.node.operands[0]
            if self.plan.slots[source].offset != offset:
                break
            value = source
        return value

    def thunk(self, node: Node) -> Thunk:
        """Return the default thunk of `node`."""
        scratch = self.plan.scratch.get(node)
        return Thunk(
            kind=node.op.name,
            attrs=node.attrs,
            operands=tuple(self.ref(operand) for operand in node.operands),
            results=tuple(self.ref(result) for result in node.results),
            phase=self.phase,
            node=node,
            scratch=None if scratch is None else scratch_ref(scratch.offset, scratch.size),
            aliased=self.plan.in_place.get(node, ()),
            lowering=node.lowering,
            known=known_operands(node),
            number=self.numbers.get(node),
        )


def known_operands(node: Node) -> tuple[tuple[int, Const], ...]:
    """Return the operands all of whose elements are one float, by position.

    A scalar operand of a fused body is read, so that kernels that differ in it are shared.
    """
    shared = node.op is ops.fused
    found = (
        (position, known_number(operand))
        for position, operand in enumerate(node.operands)
        if not (shared and operand.type.elements == 1)
    )
    return tuple((position, number) for position, number in found if number is not None)


def scratch_ref(offset: int, size: int) -> BufferRef:
    """Return a reference to `size` bytes of scratch, seen as u8."""
    return BufferRef(offset, TensorType(DType.U8, (size,)))


LoweringRule = Callable[[Node, Placement], Sequence[AnyThunk]]
lowering: Registry[LoweringRule] = Registry("lowering")

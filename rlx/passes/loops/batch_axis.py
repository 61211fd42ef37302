"""Batch-axis detection: an axis of a loop's carries along which the instances are independent.

A scan over carries `f32[64, 3]` that treats its 64 rows alike and apart is 64 scans, whether
it came from `vmap` or was written so. Its kernel then runs them side by side, one per vector
lane. `find_lanes` finds such an axis and its position in every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.axis_maps import axis_of_operand, axis_of_result, folded_axis, reads_along
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait

LEAST_LANES = 8
"""Fewer instances than this fill no vector; they are better written out."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """`extent` instances, and the axis that separates them in each value that has it.

    The values of `partial` are sums over all instances: each instance adds up its own share,
    and the shares are combined after the loop. They are read linearly, and end up in carries that
    only grow by them: cotangents of what the instances share.
    """

    extent: int
    axes: dict[Value, int]
    partial: frozenset[Value] = frozenset()

    def is_apart(self, value: Value) -> bool:
        """True if `value` has the batch axis, or is a partial sum per instance."""
        return value in self.axes or value in self.partial

    def local_shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of one instance of `value`, with extent 1 where the lanes were."""
        shape = list(value.type.static_shape)
        if value in self.axes:
            shape[self.axes[value]] = 1
        return tuple(shape)


NO_LANES = Lanes(1, {})


class MixedError(Exception):
    """The instances along an axis depend on each other."""


def find_lanes(body: Graph, num_carries: int) -> Lanes | None:
    """Return an axis of independent instances, the longest there is."""
    carries = body.inputs[:num_carries]
    if not all(result.type.is_static for node in body.nodes for result in node.results):
        return None
    extents = {e for carry in carries for e in carry.type.static_shape if e >= LEAST_LANES}
    for extent in sorted(extents, reverse=True):
        for pick in (_first_axis, _last_axis):
            try:
                return _Search(body, num_carries, extent, pick).run()
            except MixedError:
                continue
    return None


_Pick: TypeAlias = Callable[[Value, int], int | None]


def _first_axis(value: Value, extent: int) -> int | None:
    return next((i for i, e in enumerate(value.shape) if e == extent), None)


def _last_axis(value: Value, extent: int) -> int | None:
    return next((i for i in reversed(range(value.rank)) if value.shape[i] == extent), None)


@dataclass(slots=True)
class _Search:
    body: Graph
    num_carries: int
    extent: int
    pick: _Pick
    axes: dict[Value, int] = field(default_factory=dict)
    partial: set[Value] = field(default_factory=set)

    def run(self) -> Lanes:
        carries = self.body.inputs[: self.num_carries]
        for carry in carries:
            axis = self.pick(carry, self.extent)
            if axis is not None:
                self.axes[carry] = axis
        known = -1
        while known != len(self.axes) + len(self.partial):
            known = len(self.axes) + len(self.partial)
            for node in self.body.nodes:
                self._forward(node)
            for carry, output in zip(carries, self.body.outputs, strict=False):
                self._equal(carry, output)
        if any(output in self.partial for output in self.body.outputs[self.num_carries :]):
            raise MixedError
        return Lanes(self.extent, self.axes, frozenset(self.partial))

    def _equal(self, carry: Value, output: Value) -> None:
        if output in self.partial or carry in self.partial:
            if output not in self.partial:
                raise MixedError
            self.partial.add(carry)
        elif carry in self.axes:
            self.demand(output, self.axes[carry])
        elif output in self.axes:
            self.demand(carry, self.axes[output])

    def _forward(self, node: Node) -> None:
        found = [(i, self.axes[o]) for i, o in enumerate(node.operands) if o in self.axes]
        if found and len(node.results) != 1:
            raise MixedError
        if any(operand in self.partial for operand in node.operands):
            self._share(node)
            return
        if not found or node.result in self.partial:
            return
        if _sums_over(node, found):
            self.partial.add(node.result)
            return
        for operand, axis in found:
            kept = axis_of_result(node, operand, axis)
            if kept is None:
                raise MixedError
            self._assign(node.result, kept)
        self._backward(node, self.axes[node.result])

    def _share(self, node: Node) -> None:
        """Mark the result of a linear op on partial sums as a partial sum."""
        if node.op is ops.add:
            totals = set(self.body.inputs[: self.num_carries]) - self.axes.keys()
            self.partial.update(operand for operand in node.operands if operand in totals)
        shares = [operand in self.partial for operand in node.operands]
        apart = any(operand in self.axes for operand in node.operands)
        linear = node.op.has(Trait.LINEAR) and all(shares)
        scales = node.op.has(Trait.BILINEAR) and sum(shares) == 1
        pads = node.op is ops.pad and node.attribute("value") == 0
        if apart or len(node.results) != 1 or not (linear or scales or pads):
            raise MixedError
        self.partial.add(node.result)

    def _backward(self, node: Node, axis: int) -> None:
        """Assign the batch axis to the operands that have it; the others are broadcast along it."""
        for number, operand in enumerate(node.operands):
            source = axis_of_operand(node, number, axis)
            if source is not None:
                self.demand(operand, source)
            elif reads_along(node, number, axis):
                raise MixedError

    def demand(self, value: Value, axis: int) -> None:
        """Assign the batch axis `axis` to `value`, and the corresponding axes to its operands."""
        if value in self.axes:
            self._assign(value, axis)
            return
        self._assign(value, axis)
        if value.node.operands:
            self._backward(value.node, axis)

    def _assign(self, value: Value, axis: int) -> None:
        made_here = not value.node.operands and value.op is not ops.input
        if made_here or self.axes.setdefault(value, axis) != axis:
            raise MixedError
        if value.shape[axis] != self.extent:
            raise MixedError


def _sums_over(node: Node, found: Sequence[tuple[int, int]]) -> bool:
    """True for a sum along the lanes: a reduction, or a product that contracts them."""
    if not (node.op is ops.reduce_sum or node.op.has(Trait.CONTRACTION)):
        return False
    folded = {folded_axis(node, operand, axis) for operand, axis in found}
    return len(found) == len(node.operands) and len(folded) == 1 and None not in folded

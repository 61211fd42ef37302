"""Regions of small arrays as straight-line code: each element is a local, equal ones are one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import field
from pathlib import PurePath
from typing import Any

import numpy as np

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.nests.elements import FUNCTIONS, Array
from rlx.codegen.kernels.nests.region_values import (
    Angle,
    Copy,
    ElementLoop,
    RegionValues,
    word_of,
)
from rlx.codegen.kernels.nests.registers import name_at
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import store
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, call, const
from rlx.codegen.loops.math import build_function
from rlx.codegen.loops.math.near import REDUCED, near_limit
from rlx.codegen.loops.nodes import (
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Local,
    Prim,
    Status,
    Var,
)
from rlx.codegen.loops.value_numbers import is_absent
from rlx.codegen.loops.visit import operands, rewrite_expression, with_operands
from rlx.dataclass import dataclass
from rlx.errors import Source
from rlx.ir import ops
from rlx.ir.graph import Graph, Value

LONGEST = 8
"""Operations in one expression; longer ones are named in parts."""


@kernel("scalar_region")
def scalar_region(scope: Scope, *arguments: Reader | Writer, body: Graph) -> None:
    outputs = [buffer for _, buffer in scope.body.outputs]
    scope.body.stored.update(range(len(outputs)))
    inputs = [scope.body.inputs[a.value] for a in arguments if isinstance(a, Reader)]
    has_single = not scope.target.has_doubles and scope.target.multiplies_and_adds(4)
    pairs = scope.target.is_small
    targets = {
        value: buffer for buffer, value in reversed([*zip(outputs, body.outputs, strict=True)])
    }
    region = RegionValues(
        k=scope.k,
        body=body,
        targets=targets,
        avoids_doubles=has_single,
        pairs_sines=pairs,
        most_locals=scope.target.most_locals,
    )
    region.read(inputs)
    for node in body.nodes:
        if node.op is not ops.input:
            region.compute(node)
    Emission(scope.k, region, dict(zip(outputs, body.outputs, strict=True))).run()


@dataclass(slots=True)
class Emission:
    """Statements for the values that the outputs of a region need."""

    k: KernelBuilder
    region: RegionValues
    outputs: Mapping[Buffer, Value]
    uses: Counter[int] = field(default_factory=Counter)
    sizes: dict[int, int] = field(default_factory=dict)
    named: dict[int, Expr] = field(default_factory=dict)
    nodes: dict[int, Expr] = field(default_factory=dict)
    stored: dict[Buffer, Copy | ElementLoop] = field(default_factory=dict)
    """What is stored to the region's own arrays that are read."""
    place: Source | None = None
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    """Of the arrays in memory, by their buffers."""

    def run(self) -> None:
        number = self.region.numbers.number
        arrays = [array for array in self.region.arrays.values() if isinstance(array, Array)]
        self.shapes.update((array.buffer, array.value.type.static_shape) for array in arrays)
        self.shapes.update(
            (copy, each.value.type.static_shape) for copy, each in self.region.copies.items()
        )
        stores = list(self._stores())
        for element, *_ in stores:
            self._count(element.node)
        for buffer in self.outputs:
            self._count_stored(buffer)
        for least, _ in self.region.checks:
            self._count(least.node)
        for node in self.region.numbers.since(0):
            if id(node) in self.nodes:
                self._size(node)  # parts come first, so that it recurses through no chain
        steps: list[tuple[int, int, Any]] = [
            (number(node), 0, node)
            for node in self.nodes.values()
            if self._takes_name(node) and not self.region.is_moving(node)
        ]
        for each in self.stored.values():
            steps.append((each.number, -2 if isinstance(each, Copy) else -1, each))
        steps += [(number(each[0].node), 2, each) for each in stores]
        steps += [(number(least.node), 1, least) for least, _ in self.region.checks]
        for _, _, step in sorted(steps, key=lambda step: step[:2]):
            match step:
                case Copy():
                    self._store_copy(step)
                case ElementLoop():
                    self._store_along(step)
                case tuple():
                    element, value, buffer, at = step
                    plain = self._built(element.node)
                    store(self.k, buffer, value.dtype, const(at, Prim.I64), plain)
                case E():
                    with self.k.if_(self._built(step.node) <= 0.0):
                        self.k.fail(Status.SINGULAR_MATRIX, 0)
                case _:
                    self._name(step)

    def _stores(self) -> Iterator[tuple[E, Value, Buffer, int]]:
        for buffer, value in self.outputs.items():
            if buffer in self.region.loops:
                continue
            array = self.region.arrays[value]
            for at, index in enumerate(np.ndindex(*value.type.static_shape)):
                element = self.region.numbers.of(array.load(index))
                yield element, value, buffer, at

    def _count(self, node: Expr) -> None:
        """Count the uses of each value that `node` needs, and the operations of its expression."""
        pending = [node]
        self.uses[id(node)] += 1
        while pending:
            top = pending.pop()
            if id(top) in self.nodes:
                continue
            self.nodes[id(top)] = top
            if isinstance(top, Load):
                self._count_stored(top.buffer)
            for part in self._parts(top):
                self.uses[id(part)] += 1
                pending.append(part)

    def _count_stored(self, buffer: Buffer) -> None:
        """Count what is stored to an array of the region, of which an element is read."""
        region = self.region
        if buffer in self.stored:
            return
        if buffer in region.copies:
            copy = self.stored[buffer] = region.copies[buffer]
            for element in copy.elements:
                self._count(element.node)
        elif buffer in region.loops:
            loop = self.stored[buffer] = region.loops[buffer]
            roots = [element.node for element in loop.elements.values()]
            for root in roots:
                self._count(root)
            parts = [part for node in region.inside(loop) for part in self._parts(node)]
            for part in (*roots, *parts):  # what all steps share is named before
                self.uses[id(part)] += not region.is_moving(part)

    def _parts(self, node: Expr) -> tuple[Expr, ...]:
        """Return the values that a value is computed from."""
        angle = self.region.angles.get(id(node))
        if angle is not None:
            return angle.x, angle.near
        return () if isinstance(node, Load) else operands(node)

    def _store_copy(self, copy: Copy) -> None:
        array = self.region.copied(copy.value)
        self.k.emit(Local(array.buffer))
        indices = np.ndindex(*copy.value.type.static_shape)
        for index, element in zip(indices, copy.elements, strict=True):
            array.store(index, self._built(element.node))

    def _store_along(self, loop: ElementLoop) -> None:
        """Emit the loop that stores an array."""
        value, region = loop.value, self.region
        array = region.arrays[value]
        assert isinstance(array, Array)
        if array.buffer not in self.outputs:
            self.k.emit(Local(array.buffer))
        self._comment(value.node.source)
        inside = [node for node in region.inside(loop) if self._takes_name(node)]
        with ExitStack() as nest:
            for variable, extent in loop.variables:
                at = nest.enter_context(self.k.loop(variable.name[0], extent))
                self.named[id(variable)] = at.node
            for index, element in loop.elements.items():
                last = region.numbers.number(element.node)
                while inside and region.numbers.number(inside[0]) <= last:
                    self._name(inside.pop(0))
                place = tuple(self._built(i.node) if isinstance(i, E) else i for i in index)
                array.store(place, self._built(element.node))

    def _takes_name(self, node: Expr) -> bool:
        if isinstance(node, Const | Var):
            return False
        if id(node) in self.region.angles or id(node) in self.region.reduced:
            return True
        return self.uses[id(node)] > 1 or self._size(node) > LONGEST

    def _size(self, node: Expr) -> int:
        """Return the operations of a value's expression, up to values that have names."""
        found = self.sizes.get(id(node))
        if found is None:
            found = 0
            if not isinstance(node, Const | Var | Load):
                found = 1 + sum(
                    0 if self._takes_name(part) else self._size(part) for part in self._parts(node)
                )
            self.sizes[id(node)] = found
        return found

    def _name(self, node: Expr) -> None:
        if id(node) in self.named:
            return
        angle, reduced = self.region.angles.get(id(node)), self.region.reduced.get(id(node))
        if angle is not None:
            self._branch(angle)
        elif reduced is not None:
            self._reduce(*reduced)
        else:
            name = self._called(node)
            self.named[id(node)] = self.k.let(name, self._built_here(node)).node

    def _reduce(self, angle: Expr, *parts: Expr) -> None:
        """Declare what is left of an angle in its quadrant; of a small one, all is."""
        k, x = self.k, self._built(angle)
        owner = self.region.owners.get(id(parts[0]))
        self._comment(None if owner is None else owner[0].node.source)
        calls = [part for part in parts if isinstance(part, Call)]
        starts = const(0, Prim.I32), abs(x), const(0.0, x.type.prim)
        found = [k.mutable(name, start) for name, start in zip(REDUCED, starts, strict=True)]
        self.named.update((id(p), v.node) for p, v in zip(parts, found, strict=True))
        known: dict[str, Expr] = {calls[0].function.params[0].name: x.node}

        def bound(part: Expr) -> Expr:
            return known.get(part.name, part) if isinstance(part, Var) else part

        with k.if_(found[1] > math.pi / 4):
            for let in calls[0].function.lets:
                value = E(rewrite_expression(let.value, bound))
                known[let.var.name] = k.let(let.var.name, value).node
            for variable, each in zip(found, calls, strict=True):
                variable.set(E(rewrite_expression(each.function.result, bound)))

    def _branch(self, angle: Angle) -> None:
        """Declare the functions of an angle, and branch on its size."""
        k, found = self.k, []
        for name in angle.names:
            far = self.region.far(name, angle.x)
            if id(far.node) in self.nodes:
                near = self.region.angles[id(far.node)].near
                value = k.mutable(FUNCTIONS[name], self._built(near))
                self.named[id(far.node)] = value.node
                found.append((name, value))
        x = self._built(angle.x)
        single = self.region.avoids_doubles and x.type.prim is Prim.F32
        with k.if_(abs(x) > near_limit(single=single)):
            for name, value in found:
                value.set(call(build_function(name, x.type.prim), x))

    def _called(self, node: Expr) -> str:
        if isinstance(node, Load) and isinstance(node.index, Const):
            shape = self.shapes[node.buffer]
            at = np.unravel_index(int(node.index.value), shape or (1,))
            return name_at(node.buffer.name, tuple(map(int, at)) if shape else ())
        if isinstance(node, Load):
            return name_at(node.buffer.name, self._fixed_coordinates(node))
        value, index = self.region.owners[id(node)]
        self._comment(value.node.source)
        if id(node) not in self.region.tops:
            return self.region.words.get(id(node)) or f"{word_of(value)}_part"
        return name_at(word_of(value), tuple(at for at in index if isinstance(at, int)))

    def _fixed_coordinates(self, node: Load) -> tuple[int, ...]:
        """Return the coordinates of an element that is read along a loop, but for the loop's."""
        last = node.index.b if isinstance(node.index, Binary) else node.index
        start = int(last.value) if isinstance(last, Const) else 0
        found = [int(each) for each in np.unravel_index(start, self.shapes[node.buffer])]
        if 0 in found:
            found.remove(0)
        return tuple(found)

    def _comment(self, source: Source | None) -> None:
        if source is not None and source != self.place:
            self.place = source
            self.k.comment(f"{source.function}, {PurePath(source.file).name}:{source.line}")

    def _built(self, node: Expr) -> E:
        named = self.named.get(id(node))
        return self._built_here(node) if named is None else E(named)

    def _built_here(self, node: Expr) -> E:
        if is_absent(node):
            return E(Const(0.0, node.type))
        parts = operands(node)
        if not parts or (isinstance(node, Load) and not self.region.is_moving(node)):
            return E(node)
        return E(with_operands(node, tuple(self._built(part).node for part in parts)))

"""Tables of bodies in registers: elements read and replaced in memory.

See `passes.loops.tables` for what a table is. Reads and stores are in the order of the body's
nodes; an index outside its range ends the kernel before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np

from rlx.codegen.kernels.nests.elements import Array, Elements, Index, Scalars, name_of
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, maximum, minimum
from rlx.codegen.loops.nodes import Expr, Prim, Status
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import normalize_axis
from rlx.passes.loops.tables import Tables

Term: TypeAlias = tuple[Index, E]
"""Where it is added, and what."""


@dataclass(slots=True)
class TableAccess:
    """Reads and updates of the tables of a body."""

    k: KernelBuilder
    tables: Tables
    elements: Elements
    terms: dict[Value, list[Term]] = field(default_factory=dict)
    """What is to be added to a table, in order: such a value is never formed."""
    checked: dict[Expr, tuple[E, int]] = field(default_factory=dict)
    """Indices that were compared with an extent."""

    def reads_whole(self, node: Node) -> bool:
        """True for a read that must be evaluated before its table is updated."""
        held = any(operand in self.tables.versions for operand in node.operands)
        return held and not self.tables.holds(node.result)

    def emit(self, node: Node) -> bool:
        """Read or change a table, if `node` does so at positions known at run time."""
        result, tables = node.result, self.tables
        if result in tables.additions:
            self.terms[result] = self._terms(node)
        elif result in tables.versions:
            table = self._changed(node)
            self.elements.arrays[result] = table
        elif node.op.has(Trait.INDEXED_READ) and tables.holds(node.operands[0]):
            self.elements.arrays[result] = self._read(node)
        else:
            return result in tables.counts
        return True

    # Reads

    def _read(self, node: Node) -> Scalars:
        if node.op is ops.gather:
            return self._gathered(node)
        sizes = [int(size) for size in node.attribute("sizes")]
        table = self._table(node.operands[0])
        corner = self._corner(node.operands[1], table.value, sizes)
        return self._named(node.result, table, lambda index: moved(corner, index))

    def _gathered(self, node: Node) -> Scalars:
        source, indices = node.operands
        axis = normalize_axis(node.attribute("axis"), source.rank)
        checked = self._indices(indices, int(source.type.static_shape[axis]))
        after = axis + indices.rank
        if source in self.tables.counts:
            return Scalars(node.result, checked)
        return self._named(
            node.result,
            self._table(source),
            lambda index: (*index[:axis], checked[index[axis:after]], *index[after:]),
        )

    def _named(self, value: Value, table: Array, place: Callable[[Index], Index]) -> Scalars:
        """Read an element of `table` for each of `value`'s, now."""
        found: dict[Index, E] = {}
        for index in np.ndindex(*value.type.static_shape):
            name = name_of_element(f"{name_of(table.value)}_value", index)
            found[index] = self.k.let(name, table.load(place(index)))
        return Scalars(value, found)

    # Changes

    def _changed(self, node: Node) -> Array:
        """Add to a table, or replace a block of it."""
        if node.op is ops.dynamic_update_slice:
            source, update, starts = node.operands
            table, shape = self._table(source), update.type.static_shape
            corner = self._corner(starts, source, shape)
            for index in np.ndindex(*shape):
                table.store(moved(corner, index), self.elements.at(update, index))
            return table
        (source,) = (operand for operand in node.operands if operand in self.tables.versions)
        (terms,) = (self.terms[o] for o in node.operands if o in self.terms)
        table = self._table(source)
        for place, value in terms:
            at = replace(table, start=self.k.let("at", table.at(place)), strides=())
            at.store((), at.load(()) + value)
        return table

    def _terms(self, node: Node) -> list[Term]:
        if node.op is ops.add:
            return [term for operand in node.operands for term in self.terms[operand]]
        source = node.operands[0]
        if node.op is ops.pad:
            return [
                (moved(node.attribute("low"), index), self.elements.at(source, index))
                for index in np.ndindex(*source.type.static_shape)
            ]
        axis = int(node.attribute("axis")) if node.op is ops.gather_backward else 0
        return self._scattered(node, normalize_axis(axis, node.result.rank))

    def _scattered(self, node: Node, axis: int) -> list[Term]:
        updates, indices = node.operands
        checked = self._indices(indices, int(node.result.type.static_shape[axis]))
        shape, after = updates.type.static_shape, axis + indices.rank
        terms: list[Term] = []
        for chosen in np.ndindex(*indices.type.static_shape):
            for before, trailing in itertools.product(
                np.ndindex(*shape[:axis]), np.ndindex(*shape[after:])
            ):
                value = self.elements.at(updates, (*before, *chosen, *trailing))
                if updates in self.tables.versions:
                    value = self.k.let("term", value)  # before it changes
                terms.append(((*before, checked[chosen], *trailing), value))
        return terms

    # Positions

    def _table(self, value: Value) -> Array:
        table = self.elements.arrays[value]
        if not isinstance(table, Array):
            raise InternalError("a table is in memory")
        return table

    def _indices(self, indices: Value, extent: int) -> dict[Index, E]:
        """Return the elements of `indices`; the kernel is left where one is out of range."""
        places = np.ndindex(*indices.type.static_shape)
        return {
            at: self._checked(self.elements.at(indices, at), extent, number)
            for number, at in enumerate(places)
        }

    def _checked(self, given: E, extent: int, number: int) -> E:
        known = self.checked.get(given.node)
        if known is not None and known[1] <= extent:
            return known[0]
        k = self.k
        index = k.let("index", given.cast(Prim.I64))
        with k.if_((index < 0) | (index >= extent)):
            k.fail(Status.INDEX_OUT_OF_RANGE, number, index, extent)
        self.checked[given.node] = self.checked[index.node] = (index, extent)
        return index

    def _corner(self, starts: Value, whole: Value, block: Sequence[int]) -> Index:
        """Return a block's first coordinates, clamped so that it fits into `whole`."""
        corner: list[E | int] = []
        for axis, (extent, size) in enumerate(zip(whole.type.static_shape, block, strict=True)):
            given, most = self.elements.at(starts, (axis,)), extent - size
            known = self.checked.get(given.node)
            if most == 0:
                corner.append(0)
            elif known is not None and known[1] <= most + 1:
                corner.append(known[0])
            else:
                start = maximum(minimum(given.cast(Prim.I64), const(most, Prim.I64)), 0)
                corner.append(self.k.let("start", start))
        return tuple(corner)


def moved(corner: Index, index: Index) -> Index:
    """Return the position at `index` from `corner`."""
    return tuple(at + by for at, by in zip(corner, index, strict=True))


def name_of_element(name: str, index: tuple[int, ...]) -> str:
    """Return a name for one element that is read: the table's own if it is the only one."""
    return name + "".join(map(str, index)) if any(index) else name

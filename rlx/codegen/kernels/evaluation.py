"""Evaluation of a body's nodes at one point of the iteration space."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import and_

from rlx.codegen.kernels.grouped import Grouped, StoreTarget
from rlx.codegen.kernels.guards import (
    Address,
    Located,
    address_of,
    alternatives_at,
    operands_at,
)
from rlx.codegen.kernels.scalars import element, uses_once
from rlx.codegen.kernels.values import (
    Scalar,
    chosen_where,
    filled,
    literal,
    load,
    named,
    real,
    store,
)
from rlx.codegen.kernels.weights import exp_weight
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.math.storage import rounded
from rlx.codegen.loops.nodes import Buffer
from rlx.codegen.loops.scalar import cast
from rlx.errors import InternalError
from rlx.ir.graph import Node, Value
from rlx.ir.index_maps import (
    Index,
)
from rlx.ir.op import Trait

MOST_NESTED = 16
"""Operations in one expression before it gets a name: lines of C stay short, as do all walks."""


class Evaluation:
    """The nodes of a body at one point of the iteration space, each computed once."""

    def __init__(self, access: Grouped, indices: tuple[E, ...], lanes: int = 1) -> None:
        self._access = access
        self._body = access.body
        self._indices = indices
        self._lanes = lanes
        self._box = access.grid.box
        self._known: dict[Located, Scalar] = {}
        self._given: dict[Value, Scalar] = {}
        self._uses: Counter[Located] = Counter()
        self._sources: dict[Located, list[Located]] = {}
        self._nested: dict[Located, int] = {}
        """How many operations deep an expression without names is."""

    def give(self, value: Value, element: Scalar) -> None:
        """Set the anchor's result, rounded to its dtype, before the epilogue is evaluated."""
        if isinstance(element, E):
            element = rounded(element, value.dtype)
        self._given[value] = self._named(value, element) if self._is_shared(value) else element

    def count(self, roots: Iterable[Located]) -> None:
        """Count the uses of every value, so that the shared ones get a name."""
        for located in roots:
            self._uses[located] += 1
        for located in self._body.evaluated_at(roots, self._box):
            self._uses.update(self._sources_of(located))

    def value(self, located: Located) -> Scalar:
        """Return the element of a value at a position, computed after all that it is made of.

        A stack of its own rather than recursion: a body may be thousands of nodes deep.
        """
        if not self._uses:
            self.count([located])
        pending = [located]
        while pending:
            each = pending[-1]
            missing = [] if self._is_computed(each) else self._sources_of(each)
            missing = [source for source in missing if not self._is_computed(source)]
            pending += reversed(missing)
            if not missing:
                pending.pop()
                if not self._is_computed(each):
                    self._known[each] = self._compute(each)
        return self._element(located)

    def _is_computed(self, located: Located) -> bool:
        return located.value in self._given or located in self._known

    def _element(self, located: Located) -> Scalar:
        given = self._given.get(located.value)
        return self._known[located] if given is None else given

    def _sources_of(self, located: Located) -> list[Located]:
        """Return what an element is computed from: nothing for what is read from memory."""
        if located not in self._sources:
            is_given = self._body.is_given(located.value)
            self._sources[located] = [] if is_given else operands_at(located, self._box)
        return self._sources[located]

    def store_all(self, targets: tuple[StoreTarget, ...]) -> None:
        """Store every target; several are computed first, as one may overwrite an operand."""
        k = self._body.k
        elements = [self.value(each.source) for each in targets]
        if len(targets) > 1:
            pairs = zip(targets, elements, strict=True)
            elements = [self._named(each.value, computed) for each, computed in pairs]
        for each, computed in zip(targets, elements, strict=True):
            at = self._access.locate(Address(each.at), self._indices)
            store(k, each.buffer, each.value.dtype, at, computed)

    def _compute(self, located: Located) -> Scalar:
        value = located.value
        if value in self._body.inputs:
            result = self._load(self._body.inputs[value], located)
        elif value.op.name == "constant":
            return literal(value.node.attribute("value").array.flat[0].item(), value.dtype)
        elif value.op.name == "iota":
            result = self._iota(located)
        elif value.op.name == "extent":
            result = cast(self._body.extents(value.node.attribute("value")), to=value.dtype)
        elif value.op.has(Trait.ELEMENTWISE):
            result = self._apply(located)
        else:
            result = self._select(located)
        nested = 1 + max((self._nested.get(x, 0) for x in self._sources_of(located)), default=0)
        if self._uses[located] > 1 or nested > MOST_NESTED:
            return self._named(value, result)
        self._nested[located] = nested
        return result

    def _apply(self, located: Located) -> Scalar:
        node, sources = located.value.node, self._sources_of(located)
        operands = [self._element(source) for source in sources]
        result = self._applied(node, operands)
        if all(uses_once(result, operand) for operand in operands):
            return result
        pairs = zip(node.operands, operands, strict=True)
        return self._applied(node, [self._named(operand, each) for operand, each in pairs])

    def _applied(self, node: Node, operands: Sequence[Scalar]) -> Scalar:
        if node.op.name == "exp" and node in self._body.weights:
            return exp_weight(real(operands[0]))
        return element(node, operands)

    def _select(self, located: Located) -> Scalar:
        """Return the element of the first alternative whose guards hold, or the fill."""
        alternatives = alternatives_at(located, self._box)
        result = filled(located.value)
        for each in reversed(alternatives):
            chosen = self._element(each.source)
            if each.guards and result is not None:
                # C must not branch around what is computed for one side: vectors compute both.
                chosen = self._named(each.source.value, chosen)
                result = self._named(located.value, result)
                guards = (self._access.condition(g, self._indices) for g in each.guards)
                chosen = chosen_where(functools.reduce(and_, guards), chosen, result)
            result = chosen
        return literal(0, located.value.dtype) if result is None else result

    def _load(self, buffer: Buffer, located: Located) -> Scalar:
        if located.value.type.layout is not None:
            value = located.value
            raise InternalError(
                f"{value.label} has the layout {value.type.layout}: its kernel reads it"
            )
        where = address_of(located, self._box)
        at = self._access.locate(where, self._indices)
        k, dtype = self._body.k, located.value.dtype
        if self._lanes == 1 or not self._advances(where.index):
            return load(k, buffer, dtype, at)
        return load(k, buffer, dtype, at, self._lanes)

    def _advances(self, where: Index) -> bool:
        """True if lanes along the last group read consecutive elements, False if the same."""
        grid = self._access.grid
        runs = grid.runs(len(grid.groups) - 1, where)
        if any(stride != 0 for _, stride in runs) and (len(runs) > 1 or runs[0][1] != 1):
            raise InternalError(f"a vector read is not contiguous: runs {runs}")
        return any(stride != 0 for _, stride in runs)

    def _iota(self, located: Located) -> Scalar:
        where = located.position[located.value.node.attribute("axis")]
        at = self._access.locate(Address(where), self._indices)
        if self._lanes > 1 and self._advances(where):
            at = at.ramp(self._lanes)
        return cast(at, to=located.value.dtype)

    def _is_shared(self, value: Value) -> bool:
        return sum(n for used, n in self._uses.items() if used.value is value) > 1

    def _named(self, value: Value, element: Scalar) -> Scalar:
        buffer = self._body.inputs.get(value)
        name = value.op.name if buffer is None else buffer.name
        return named(self._body.k, f"{name}_value", element)

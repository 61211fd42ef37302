"""Access of one loop over the slices of a row region: what it reads, keeps and stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from rlx.codegen.kernels.access import Reads
from rlx.codegen.kernels.evaluation import Evaluation
from rlx.codegen.kernels.folds import State
from rlx.codegen.kernels.grouped import StoreTarget
from rlx.codegen.kernels.guards import Address, Located, address_of
from rlx.codegen.kernels.slices import Columns
from rlx.codegen.kernels.values import Complex, Scalar, load, named, real, scalar_of, store
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer
from rlx.dataclass import dataclass
from rlx.ir.graph import Value
from rlx.ir.index_maps import Index
from rlx.ir.ops.fused import is_pointwise


@dataclass(slots=True)
class Kept:
    """A value of each element in memory: in a local array, or in a result at the same place."""

    value: Value
    local: Buffer | None
    result: StoreTarget | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number of each of a block of columns, and the arrays with an element for each."""

    parts: tuple[Buffer, ...]
    finish: Callable[[State], Scalar] = scalar_of
    """Makes the number of its elements of the arrays."""


Available: TypeAlias = Scalar | Numbers | Kept
"""A number of a row, the numbers of a block of columns, or a value of each element."""


@dataclass(frozen=True, slots=True)
class Access(Reads[tuple[Scalar, ...]]):
    """What one loop over a slice reads, keeps and stores, or what is computed once for a slice."""

    available: Mapping[Value, Available]
    """What is not computed again: numbers of slices, and values that are kept."""
    is_costly: Callable[[Value], bool]
    """True for a value that is better loaded than computed again."""
    sources: tuple[Located, ...]
    """What is folded or asked for; then what is kept."""
    kept: tuple[Kept, ...] = ()
    targets: tuple[StoreTarget, ...] = ()
    columns: Columns | None = None
    ahead: Access | None = None
    """The next slice, where it is worth a prefetch while this one is computed."""

    def roots(self) -> list[Located]:
        return [*self.sources, *(each.source for each in self.targets)]

    def stored(self) -> list[tuple[str, Index]]:
        stores = [*self.targets, *(each.result for each in self.kept if each.result)]
        return [(each.buffer.name, each.at) for each in stores]

    @property
    def is_stored(self) -> bool:
        plain = all(source.value in self.body.inputs for source in self.sources)
        return plain and not self.targets

    @property
    def is_cheap(self) -> bool:
        computes_only = not self.targets and not self.kept
        return computes_only and not any(self.is_costly(x.value) for x in self.sources)

    @property
    def has_vectors(self) -> bool:
        """True for arithmetic of one dtype on consecutive elements and numbers of rows."""
        read = list(self.body.evaluated_at(self.roots(), self.grid.box))
        if not self.is_cheap or self.is_split or len({each.value.dtype for each in read}) > 1:
            return False
        return all(map(self._is_consecutive, read))

    def _is_consecutive(self, located: Located) -> bool:
        value = located.value
        if isinstance(self.available.get(value), Kept):
            return False
        if value not in self.body.inputs:
            return self.body.is_given(value) or is_pointwise(value.node)
        where = address_of(located, self.grid.box).index
        strides = [stride for _, stride in self.grid.runs(len(self.grid.groups) - 1, where)]
        return strides == [1] or all(stride == 0 for stride in strides)

    def read_vector(self, *indices: E, lanes: int) -> tuple[Scalar, ...]:
        """Return vectors of what is computed from consecutive elements."""
        evaluation = Evaluation(self, self._places(indices), lanes=lanes)
        evaluation.count(self.sources)
        self._set_available(evaluation, indices)
        return tuple(evaluation.value(source) for source in self.sources)

    def read(self, *indices: E) -> tuple[Scalar, ...]:
        """Compute an element, or the numbers of a column: keep and store what is asked for."""
        k, places = self.body.k, self._places(indices)
        if self.ahead is not None:
            self.ahead.prefetch(*indices)
        evaluation = Evaluation(self, places)
        evaluation.count(self.roots())
        self._set_available(evaluation, indices)
        values = [evaluation.value(source) for source in self.sources]
        if self.targets or self.kept:  # which may overwrite what the values are computed from
            pairs = zip(self.sources, values, strict=True)
            values = [named(k, f"{x.value.op.name}_value", value) for x, value in pairs]
        folded = len(values) - len(self.kept)
        for each, value in zip(self.kept, values[folded:], strict=True):
            if each.local is not None:
                k.store(each.local, self._local_place(indices), real(value))
            elif each.result is not None:
                at = self.locate(Address(each.result.at), places)
                store(k, each.result.buffer, each.value.dtype, at, value)
        evaluation.store_all(self.targets)
        return tuple(values[:folded])

    def prefetch(self, *indices: E) -> None:
        """Prefetch the elements of operands that are as large as what is computed."""
        box = self.grid.box
        for located in self.body.evaluated_at(self.roots(), box):
            memory = self.body.inputs.get(located.value)
            if memory is not None and located.value.shape == self.grid.shape:
                self.body.k.prefetch(memory, self.locate(address_of(located, box), indices))

    def _places(self, indices: tuple[E, ...]) -> tuple[E, ...]:
        """Return indices in the whole array of those in a block of columns."""
        if self.columns is None or not indices:
            return indices
        return (*indices[:-1], self.columns.start + indices[-1])

    def _local_place(self, indices: tuple[E, ...]) -> E:
        if self.columns is None:
            return indices[-1]
        return self.fixed[-1] * self.columns.most + indices[-1]

    def _set_available(self, evaluation: Evaluation, indices: tuple[E, ...]) -> None:
        read = {x.value for x in self.body.evaluated_at(self.roots(), self.grid.box)}
        for value, found in self.available.items():
            if value in read:
                evaluation.give(value, self._load(found, indices))

    def _load(self, found: Available, indices: tuple[E, ...]) -> Scalar:
        k = self.body.k
        if isinstance(found, E | Complex):
            return found
        if isinstance(found, Numbers):
            return found.finish(tuple(k.load(part, indices[-1]) for part in found.parts))
        if found.local is not None:
            return k.load(found.local, self._local_place(indices))
        assert found.result is not None
        at = self.locate(Address(found.result.at), self._places(indices))
        return real(load(k, found.result.buffer, found.value.dtype, at))

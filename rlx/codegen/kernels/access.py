"""Readers and writers of kernels: memory accesses with fused elementwise producers and consumers.

Every thunk has a body: a graph of its anchor (softmax, a reduction, ...) with elementwise and
movement nodes before and after it; an unfused thunk is a body of one node. A kernel reads the
anchor's operands through `Reader`s, which compute the nodes before, and hands the anchor's
result to a `Writer`, which computes the nodes after and stores every output. So a kernel is
written once, with or without fusion:

    x = source.grouped(((0, 1), (2,)))
    y = target.grouped(((0, 1), (2,)))
    with k.loop("row", x.extent(0)) as row:
        x_row, y_row = x.at(row), y.at(row)
        with k.loop("i", x.extent(1)) as i:
            y_row.write(i, value=x_row.read(i) * scale)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic

from rlx.codegen.kernels.affine import Grid, Groups
from rlx.codegen.kernels.evaluation import Evaluation
from rlx.codegen.kernels.folds import Element
from rlx.codegen.kernels.grouped import Body, Grouped, StoreTarget, target
from rlx.codegen.kernels.guards import (
    Located,
    address_of,
)
from rlx.codegen.kernels.values import (
    Scalar,
    compute_prim,
    load,
    real,
)
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.index_maps import (
    Index,
    identity,
)
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType

_LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A value that feeds the kernel, to be read at points of its own shape."""

    body: Body
    value: Value
    name: str

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> Shape:
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def prim(self) -> Prim:
        """The machine type that `read` gives."""
        return compute_prim(self.dtype)

    @property
    def memory(self) -> Buffer | None:
        """The argument itself where nothing is computed on the way, else None."""
        return self.body.inputs.get(self.value)

    def grouped(self, groups: Groups) -> GroupedReader:
        """Gather the axes into groups; each is then read by one flat index."""
        grid = Grid.over(self.shape, groups, self.body.extents)
        return GroupedReader(self.body, grid, Located(self.value, identity(self.shape)))


@dataclass(frozen=True, slots=True)
class Writer:
    """A result of the anchor, and everything the body computes from it.

    A result with another layout than row-major is written in that layout.
    """

    body: Body
    value: Value
    name: str

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> Shape:
        return self.value.type.stored_shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def memory(self) -> Buffer | None:
        """The argument itself where the result is stored as it is and nowhere else, else None."""
        mine = [output for output in self.body.outputs if self._stores(output[0])]
        value, buffer = mine[0]
        return buffer if len(mine) == 1 and value is self.value else None

    def grouped(self, groups: Groups) -> GroupedWriter:
        """Gather the axes into groups; each is then written by one flat index."""
        grid = Grid.over(self.shape, groups, self.body.extents)
        targets = []
        for number, (value, buffer) in enumerate(self.body.outputs):
            if self._stores(value):
                self.body.stored.add(number)
                targets.append(target(value, buffer, self.shape))
        return GroupedWriter(self.body, grid, self.value, tuple(targets))

    def _stores(self, output: Value) -> bool:
        """True for the outputs that are stored with this result: all, or its own of several."""
        return len(self.value.node.results) == 1 or output is self.value


@dataclass(frozen=True, slots=True)
class Reads(Grouped, Generic[Element]):
    """Access that reads: `read` takes one index per group that is not fixed."""

    @abstractmethod
    def read(self, *indices: E) -> Element:
        """Return what is at the given indices, computing what comes before it."""

    @abstractmethod
    def read_vector(self, *indices: E, lanes: int) -> Element:
        """Return `lanes` elements, consecutive along the last group."""

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes of what is read."""
        return {source.value.dtype for source in self.roots()}

    @property
    def is_stored(self) -> bool:
        """True if nothing is computed between memory and what is read."""
        return all(source.value in self.body.inputs for source in self.roots())

    @property
    def has_vectors(self) -> bool:
        """True if `read_vector` may be called for runs of any operand."""
        return self.is_stored

    @property
    def is_cheap(self) -> bool:
        """True if what is read may be written out several times."""
        return self.is_stored


@dataclass(frozen=True, slots=True)
class GroupedReader(Reads[Scalar]):
    """Reads one value."""

    source: Located

    @property
    def value(self) -> Value:
        return self.source.value

    def roots(self) -> list[Located]:
        return [self.source]

    def read(self, *indices: E) -> Scalar:
        return Evaluation(self, indices).value(self.source)

    def read_real(self, *indices: E) -> E:
        """`read` for a value that is not complex."""
        return real(self.read(*indices))

    def read_vector(self, *indices: E, lanes: int) -> E:
        return real(Evaluation(self, indices, lanes=lanes).value(self.source))

    def prefetch(self, *indices: E, count: int) -> None:
        """Prefetch `count` elements from here on, along the last group."""
        k, box, (*outer, first) = self.body.k, self.grid.box, indices
        for located in self.body.evaluated_at(self.roots(), box):
            memory = self.body.inputs.get(located.value)
            if memory is not None:
                where = address_of(located, box)
                with k.loop("d", count, step=_LINE // memory.prim.size, kind=LoopKind.UNROLL) as d:
                    k.prefetch(memory, self.locate(where, (*outer, first + d)))


@dataclass(frozen=True, slots=True)
class GroupedWriter(Grouped):
    """Writes what the anchor gives through everything the body computes from it."""

    value: Value | None
    """The result that is given at each point: None in a body without an anchor."""
    targets: tuple[StoreTarget, ...]

    def roots(self) -> list[Located]:
        return [each.source for each in self.targets]

    def stored(self) -> list[tuple[str, Index]]:
        return [(each.buffer.name, each.at) for each in self.targets]

    def write(self, *indices: E, value: Scalar) -> None:
        """Store the element at the given indices, in the anchor's compute type."""
        self._store(Evaluation(self, indices), value)

    def write_vector(self, *indices: E, value: E) -> None:
        """Store `value`, a vector, as consecutive elements along the last group."""
        self._store(Evaluation(self, indices, lanes=value.type.lanes), value)

    def written(self, *indices: E) -> E:
        """Return what `write` stored in a result that is stored as it is (`Writer.memory`)."""
        (plain,) = self.targets
        k = self.body.k
        return real(load(k, plain.buffer, plain.value.dtype, self._locate(plain.at, indices)))

    def write_region(self, *indices: E) -> None:
        """Compute and store every output of a body without an anchor."""
        self._store(Evaluation(self, indices))

    def _store(self, evaluation: Evaluation, element: Scalar | None = None) -> None:
        evaluation.count(self.roots())
        if self.value is not None and element is not None:
            evaluation.give(self.value, element)
        evaluation.store_all(self.targets)

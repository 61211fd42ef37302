"""Epilogues and stores of a tile: by columns, or transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from rlx.codegen.kernels.access import GroupedWriter
from rlx.codegen.kernels.contraction.spans import Number, Span
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.codegen.loops.scalar import is_library_function
from rlx.dataclass import dataclass

_SQUARE = 8
"""Rows and lanes that are transposed in registers at a time: 24 shuffles for 64 elements."""

_LIGHT = 8
"""Nodes of a body that are worth unrolling for every vector."""


Columns: TypeAlias = tuple[E, E]
"""The first column of a panel, and how many are stored."""


def columns_of(k: KernelBuilder, panel: E, width: int, columns: Number) -> Columns:
    """Return the columns of a panel of `width`, of so many in all."""
    first = k.let("first_column", panel * width)
    if isinstance(columns, int) and columns % width == 0:
        return first, index(width)
    return first, k.let("columns", minimum(columns - first, width))


def write_columns(
    k: KernelBuilder, line: GroupedWriter, sums: Buffer, at: E, columns: Columns, lanes: int
) -> None:
    """Apply the epilogue to the sums of one row, vector by vector, and store them."""
    first, count = columns
    whole = count / lanes * lanes
    with k.loop("j", whole, step=lanes) as j:
        line.write_vector(first + j, value=k.load(sums, at + j, lanes))
    if whole.node != count.node:
        with k.loop("j", count, start=whole) as j:
            line.write(first + j, value=k.load(sums, at + j))


@dataclass(frozen=True, slots=True)
class Place:
    """The results that a tile computes."""

    outer: Sequence[E]
    down: Span
    across: Span
    columns: Columns


class Store(Protocol):
    """Applies the epilogue of the body to the sums, and stores the results."""

    def store(self, place: Place, sums: Buffer, at: E, width: int, lanes: int) -> None:
        """Store sums of a tile of `width` columns that start at `at`."""
        ...

    def store_registers(self, place: Place, tile: RegisterTile) -> bool:
        """Store a tile out of registers, if that is possible and worth it."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnStore:
    """A result whose columns are contiguous."""

    k: KernelBuilder
    target: GroupedWriter
    order: Sequence[int]
    """For each group of the target's axes but the last, which index it is: of the outer axes, then
    down and across."""

    def store(self, place: Place, sums: Buffer, at: E, width: int, lanes: int) -> None:
        k, (down, across) = self.k, (place.down, place.across)
        with (
            k.loop("i", down.stop, start=down.first) as i,
            k.loop("m", across.stop, start=across.first) as m,
        ):
            start = k.let("sums", at + (i * across.size + m) * width)
            write_columns(k, self._line(place, i, m), sums, start, place.columns, lanes)

    def store_registers(self, place: Place, tile: RegisterTile) -> bool:
        nodes = [node for node in self.target.body.graph.nodes if node.operands]
        if len(nodes) > _LIGHT or any(is_library_function(node.op.name) for node in nodes):
            return False

        def write(i: E, j: E, value: E) -> None:
            self._line(place, i, i * 0).write_vector(place.columns[0] + j, value=value)

        tile.store(write)
        return True

    def _line(self, place: Place, i: E, m: E) -> GroupedWriter:
        """Return the columns of a position."""
        found = (*place.outer, place.down.start + i, place.across.start + m)
        return self.target.at(*(found[number] for number in self.order))


@dataclass(frozen=True, slots=True)
class TransposedStore:
    """A result whose positions across are contiguous, and whose columns are apart."""

    k: KernelBuilder
    target: GroupedWriter
    images: Sequence[int]
    """Which of the outer indices come before the column, and which after it."""
    layers: Sequence[int]
    group: int
    """Which of the outer indices is that of a group of columns."""
    columns: int
    """Columns of a group."""
    has_rows: bool

    def store(self, place: Place, sums: Buffer, at: E, width: int, lanes: int) -> None:
        k, (down, across) = self.k, (place.down, place.across)
        by_column, stride = self._transposed(place, sums, at, width, min(_SQUARE, lanes))
        images, layers = ([place.outer[n] for n in each] for each in (self.images, self.layers))
        start = place.outer[self.group] * self.columns
        with k.loop("channel", place.columns[1]) as channel:
            target = self.target.at(*images, start + (place.columns[0] + channel))
            with k.loop("i", down.stop, start=down.first) as i:
                row = target.at(*layers, *[down.start + i] * self.has_rows)
                span = k.loop("j", across.stop, start=across.first, kind=LoopKind.SIMD)
                with span as j:
                    value = k.load(by_column, channel * stride + (i * across.size + j))
                    row.write(across.start + j, value=value)

    def store_registers(self, place: Place, tile: RegisterTile) -> bool:
        del place, tile
        return False

    def _transposed(
        self, place: Place, sums: Buffer, at: E, width: int, square: int
    ) -> tuple[Buffer, int]:
        """Return the sums by columns, and the elements from one column to the next."""
        k, positions = self.k, place.down.size * place.across.size
        stride = -(-positions // square) * square
        k.comment("Transposed as the result is stored: columns apart, positions contiguous.")
        result = k.local("by_column", sums.prim, width * stride)
        with k.loop("j", width, step=square) as j, k.loop("i", positions, step=square) as i:
            lines = []
            for number in range(square):
                row = i + number if positions % square == 0 else minimum(i + number, positions - 1)
                lines.append(k.let("line", k.load(sums, at + row * width + j, square)))
            for number, values in enumerate(turned(k, lines)):
                k.store(result, (j + number) * stride + i, values)
        return result, stride

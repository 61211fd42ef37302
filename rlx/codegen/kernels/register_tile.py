"""The register tile: sums of outer products, kept in registers over the steps of a contraction.

    tile = RegisterTile.of(k, "tile", rows, columns, lanes, Prim.F32)
    tile.zero()
    with k.loop("p", inner) as p:
        tile.accumulate(lambda i: a(i, p), lambda j: b(p, j))
    tile.store(lambda i, j, sums: k.store(y, i * columns + j, sums, lanes))

A step multiplies one scalar per row with a few vectors across the columns, which all rows share: a
tile of 12 x 32 floats does 24 vector multiply-adds for 2 vector loads. Elements of any type
are widened to the type of the sums; sums of floats are fused multiply-adds, of integers wrap.
With `add=dot_bytes` the elements are words of four bytes, and a step adds four products:
products of eight-bit codes (qmatmul, blocks of a language model) pack them so, with
sums of each column for the zero points, and takes the same tiles. With `dot_bf16` they
are words of two bf16, and sums are f32.

The kernel says where rows and columns come from and go to. Rows and vectors are unrolled, so
that back ends keep the tile in registers; it must fit there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, dot_bf16, dot_bytes, fma
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.fold_maps import Combine

RowElement: TypeAlias = Callable[[E], E]
"""Row -> the scalar that multiplies all columns in this step."""

Vector: TypeAlias = Callable[[E], E]
"""Column -> the `lanes` elements from there on that multiply all rows in this step."""

ReadVector: TypeAlias = Callable[[E, E], E]
"""Row and column -> the `lanes` sums from there on."""

Accumulate: TypeAlias = Callable[[E, E, E], E]
"""Takes a row's scalar, a vector of columns and the sums so far; returns the sums after."""

WriteVector: TypeAlias = Callable[[E, E, E], None]
"""Takes row, column and the `lanes` sums from there on."""


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """`rows` by `columns` sums in vectors of `lanes`, which divide the columns."""

    k: KernelBuilder
    memory: Buffer
    rows: int
    columns: int
    lanes: int
    row: str
    """What the loop over rows is called."""
    column: str
    add: Accumulate
    """What a step adds to the sums."""

    @classmethod
    def of(
        cls,
        k: KernelBuilder,
        name: str,
        rows: int,
        columns: int,
        lanes: int,
        prim: Prim,
        *,
        row: str = "i",
        column: str = "j",
        add: Accumulate | None = None,
    ) -> RegisterTile:
        """Declare a tile of sums of `prim`."""
        memory = k.local(name, prim, rows * columns)
        return cls(k, memory, rows, columns, lanes, row, column, add or multiply_add)

    def zero(self) -> None:
        """Set all sums to 0."""
        zero = const(0, self.memory.prim, self.lanes)
        self.load(lambda _i, _j: zero)

    def load(self, read: ReadVector) -> None:
        """Set the sums to what `read` gives."""
        with self._each_row() as i, self._each_vector() as j:
            self._set(i, j, read(i, j))

    def accumulate(
        self,
        left: RowElement,
        right: Vector,
        *,
        name: str = "x",
        rows: tuple[int, int] | None = None,
    ) -> None:
        """Add the products of `left`, named once per row, and `right`: one step.

        With `rows` to those from one up to another only.
        """
        first, stop = rows or (0, self.rows)
        with self.k.loop(self.row, stop, start=first, kind=LoopKind.UNROLL) as i:
            x = self.k.let(name, left(i))
            with self._each_vector() as j:
                self._set(i, j, self.add(x, right(j), self._sums(i, j)))

    def store(self, write: WriteVector) -> None:
        """Hand the sums to `write`."""
        with self._each_row() as i, self._each_vector() as j:
            write(i, j, self._sums(i, j))

    def _sums(self, i: E, j: E) -> E:
        return self.k.load(self.memory, i * self.columns + j, self.lanes)

    def _set(self, i: E, j: E, value: E) -> None:
        self.k.store(self.memory, i * self.columns + j, value)

    def _each_row(self) -> AbstractContextManager[E]:
        return self.k.loop(self.row, self.rows, kind=LoopKind.UNROLL)

    def _each_vector(self) -> AbstractContextManager[E]:
        return self.k.loop(self.column, self.columns, step=self.lanes, kind=LoopKind.UNROLL)


def multiply_add(x: E, y: E, total: E) -> E:
    """Return `x * y + total` in the type of `total`: rounded once for floats."""
    prim = total.type.prim
    wide_x, wide_y = x.cast(prim), y.cast(prim)
    return fma(wide_x, wide_y, total) if prim.is_float else wide_x * wide_y + total


_ADD: dict[Combine, Accumulate] = {
    Combine.PRODUCT: multiply_add,
    Combine.BYTES: dot_bytes,
    Combine.BF16: dot_bf16,
}


def accumulate_of(combine: Combine, columns: Prim) -> Accumulate:
    """Return what a contraction adds; of bytes, those of `columns` may be the unsigned ones."""
    if combine is Combine.BYTES and columns is Prim.U32:
        return lambda x, y, total: dot_bytes(y, x, total)
    return _ADD[combine]

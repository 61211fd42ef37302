"""Tiles of a contraction of bytes in vectors that are squares: two rows by two columns (`smmla`).

    vector                   its words
    two rows of the left     a[i, p], a[i, p + 1], a[i + 1, p], a[i + 1, p + 1]
    two columns              b[p, j], b[p + 1, j], b[p, j + 1], b[p + 1, j + 1]
    sums                     c[i, j], c[i, j + 1], c[i + 1, j], c[i + 1, j + 1]

Rows are read where they are, steps of a row being neighbors. Two rows of a panel are interleaved,
once for all rows of the tile.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import field

from rlx.codegen.kernels.contraction.spans import Number
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, dot_bytes, index, shuffle
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass

_LANES = 4
"""Words of a vector."""
_INTERLEAVED = ((0, 4, 1, 5), (2, 6, 3, 7))
"""Lanes of a row of a panel and of the next: those of its first two columns, and of its last."""
_OF_ROWS = ((0, 1, 4, 5), (2, 3, 6, 7))
"""Sums of two vectors that belong to the first row, and to the second."""


@dataclass(frozen=True, slots=True)
class SquareTile:
    """Sums of `rows` by `columns`, a multiple of four, over an even number of `steps`."""

    k: KernelBuilder
    rows: int
    columns: int
    steps: int
    sums: list[list[Mutable]] = field(default_factory=list)
    """Vectors of two columns each, for every two rows."""

    def configured(self) -> AbstractContextManager[None]:
        """Do nothing: vectors have one shape."""
        return nullcontext()

    def zero(self) -> None:
        """Declare all sums, which are 0."""
        zero = const(0, Prim.I32, _LANES)
        self.sums[:] = [
            [self.k.mutable("tile", zero) for _ in range(self.columns // 2)]
            for _ in range(0, self.rows, 2)
        ]

    def add(
        self, left: tuple[Buffer, E], row: Number, right: tuple[Buffer, E], step: Number
    ) -> None:
        """Add the products of `steps` words of rows, `row` words apart, by rows of columns."""
        k, (a, a_at), (b, b_at) = self.k, left, right
        with k.loop("p", self.steps, step=2) as p:
            first = k.let("panel_at", b_at + p * step)
            columns = []
            for j in range(0, self.columns, _LANES):
                here, next_ = (k.load(b, first + (at + j), _LANES) for at in (index(0), step))
                columns += [k.let("columns", shuffle(here, next_, two)) for two in _INTERLEAVED]
            for number, of_rows in enumerate(self.sums):
                # The last row of an odd number is both of its rows.
                places = (2 * number, min(2 * number + 1, self.rows - 1))
                upper, lower = (k.load(a, a_at + (p + index(row) * i), 2) for i in places)
                rows = k.let("rows", shuffle(upper, lower, range(_LANES)))
                for total, column in zip(of_rows, columns, strict=True):
                    total.set(dot_bytes(rows, column, total, squares=True))

    def store(self, sums: Buffer) -> None:
        """Store the sums row after row."""
        for number, of_rows in enumerate(self.sums):
            for j in range(0, len(of_rows), 2):
                for row, positions in enumerate(_OF_ROWS[: self.rows - 2 * number]):
                    at = (2 * number + row) * self.columns + 2 * j
                    found = shuffle(of_rows[j], of_rows[j + 1], positions)
                    self.k.store(sums, index(at), found)

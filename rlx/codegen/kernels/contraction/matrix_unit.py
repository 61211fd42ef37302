"""Tiles of a contraction in the registers of a matrix unit (AMX): bytes by bytes, summed in i32.

A register holds 16 rows of 16 words, or of 16 sums. A tile of 32 rows by 32 columns takes all
eight: four of sums, two of rows and two of columns, and 16 steps of it are four instructions:

    zero the sums;  for 16 steps p:  load rows[0:16, p], rows[16:32, p], panel[p, 0:16], ...
                                     four products;       store the sums

What is left of the steps has registers of its own shape, and the tile then 16 rows at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.kernels.contraction.spans import Number
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Prim, TileOp
from rlx.codegen.loops.tile_registers import CONFIGURATION_WORDS, REGISTERS, ROWS, tile_shapes
from rlx.dataclass import dataclass
from rlx.errors import InternalError

WORD = 4
"""Bytes of a word."""

_LEFT, _RIGHT = 4, 6
"""The first registers of rows and of columns."""
_REST_LEFT, _REST_RIGHT = 5, 2
"""Those of the steps that are left."""


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """Sums of `rows` by `columns`, 16 or 32, over `steps` words at a time."""

    k: KernelBuilder
    rows: int
    columns: int
    steps: int
    dot: TileOp

    def __post_init__(self) -> None:
        if self.columns not in (ROWS, 2 * ROWS) or not 0 < self.rows <= (1 + self._is_even) * ROWS:
            raise InternalError(f"no registers for tiles of {self.rows} by {self.columns}")

    @property
    def _is_even(self) -> bool:
        return self.steps % ROWS == 0

    @property
    def _heights(self) -> list[int]:
        """Rows of each register of rows."""
        return [min(ROWS, self.rows - first) for first in range(0, self.rows, ROWS)]

    @property
    def _widths(self) -> range:
        """Registers of columns."""
        return range(self.columns // ROWS)

    @contextmanager
    def configured(self) -> Iterator[None]:
        """Give the registers the shapes of this tile."""
        shapes, rest = [(0, 0)] * REGISTERS, self.steps % ROWS
        for i, height in enumerate(self._heights):
            for j in self._widths:
                shapes[2 * i + j] = height, ROWS * WORD
            shapes[_LEFT + i] = height, ROWS * WORD
        for j in self._widths:
            shapes[_RIGHT + j] = ROWS, ROWS * WORD
            if rest:
                shapes[_REST_RIGHT + j] = rest, ROWS * WORD
        if rest:
            shapes[_REST_LEFT] = self.rows, rest * WORD
        k, words = self.k, tile_shapes(shapes)
        memory = k.local("shapes", Prim.I64, CONFIGURATION_WORDS)
        for number in range(CONFIGURATION_WORDS):
            k.store(memory, number, const(words.get(number, 0), Prim.I64))
        k.tile_step(TileOp.CONFIGURE, address=k.address(memory))
        yield
        k.tile_step(TileOp.RELEASE)

    def zero(self) -> None:
        """Set all sums to 0."""
        for number in self._sums():
            self.k.tile_step(TileOp.ZERO, number)

    def add(
        self, left: tuple[Buffer, E], row: Number, right: tuple[Buffer, E], step: Number
    ) -> None:
        """Add the products of `steps` words of rows, `row` words apart, by rows of columns."""
        k, whole = self.k, self.steps // ROWS * ROWS
        if whole:
            with k.loop("p", whole, step=ROWS) as p:
                self._add(left, row, right, step, p, _LEFT, _RIGHT)
        if not self._is_even:
            self._add(left, row, right, step, const(whole, Prim.I64), _REST_LEFT, _REST_RIGHT)

    def _add(
        self,
        left: tuple[Buffer, E],
        row: Number,
        right: tuple[Buffer, E],
        step: Number,
        p: E,
        rows: int,
        columns: int,
    ) -> None:
        k, (a, a_at), (b, b_at) = self.k, left, right
        for j in self._widths:
            place = k.address(b, b_at + p * step + j * ROWS)
            k.tile_step(TileOp.LOAD, columns + j, address=place, stride=step)
        for i, _ in enumerate(self._heights):
            place = k.address(a, a_at + p + i * ROWS * row)
            k.tile_step(TileOp.LOAD, rows + i, address=place, stride=row)
            for j in self._widths:
                k.tile_step(self.dot, 2 * i + j, rows + i, columns + j)

    def store(self, sums: Buffer) -> None:
        """Store the sums row after row."""
        k = self.k
        for number in self._sums():
            i, j = divmod(number, 2)
            place = k.address(sums, (i * self.columns + j) * ROWS, writable=True)
            k.tile_step(TileOp.STORE, number, address=place, stride=self.columns)

    def _sums(self) -> list[int]:
        return [2 * i + j for i, _ in enumerate(self._heights) for j in self._widths]

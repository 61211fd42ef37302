"""Tiles of slices: small matrices of a batch interleaved in memory, one per lane."""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.kernels.values import Complex, Scalar, real
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, const, index
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim, storage
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, product, upper
from rlx.ir.types import TensorType

_STACK_BYTES = 32 * 1024
_FEWEST_SLICES = 4
"""Below this number, most lanes of a block would idle."""
MOST_PARTS = 16
"""Large slices worked on at the same time at most, each with memory in the arena."""


@dataclass(frozen=True, slots=True)
class SliceBatch:
    """The slices of a batch as tiles hold them: `height` rows of `width` elements each."""

    slices: Extent
    height: int
    width: int
    prim: Prim
    parts_of_number: int = 1
    """2 if they are complex."""
    is_one_by_one: bool = False
    """True if slices are worked on one at a time, whatever fits on the stack."""

    @classmethod
    def of(cls, matrix: TensorType, columns: Extent) -> SliceBatch:
        """Lay out square matrices with `columns` more columns."""
        height = upper(matrix.shape[-1])
        slices = product(matrix.shape[:-2])
        parts = 2 if matrix.dtype.is_complex else 1
        return cls(slices, height, height + upper(columns), storage(matrix.dtype), parts)

    @property
    def right_sides(self) -> SliceBatch:
        """The batch without the square matrices, one at a time: each is read where it is."""
        return replace(self, width=self.width - self.height, is_one_by_one=True)

    def at_a_time(self, lanes: int) -> int:
        """Return how many slices are worked on at a time, where a vector has `lanes`."""
        many = upper(self.slices) >= _FEWEST_SLICES and not self.is_one_by_one
        return lanes if many and self._bytes * lanes <= _STACK_BYTES else 1

    @property
    def parts(self) -> int:
        """How many blocks have memory in the arena; 0 if they are on the stack."""
        return 0 if self._bytes <= _STACK_BYTES else min(MOST_PARTS, upper(self.slices))

    @property
    def scratch_bytes(self) -> int:
        return self.parts * self._bytes

    @property
    def _bytes(self) -> int:
        return self.elements * self.prim.size

    @property
    def elements(self) -> int:
        """Return how many machine numbers one slice takes."""
        return self.height * self.width * self.parts_of_number


@dataclass(frozen=True, slots=True)
class Tile:
    """The matrices of one block: element (i, j) of every slice, or of one."""

    k: KernelBuilder
    buffer: Buffer
    base: E
    height: int
    width: int
    lanes: int
    parts: int = 1
    is_spelled_out: bool = False
    """True if elements become variables: no index depends on the data."""

    @property
    def prim(self) -> Prim:
        return self.buffer.prim

    @property
    def inner(self) -> LoopKind:
        """The kind of loops along a row, whose steps are independent."""
        if self.is_spelled_out:
            return LoopKind.UNROLL
        return LoopKind.SIMD if self.lanes == 1 else LoopKind.SERIAL

    @property
    def outer(self) -> LoopKind:
        """The kind of loops over rows."""
        return LoopKind.UNROLL if self.is_spelled_out else LoopKind.SERIAL

    @property
    def is_complex(self) -> bool:
        return self.parts == 2

    def load(self, i: Operand, j: Operand) -> Scalar:
        return self._load(self._at(i, j), self.lanes)

    def store(self, i: Operand, j: Operand, value: Scalar) -> None:
        self._store(self._at(i, j), value, self.lanes)

    def load_lane(self, i: Operand, j: Operand, lane: E) -> Scalar:
        return self._load(self._at(i, j) + lane, 1)

    def store_lane(self, i: Operand, j: Operand, lane: E, value: Scalar) -> None:
        self._store(self._at(i, j) + lane, value, 1)

    def _load(self, at: E, lanes: int) -> Scalar:
        first = self.k.load(self.buffer, at, lanes)
        if not self.is_complex:
            return first
        return Complex(first, self.k.load(self.buffer, at + self._apart, lanes))

    def _store(self, at: E, value: Scalar, lanes: int) -> None:
        parts: list[Scalar] = [value]
        if isinstance(value, Complex):  # both are computed before either is replaced
            parts = [self.k.let("re", value.re), self.k.let("im", value.im)]
        for number, part in enumerate(parts):
            self.k.store(self.buffer, at + number * self._apart, real(part).splat(lanes))

    def constant(self, value: float) -> E:
        return const(value, self.prim, self.lanes)

    def _at(self, i: Operand, j: Operand) -> E:
        """Address of the real part; imaginary parts are interleaved or planar.

        So vectors of parts are read whole: across slices, or along the row of one slice.
        """
        if self.lanes == 1:
            return self.base + index(i) * (self.width * self.parts) + index(j)
        return self.base + (index(i) * self.width + index(j)) * (self.lanes * self.parts)

    @property
    def _apart(self) -> int:
        """Distance from a real part to its imaginary part."""
        return self.width if self.lanes == 1 else self.lanes

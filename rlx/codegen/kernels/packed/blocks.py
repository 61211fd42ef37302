"""Blocks of packed weights as kernels read them: one block, or one of each row of a panel.

The bytes of a panel's rows are interleaved, `[panel][byte][row]`, so that a vector holds the
same byte of as many rows as it has lanes; the formulas of `rlx.ir.block_types` decode them
side by side. Plain rows are read one byte at a time, by the same formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, lookup_bytes
from rlx.codegen.loops.math.storage import from_storage
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.block_type import BlockType
from rlx.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive elements of a block that share a scale."""

    first: int
    scale: E
    offset: E | None


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """A block of each of `lanes` rows; the first bytes are at `base`."""

    k: KernelBuilder
    memory: Buffer
    kind: BlockType
    base: E
    lanes: int
    book: Buffer | None = None

    def byte(self, at: Operand) -> E:
        return self.k.let("byte", self._load(at).cast(Prim.I32))

    def signed(self, at: Operand) -> E:
        return self.k.let("code", self._load(at).bitcast(Prim.I8).cast(Prim.I32))

    def half(self, at: int) -> E:
        return self.k.let("half", from_storage(self._bytes(at, Prim.U16), DType.F16))

    def single(self, at: int) -> E:
        return self.k.let("single", self._bytes(at, Prim.U32).bitcast(Prim.F32))

    def number(self, integer: E) -> E:
        return integer.cast(Prim.F32)

    def integer(self, place: E) -> E:
        return place.cast(Prim.I32)

    def bit(self, integer: E, place: E) -> E:
        return (integer >> self.integer(place)) & 1

    def level(self, code: E, levels: Sequence[int]) -> E:
        if self.lanes == 1:
            return level_by_bits(code, levels)
        table = [value & 255 for value in levels]
        found = lookup_bytes(table, code.bitcast(Prim.U32)).bitcast(Prim.I32)
        return self.k.let("level", found << 24 >> 24)

    def half_of(self, bits: E) -> E:
        return self.k.let("half", from_storage(bits.cast(Prim.U16), DType.F16))

    def float_of(self, bits: E) -> E:
        return bits.bitcast(Prim.F32)

    def words(self) -> list[E]:
        """Look up the words that the codes are made of, for each row one after the other."""
        k, lanes = self.k, self.lanes
        if self.kind.codebook is None:
            return []
        if self.book is None:
            raise InternalError(f"blocks of {self.kind.name} come with their codebook")
        lookups = self.kind.lookups_of(self)
        size = len(lookups) * lanes
        places, words = (k.local(name, Prim.I32, size) for name in ("places", "words"))
        for number, (place, _) in enumerate(lookups):
            k.store(places, number * lanes, place)
        with k.loop("at", size) as at:
            k.store(words, at, k.load(self.book, k.load(places, at).cast(Prim.I64)))
        return [
            k.let("word", k.load(words, number * lanes, lanes) | (above << 16))
            for number, (_, above) in enumerate(lookups)
        ]

    def runs(self) -> list[Run]:
        """Compute the scales."""
        return [
            Run(
                number * self.kind.length,
                self.k.let("scale", scale),
                None if offset is None else self.k.let("offset", offset),
            )
            for number, (scale, offset) in enumerate(self.kind.scales(self))
        ]

    def codes(self, place: E, words: list[E]) -> Iterator[E]:
        """Return the codes at a place of every run, as f32."""
        for code in self.kind.codes_at(self, place, words):
            yield code.cast(Prim.F32)

    def weights(self, runs: list[Run], place: E, words: list[E]) -> Iterator[tuple[E, E]]:
        """Yield positions in the block, and values, of the elements at a place of every run."""
        for run, code in zip(runs, self.codes(place, words), strict=True):
            value = run.scale * code
            yield place + run.first, value if run.offset is None else value + run.offset

    def _load(self, at: Operand) -> E:
        return self.k.load(self.memory, self.base + at * self.lanes, self.lanes)

    def _bytes(self, at: int, prim: Prim) -> E:
        """Return a little-endian field."""
        parts = [self._load(at + i).cast(prim) << 8 * i for i in range(1, prim.size)]
        field = self._load(at).cast(prim)
        for part in parts:
            field = field | part
        return field


def level_by_bits(code: E, levels: Sequence[int]) -> E:
    """Return the level of a code of one row: a byte of one of four words, by fewer steps."""
    words = [_word(levels[start : start + 4]) for start in range(0, 16, 4)]
    third, fourth = 0 - ((code >> 2) & 1), 0 - (code >> 3)
    low = (third & (words[0] ^ words[1])) ^ words[0]
    high = (third & (words[2] ^ words[3])) ^ words[2]
    chosen = low ^ ((low ^ high) & fourth)
    byte = (chosen >> ((code & 3) << 3)) & 255
    return (byte ^ 128) - 128


def _word(levels: Sequence[int]) -> int:
    """Return four levels as the bytes of an i32."""
    return int.from_bytes(bytes(value & 255 for value in levels), "little", signed=True)

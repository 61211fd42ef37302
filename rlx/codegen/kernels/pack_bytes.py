"""Packing bytes into words of four, as products of bytes read them.

The bytes of a word lie a quarter of the axis apart, so that neighboring words are made of vectors
of neighboring bytes, without any shuffle. Where the axis is no multiple of four, the last words
lack some bytes, which are zero.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.ir.ops.byte_products import BYTES, SIGN
from rlx.ir.shape import product, upper


@kernel("pack_bytes")
def pack_bytes(
    scope: Scope, x: Reader, words: Writer, *, axis: int, signed: bool, groups: int
) -> None:
    k, rank = scope.k, len(x.shape)
    line = rank == axis + 1
    each = (tuple(range(axis)), (axis,), *(() if line else (tuple(range(axis + 1, rank)),)))
    source, target = x.grouped(each), words.grouped(each)
    extent = upper(x.shape[axis]) // groups
    quarter = -(-extent // BYTES)
    flips = signed is not (x.prim is Prim.I8)
    with rows(k, "row", source.extent(0) * groups, product(x.shape)) as row:
        outer, group = (row, None) if groups == 1 else (row / groups, row % groups)
        words_of = _Words(k, source.at(outer), target.at(outer), signed, flips)
        for start, stop, places in _segments(extent, quarter):
            kind = LoopKind.SIMD if line else LoopKind.SERIAL
            with k.loop("w", stop, start=start, kind=kind) as w:
                here = w if group is None else group * quarter + w
                first = w if group is None else group * extent + w
                at = [first + place * quarter for place in range(places)]
                words_of.pack(at, here, line=line)


def _segments(extent: int, quarter: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of words and of how many bytes they have."""
    counts = [max(0, min(extent - place * quarter, quarter)) for place in range(BYTES)]
    start = 0
    for places in range(BYTES, 0, -1):
        stop = counts[places - 1]
        if stop > start:
            yield start, stop, places
            start = stop


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one line, or of a plane whose positions lie behind the axis."""

    k: KernelBuilder
    read: GroupedReader
    write: GroupedWriter
    signed: bool
    flips: bool
    """True if the highest bit of each byte changes: a sign comes or goes."""

    def pack(self, at: list[E], here: E, *, line: bool) -> None:
        """Make the word `here` of the bytes at several places."""
        if line:
            self.write.write(here, value=self._word([self.read.read_real(place) for place in at]))
            return
        with self.k.loop("i", self.read.extent(1), kind=LoopKind.SIMD) as i:
            value = self._word([self.read.read_real(place, i) for place in at])
            self.write.write(here, i, value=value)

    def _word(self, found: list[E]) -> E:
        parts = [each.bitcast(Prim.U8).cast(Prim.U32) for each in found]
        word = functools.reduce(operator.or_, [part << 8 * i for i, part in enumerate(parts)])
        if self.flips:
            word = word ^ sum(SIGN << 8 * i for i in range(len(parts)))
        return word.bitcast(Prim.I32) if self.signed else word

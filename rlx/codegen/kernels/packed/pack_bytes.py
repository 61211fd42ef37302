"""Packing bytes into words of four, as products of bytes read them.

The bytes of a word are a quarter of the axis apart, so that neighboring words are made of vectors
of neighboring bytes, without any shuffle; or they are neighbors, for bytes that are read as
words in place. Where the axis is no multiple of four, the last words lack some bytes, which
are zero.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, no_kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.ops.byte_products import BYTES, SIGN
from rlx.ir.ops.conv_geometry import Pads
from rlx.ir.shape import product, upper

no_kernel("bytes_as_words", because="its result is its operand's memory")


@kernel("pack_bytes")
def pack_bytes(
    scope: Scope,
    x: Reader,
    *rest: Reader | Writer,
    axis: int,
    signed: bool,
    groups: int,
    neighbors: bool,
    padding: Pads,
) -> None:
    *given, words = rest
    assert isinstance(words, Writer)
    readers = (each for each in given if isinstance(each, Reader))
    around = next((each.grouped(()).read_real() for each in readers), None)
    k, rank = scope.k, len(x.shape)
    line, trailing = rank == axis + 1, tuple(range(axis + 1, rank))
    planes = () if line else tuple((each,) for each in trailing) if padding else (trailing,)
    each = (tuple(range(axis)), (axis,), *planes)
    source, target = x.grouped(each), words.grouped(each)
    extent = upper(x.shape[axis]) // groups
    quarter = -(-extent // BYTES)
    step, apart = (BYTES, 1) if neighbors else (1, quarter)
    flips = signed is not (x.prim is Prim.I8)
    with rows(k, "row", source.extent(0) * groups, product(x.shape)) as row:
        outer, group = (row, None) if groups == 1 else (row / groups, row % groups)
        words_of = _Words(k, source.at(outer), target.at(outer), signed, flips, padding, around)
        for start, stop, places in _segments(extent, neighbors=neighbors):
            kind = LoopKind.SIMD if line else LoopKind.SERIAL
            with k.loop("w", stop, start=start, kind=kind) as w:
                here = w if group is None else group * quarter + w
                first = w * step if group is None else group * extent + w * step
                at = [first + place * apart for place in range(places)]
                words_of.pack(at, here, line=line)


def _segments(extent: int, *, neighbors: bool) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of words and of how many bytes they have."""
    quarter = -(-extent // BYTES)
    if neighbors:
        counts = [(extent + BYTES - 1 - place) // BYTES for place in range(BYTES)]
    else:
        counts = [max(0, min(extent - place * quarter, quarter)) for place in range(BYTES)]
    start = 0
    for places in range(BYTES, 0, -1):
        stop = counts[places - 1]
        if stop > start:
            yield start, stop, places
            start = stop


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of one line, or of a plane whose positions are after the axis."""

    k: KernelBuilder
    read: GroupedReader
    write: GroupedWriter
    signed: bool
    flips: bool
    """True if the highest bit of each byte changes: a sign comes or goes."""
    padding: Pads
    around: E | None
    """What bytes around the plane are, before that bit changes; None for 0."""

    def pack(self, at: list[E], here: E, *, line: bool) -> None:
        """Make the word `here` of the bytes at several places."""
        if line:
            self.write.write(here, value=self._word([self.read.read_real(place) for place in at]))
            return
        if self.padding:
            self._spread(at, here, (), ())
            return
        with self.k.loop("i", self.read.extent(1), kind=LoopKind.SIMD) as i:
            value = self._word([self.read.read_real(place, i) for place in at])
            self.write.write(here, i, value=value)

    def _spread(self, at: list[E], here: E, source: tuple[E, ...], target: tuple[E, ...]) -> None:
        """Make the words of a plane, or of what is left of it, and those around."""
        k, axis = self.k, len(source)
        last = axis + 1 == len(self.padding)
        low, extent = self.padding[axis][0], self.read.extent(1 + axis)
        self._surround(here, target, index(0), index(low), len(at))
        with k.loop("i", extent, kind=LoopKind.SIMD if last else LoopKind.SERIAL) as i:
            inner, outer = (*source, i), (*target, i + low)
            if last:
                value = self._word([self.read.read_real(place, *inner) for place in at])
                self.write.write(here, *outer, value=value)
            else:
                self._spread(at, here, inner, outer)
        self._surround(here, target, extent + low, self.write.extent(1 + axis), len(at))

    def _surround(self, here: E, target: tuple[E, ...], start: E, stop: E, places: int) -> None:
        """Write the words outside of the plane from `start` to `stop` of its next axis."""
        if start.node == stop.node:
            return
        axis = len(target)
        last = axis + 1 == len(self.padding)
        with self.k.loop("i", stop, start=start, kind=LoopKind.SERIAL) as i:
            if last:
                self.write.write(here, *target, i, value=self._outside(places))
            else:
                whole = self.write.extent(2 + axis)
                self._surround(here, (*target, i), index(0), whole, places)

    def _outside(self, places: int) -> E:
        zero = const(0, Prim.U8)
        return self._word([zero if self.around is None else self.around] * places)

    def _word(self, found: list[E]) -> E:
        parts = [each.bitcast(Prim.U8).cast(Prim.U32) for each in found]
        word = functools.reduce(operator.or_, [part << 8 * i for i, part in enumerate(parts)])
        if self.flips:
            word = word ^ sum(SIGN << 8 * i for i in range(len(parts)))
        return word.bitcast(Prim.I32) if self.signed else word

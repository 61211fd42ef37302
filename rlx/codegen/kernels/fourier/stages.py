"""Points of Fourier transforms in scratch, and the stages that transform them.

A block of transforms goes to and fro between two copies in stages of small radices that leave it in
order (Stockham's). Each stage turns groups of as many points as its radix, which butterflies in
registers transform; each lane of a vector is a transform of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, select
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.dataclass import dataclass
from rlx.ir.ops.fourier import prime_factors

Complex: TypeAlias = tuple[E, E]

_LARGEST_WRITTEN = 13
"""Odd radices up to this one are written out, larger ones are loops."""


def radices(n: int) -> list[int]:
    """Return the radices of the stages: fours, then what is left."""
    factors = prime_factors(n)
    twos = factors.count(2)
    return [4] * (twos // 2) + [2] * (twos % 2) + [f for f in factors if f != 2]


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a block in scratch: vectors of real parts, each before its imaginary parts."""

    k: KernelBuilder
    memory: Buffer
    roots: Buffer
    n: int
    lanes: int
    inverse: bool
    step: int = 1
    """The exponent in the table of the first root of unity of `n` points."""
    is_swapped: bool = False
    """The imaginary parts are loaded as real ones, and the other way round."""

    def place(self, base: E, i: E) -> E:
        return base + i * (2 * self.lanes)

    def load(self, at: E) -> Complex:
        k, lanes = self.k, self.lanes
        re = k.let("re", k.load(self.memory, at, lanes))
        im = k.let("im", k.load(self.memory, at + lanes, lanes))
        return (im, re) if self.is_swapped else (re, im)

    def store(self, at: E, value: Complex) -> None:
        self.k.store(self.memory, at, value[0])
        self.k.store(self.memory, at + self.lanes, value[1])

    def load_lane(self, at: E, part: int, lane: int) -> E:
        part = 1 - part if self.is_swapped else part
        return self.k.load(self.memory, at + (part * self.lanes + lane))

    def store_lane(self, at: E, part: int, lane: int, value: E) -> None:
        self.k.store(self.memory, at + (part * self.lanes + lane), value)

    def transform(self, source: E, target: E) -> E:
        """Transform the points at `source`; returns where the result is, there or at `target`."""
        stride, length = 1, self.n
        for radix in radices(self.n):
            run = self._written if radix <= _LARGEST_WRITTEN else self._looped
            run(source, target, length, stride, radix)
            source, target = target, source
            stride, length = stride * radix, length // radix
        return source

    def root(self, exponent: E) -> Complex:
        """Return a root of unity of the table in all lanes."""
        k, at = self.k, self.k.let("exponent", exponent)
        c, s = (
            k.let(name, k.load(self.roots, place))
            for name, place in (("c", at), ("s", at + self.n * self.step))
        )
        return c.splat(self.lanes), s.splat(self.lanes)

    def _root(self, exponent: E) -> Complex:
        return self.root(exponent * self.step)

    def _written(self, source: E, target: E, length: int, stride: int, radix: int) -> None:
        k, groups = self.k, length // radix
        with k.loop("p", groups) as p:
            turns = [self._root(p * (j * stride)) for j in range(1, radix)] if groups > 1 else []
            with k.loop("q", stride) as q:
                given = [
                    self.load(self.place(source, q + (p + part * groups) * stride))
                    for part in range(radix)
                ]
                for j, value in enumerate(butterfly(k, given, 1 if self.inverse else -1)):
                    turn = turns[j - 1] if turns and j else None
                    at = self.place(target, q + (p * radix + j) * stride)
                    self.store(at, value if turn is None else multiplied(value, turn))

    def _looped(self, source: E, target: E, length: int, stride: int, radix: int) -> None:
        k, groups, zero = self.k, length // radix, const(0.0, self.memory.prim, self.lanes)
        with k.loop("p", groups) as p, k.loop("q", stride) as q, k.loop("j", radix) as j:
            re, im = k.mutable("sum_re", zero), k.mutable("sum_im", zero)
            at = k.mutable("at", const(0, Prim.I64))
            with k.loop("part", radix) as part:
                c, s = self._root(at * (self.n // radix))
                x_re, x_im = self.load(self.place(source, q + (p + part * groups) * stride))
                re.set(fma(x_re, c, fma(-x_im, s, re)))
                im.set(fma(x_re, s, fma(x_im, c, im)))
                at.set(at + j)
                at.set(select(at >= radix, at - radix, at))
            value = multiplied((re, im), self._root(p * j * stride)) if groups > 1 else (re, im)
            self.store(self.place(target, q + (p * radix + j) * stride), value)


# Butterflies


def butterfly(k: KernelBuilder, x: Sequence[Complex], sign: int) -> list[Complex]:
    """Return the transform of a few points: an even number of them by halves."""
    count = len(x)
    if count == 1:
        return list(x)
    if count % 2:
        return _odd_butterfly(k, x, sign)
    even, odd = butterfly(k, x[0::2], sign), butterfly(k, x[1::2], sign)
    turns = [_turned(k, value, j, count, sign) for j, value in enumerate(odd)]
    upper_half = [_named(k, added(a, b)) for a, b in zip(even, turns, strict=True)]
    return [*upper_half, *(_named(k, subtracted(a, b)) for a, b in zip(even, turns, strict=True))]


def _odd_butterfly(k: KernelBuilder, x: Sequence[Complex], sign: int) -> list[Complex]:
    """Sums and differences of mirrored points, multiplied by cosines and sines."""
    count = len(x)
    half = range(1, count // 2 + 1)
    sums = [_named(k, added(x[i], x[-i])) for i in half]
    differences = [_named(k, subtracted(x[i], x[-i])) for i in half]
    total = x[0]
    for each in sums:
        total = added(total, each)
    found: list[Complex] = [_named(k, total)] * count
    for j in half:
        angles = [2 * math.pi * (i * j % count) / count for i in half]
        even = _weighted([x[0], *sums], [1.0, *(math.cos(angle) for angle in angles)])
        odd = _weighted(differences, [sign * math.sin(angle) for angle in angles])
        even, odd = _named(k, even), _named(k, odd)
        found[j] = _named(k, (even[0] - odd[1], even[1] + odd[0]))
        found[-j] = _named(k, (even[0] + odd[1], even[1] - odd[0]))
    return found


def _weighted(x: Sequence[Complex], weights: Sequence[float]) -> Complex:
    re, im = (part * weights[0] for part in x[0])
    for value, weight in zip(x[1:], weights[1:], strict=True):
        re, im = fma(value[0], weight, re), fma(value[1], weight, im)
    return re, im


def _turned(k: KernelBuilder, x: Complex, j: int, count: int, sign: int) -> Complex:
    """Multiply by the j-th of the `count` roots of unity."""
    if j == 0:
        return x
    if 4 * j == count:
        return (-x[1], x[0]) if sign > 0 else (x[1], -x[0])
    angle = sign * 2 * math.pi * j / count
    c, s = (
        const(each, x[0].type.prim, x[0].type.lanes) for each in (math.cos(angle), math.sin(angle))
    )
    return _named(k, multiplied(x, (c, s)))


def multiplied(x: Complex, turn: Complex) -> Complex:
    c, s = turn
    return fma(x[0], c, -(x[1] * s)), fma(x[0], s, x[1] * c)


def added(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def subtracted(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _named(k: KernelBuilder, x: Complex) -> Complex:
    return k.let("re", x[0]), k.let("im", x[1])

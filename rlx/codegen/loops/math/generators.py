"""Counter-based generators of random bits, as pure functions of u32."""

from __future__ import annotations

from functools import cache

from rlx.codegen.loops.expr import E, const, lshr
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim
from rlx.ir.reference.random import (
    PHILOX_MULTIPLIERS,
    PHILOX_STEPS,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
)


@cache
def threefry2x32(word: str) -> Function:
    """Threefry-2x32 with 20 rounds; `word` says what is returned of the two that come out."""
    m = FunctionBuilder(Prim.F32)
    params = tuple(m.parameter(name, Prim.U32) for name in ("key0", "key1", "count0", "count1"))
    key0, key1, count0, count1 = (E(param) for param in params)
    keys = key0, key1, m.let("key2", key0 ^ key1 ^ const(THREEFRY_PARITY, Prim.U32))
    x, y = m.let("x", count0 + key0), m.let("y", count1 + key1)
    for turn in range(5):
        for distance in THREEFRY_ROTATIONS[turn % 2]:
            x = m.let("x", x + y)
            y = m.let("y", rotated_left(m, y, distance) ^ x)
        x = m.let("x", x + keys[(turn + 1) % 3])
        y = m.let("y", y + (keys[(turn + 2) % 3] + (turn + 1)))
    result = {"first": x, "second": y, "both": x ^ y}[word]
    given = {"first": "first word", "second": "second word", "both": "exclusive or of both words"}
    doc = f"Threefry-2x32, 20 rounds (Salmon et al., 2011): the {given[word]}."
    return Function(f"threefry2x32_{word}", params, tuple(m.lets), result.node, doc)


def rotated_left(m: FunctionBuilder, x: E, distance: int) -> E:
    """The bits of a u32 moved up, those that leave at the top entering below."""
    return m.let("rotated", (x << distance) | lshr(x, 32 - distance))


@cache
def philox4x32(word: int) -> Function:
    """Philox-4x32 with 10 rounds: one of the four words that come out."""
    m = FunctionBuilder(Prim.F32)
    names = ("key0", "key1", "count0", "count1", "count2", "count3")
    params = tuple(m.parameter(name, Prim.U32) for name in names)
    key0, key1, *c = (E(param) for param in params)
    for turn in range(10):
        if turn:
            key0, key1 = (
                m.let("key", key + const(step, Prim.U32))
                for key, step in zip((key0, key1), PHILOX_STEPS, strict=True)
            )
        products = [
            m.let("product", x.cast(Prim.U64) * const(multiplier, Prim.U64))
            for x, multiplier in zip(c[::2], PHILOX_MULTIPLIERS, strict=True)
        ]
        (high0, low0), (high1, low1) = (
            (lshr(each, 32).cast(Prim.U32), each.cast(Prim.U32)) for each in products
        )
        c = [m.let("x", high1 ^ c[1] ^ key0), m.let("y", low1),
             m.let("z", high0 ^ c[3] ^ key1), m.let("w", low0)]  # fmt: skip
    doc = f"Philox-4x32, 10 rounds (Salmon et al., 2011): word {word}."
    return Function(f"philox4x32_{word}", params, tuple(m.lets), c[word].node, doc)

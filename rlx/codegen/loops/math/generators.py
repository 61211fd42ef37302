"""Counter-based generators of random bits, as pure functions of u32."""

from __future__ import annotations

from functools import cache

from rlx.codegen.loops.expr import E, const, lshr
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim
from rlx.ir.reference.random import THREEFRY_PARITY, THREEFRY_ROTATIONS


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

"""Instructions on tile registers as assembly, which compilers translate for any processor."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.loops.nodes import TileOp

_TEXTS = {
    TileOp.CONFIGURE: "ldtilecfg (%0)",
    TileOp.RELEASE: "tilerelease",
    TileOp.ZERO: "tilezero {0}",
    TileOp.LOAD: "tileloadd (%0,%1,1), {0}",
    TileOp.STORE: "tilestored {0}, (%0,%1,1)",
    TileOp.DOT_UNSIGNED_SIGNED: "tdpbusd {2}, {1}, {0}",
    TileOp.DOT_SIGNED_UNSIGNED: "tdpbsud {2}, {1}, {0}",
}


def tile_function(op: TileOp, tiles: Sequence[int]) -> tuple[str, list[str]]:
    """Return the parameters and the body of the function that executes an instruction."""
    text = _TEXTS[op].format(*(f"%%tmm{number}" for number in tiles))
    taken = ["p", "stride"][: ("%0" in text) + ("%1" in text)]
    kinds = {"p": "void *p" if op is TileOp.STORE else "const void *p", "stride": "int64_t stride"}
    inputs = ", ".join(f'"r"({each})' for each in taken)
    params = ", ".join(kinds[each] for each in taken) or "void"
    return params, [f'__asm__ volatile("{text}" :: {inputs} : "memory");']

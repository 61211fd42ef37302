"""Instructions on tile registers as LLVM's intrinsics, without the prefix `llvm.x86.`."""

from __future__ import annotations

from rlx.codegen.loops.nodes import TileOp

INTRINSICS = {
    TileOp.CONFIGURE: "ldtilecfg",
    TileOp.RELEASE: "tilerelease",
    TileOp.ZERO: "tilezero",
    TileOp.LOAD: "tileloadd64",
    TileOp.STORE: "tilestored64",
    TileOp.DOT_UNSIGNED_SIGNED: "tdpbusd",
    TileOp.DOT_SIGNED_UNSIGNED: "tdpbsud",
}

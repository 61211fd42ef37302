"""Prefetches, where nothing can be asked for ahead."""

from __future__ import annotations

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Prim
from rlx.codegen.loops.passes.drop_prefetches import drop_prefetches
from tests.codegen.loops.passes.cases import after


@after(drop_prefetches).gives("""
    for i in 0 .. 8:
      let both: i64 = i * 2
      y[both] = x[i]
""")
def test_prefetches_go_with_what_only_they_read(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    with k.loop("i", 8) as i:
        ahead = k.let("ahead", k.load(x, i + 4).cast(Prim.I64))
        both = k.let("both", i * 2)
        k.prefetch(x, ahead)
        k.prefetch(x, both)
        k.store(y, both, k.load(x, i))


@after(drop_prefetches).changes_nothing()
def test_kernels_without_prefetches_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    k.store(y, 0, k.load(x, 1))

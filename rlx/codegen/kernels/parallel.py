"""Work partitioning and grain size: what runs on several threads, and in pieces of which size.

The split depends on shapes alone, never on the number of threads, so that a result has the
same bits on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, minimum
from rlx.codegen.loops.nodes import Const, LoopKind, Prim
from rlx.ir.shape import Extent, upper

PARALLEL_WORK = 1 << 15
"""Elements below which a kernel stays on one thread: waking another costs more."""

PARALLEL_PRODUCTS = 1 << 20
"""Multiply-adds below which a matrix product stays on one thread: some ten microseconds of work."""

PARALLEL_WEIGHTS = 1 << 16
"""The same where each weight is decoded or streamed for few rows: an order slower than a tile."""

WAKING_WEIGHTS = 1 << 18
"""Such multiply-adds for which alone no thread is woken: that takes longer than they do."""

BLOCK = 4096
"""Elements of a flat loop that one thread takes at a time: 16 KiB of f32, half an L1 cache."""


LOOP_NAMES = ("p", "q", "s", "t", "u", "v", "w", "z")
"""Indices of serial loops between a kernel's outermost `row` and its innermost `i`."""


@contextmanager
def rows(k: KernelBuilder, name: str, extent: E, work: Extent) -> Iterator[E]:
    """Open the outermost loop of a kernel that touches `work` elements in all.

    A single row needs no loop.
    """
    if isinstance(extent.node, Const) and extent.node.value == 1:
        yield const(0, Prim.I64)
        return
    kind = LoopKind.PARALLEL if is_large(work) else LoopKind.SERIAL
    with k.loop(name, extent, kind=kind) as row:
        yield row


@contextmanager
def blocks(k: KernelBuilder, extent: E, work: Extent, size: int = BLOCK) -> Iterator[tuple[E, E]]:
    """Open a loop over blocks of a flat range; yields where the block starts and stops.

    Small ranges are one block without a loop around it.
    """
    if not is_large(work):
        yield extent * 0, extent
        return
    count = (extent + (size - 1)) / size
    with k.loop("block", count, kind=LoopKind.PARALLEL) as block:
        start = k.let("start", block * size)
        yield start, k.let("stop", minimum(start + size, extent))


@contextmanager
def each_block(k: KernelBuilder, length: int, blocks: int) -> Iterator[tuple[E, E, E]]:
    """Open the loop over blocks of a range; yields the block, where it starts and stops."""
    kind = LoopKind.PARALLEL if blocks > 1 else LoopKind.SERIAL
    with k.loop("block", blocks, kind=kind) as block:
        yield (
            block,
            k.let("first", block * length / blocks),
            k.let("last", (block + 1) * length / blocks),
        )


def is_large(work: Extent) -> bool:
    """True if `work` elements are worth several threads."""
    return upper(work) >= PARALLEL_WORK


def product_loop(products: Extent) -> LoopKind:
    """Return the kind of the outermost loop of a product that takes `products` multiply-adds."""
    return LoopKind.PARALLEL if upper(products) >= PARALLEL_PRODUCTS else LoopKind.SERIAL


def weights_loop(k: KernelBuilder, products: Extent) -> LoopKind:
    """Return the same for a product of few rows, which takes as long as its weights do.

    Small ones are shared where threads are awake for the rest of a run.
    """
    k.wakes_threads = upper(products) >= WAKING_WEIGHTS
    return LoopKind.PARALLEL if upper(products) >= PARALLEL_WEIGHTS else LoopKind.SERIAL

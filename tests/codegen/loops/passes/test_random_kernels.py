"""Passes on random kernels: loops in loops, overlapping and interleaved accesses, branches."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, Kernel, LoopKind, Prim
from rlx.codegen.loops.passes.fuse_loops import fuse_loops
from rlx.codegen.loops.passes.pipeline import CLEANUP, UNROLLED_FUSION
from rlx.codegen.loops.verify import verify_kernel
from tests.codegen.loops.passes.cases import ELEMENTS, kernel_of, results

PASSES = tuple(dict.fromkeys((*UNROLLED_FUSION, *CLEANUP)))


class Writer:
    """Writes random statements over two arguments and two local buffers."""

    def __init__(self, seed: int, k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        self.random, self.k = random.Random(seed), k
        first, second = (k.local(name, Prim.F64, ELEMENTS) for name in ("first", "second"))
        self.readable, self.writable = [x, y, first, second], [y, first, second]
        self.small = k.local("small", Prim.F64, 3)
        for at in range(3):
            k.store(self.small, at, k.load(x, at))
        with k.loop("i", ELEMENTS) as i:
            for buffer in (first, second):
                k.store(buffer, i, k.load(x, i))
        self.total: Mutable = k.mutable("total", const(0.0, Prim.F64))

    def block(self, around: Sequence[tuple[E, int]], depth: int) -> None:
        known: list[E] = []
        for _ in range(self.random.randint(2, 4)):
            choice = self.random.random()
            if choice < 0.45 and depth < 3:
                self.loop(around, depth)
            elif choice < 0.55:
                known.append(self.k.let("value", self.term(around, known)))
            elif choice < 0.62 and depth:
                with self.k.if_(self.term(around, known) > 0.0):
                    self.store(around, known)
            elif choice < 0.68:
                self.total.set(self.total + self.term(around, known))
            else:
                self.store(around, known)

    def loop(self, around: Sequence[tuple[E, int]], depth: int) -> None:
        extent = self.random.choice((2, 4, 4, 4))
        kind = LoopKind.UNROLL if extent == 2 else LoopKind.SERIAL
        with self.k.loop("n", extent, kind=kind) as n:
            self.block([*around, (n, extent)], depth + 1)

    def store(self, around: Sequence[tuple[E, int]], known: Sequence[E]) -> None:
        value = self.term(around, known) * 0.5 + self.term(around, known) * 0.25
        if self.random.random() < 0.2:
            self.k.store(self.small, self.random.randrange(3), value)
        else:
            self.k.store(self.random.choice(self.writable), self.index(around), value)

    def term(self, around: Sequence[tuple[E, int]], known: Sequence[E]) -> E:
        choice = self.random.random()
        if known and choice < 0.3:
            return self.random.choice(known)
        if choice < 0.4:
            return self.k.load(self.small, self.random.randrange(3))
        if choice < 0.45:
            return self.total * 0.01
        return self.k.load(self.random.choice(self.readable), self.index(around))

    def index(self, around: Sequence[tuple[E, int]]) -> E:
        """Return an index within the buffers, as kernels of planes, rows and columns have them."""
        total, room = const(0, Prim.I64), ELEMENTS - 1
        tidy = self.random.random() < 0.8
        for depth, (at, extent) in enumerate(around):
            usual = 8 if depth == 0 else 1
            factor = usual if tidy else self.random.choice((0, 1, 2, 4, 8))
            if factor * (extent - 1) <= room:
                total, room = total + at * factor, room - factor * (extent - 1)
        return total + self.random.choice((0, 0, 0, 0, 0, room // 8 * 8, room))


def random_kernel(seed: int) -> Kernel:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        writer = Writer(seed, k, x, y)
        writer.block([], 0)
        writer.block([], 0)
        k.store(y, 0, writer.total)
        with k.loop("i", 8) as i:
            k.store(y, i + 8, k.load(writer.readable[2], i * 8))
            k.store(y, i + 16, k.load(writer.readable[3], i * 4))

    return kernel_of(write)


@pytest.mark.parametrize("seed", range(4))
def test_no_pass_changes_what_a_kernel_computes(seed: int) -> None:
    kernel = random_kernel(seed)
    expected = results(kernel)
    for kernel_pass in PASSES:
        after = kernel_pass(kernel)
        verify_kernel(after)
        np.testing.assert_array_equal(results(after), expected, err_msg=str(kernel_pass))


@pytest.mark.parametrize("seed", range(4, 14))
def test_all_passes_in_order_change_nothing_either(seed: int) -> None:
    kernel = random_kernel(seed)
    after = kernel
    for kernel_pass in UNROLLED_FUSION:
        after = kernel_pass(after)
        verify_kernel(after)
    np.testing.assert_array_equal(results(after), results(kernel))


def test_random_kernels_hold_loops_that_fuse_and_loops_that_do_not() -> None:
    kernels = [random_kernel(seed) for seed in range(24)]
    fused = sum(fuse_loops(kernel) is not kernel for kernel in kernels)
    assert 5 < fused < 24

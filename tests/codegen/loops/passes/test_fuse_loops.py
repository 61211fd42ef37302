"""Loop fusion: loops over one range become one, unless an iteration needs another's results."""

from __future__ import annotations

import pytest

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Buffer, Prim, Status
from rlx.codegen.loops.passes.fuse_loops import fuse_loops
from tests.codegen.loops.passes.cases import after, check, unchanged


@after(fuse_loops).gives("""
    local scratch: f64[8]
    for i in 0 .. 8:
      scratch[i] = x[i] * 2.0
      y[i] = scratch[i] + 1.0
""")
def test_loops_that_keep_to_their_elements_become_one(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    scratch = k.local("scratch", Prim.F64, 8)
    with k.loop("i", 8) as i:
        k.store(scratch, i, k.load(x, i) * 2.0)
    with k.loop("j", 8) as j:
        k.store(y, j, k.load(scratch, j) + 1.0)


@after(fuse_loops).gives("""
    local rows: f64[32]
    local planes: f64[32]
    for i in 0 .. 8:
      for a in 0 .. 4:
        rows[i * 4 + a] = x[a]
        planes[a * 8 + i] = x[i]
      for b in 0 .. 4:
        y[b + i * 4] = rows[i * 4 + 3] * planes[i + 8] + planes[b * 8 + i]
""")
def test_rows_and_interleaved_elements_are_distinguished(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    """Row i is elements [4i, 4i + 4); in the other half, element i of each of four planes."""
    rows, planes = k.local("rows", Prim.F64, 32), k.local("planes", Prim.F64, 32)
    with k.loop("i", 8) as i, k.loop("a", 4) as a:
        k.store(rows, i * 4 + a, k.load(x, a))
        k.store(planes, a * 8 + i, k.load(x, i))
    with k.loop("j", 8) as j, k.loop("b", 4) as b:
        last = k.load(rows, j * 4 + 3) * k.load(planes, j + 8)
        k.store(y, b + j * 4, last + k.load(planes, b * 8 + j))


def test_statements_between_fused_loops_move_before_or_after() -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        scratch = k.local("scratch", Prim.F64, 8)
        with k.loop("i", 8) as i:
            k.store(scratch, i, k.load(x, i))
        k.store(y, 40, k.load(x, 0))
        last = k.let("last", k.load(scratch, 7))
        k.store(y, 41, last)
        with k.loop("j", 8) as j:
            k.store(scratch, j, k.load(scratch, j) * 2.0)
        k.store(y, 0, k.load(scratch, 1))

    unchanged(fuse_loops, write)  # `last` reads what the second loop replaces

    def movable(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        scratch = k.local("scratch", Prim.F64, 8)
        other = k.local("other", Prim.F64, 8)
        with k.loop("i", 8) as i:
            k.store(scratch, i, k.load(x, i))
        k.store(y, 40, k.load(x, 0))
        k.store(y, 41, k.load(scratch, 7))
        with k.loop("j", 8) as j:
            k.store(other, j, k.load(scratch, j) * 2.0)
        k.store(y, 0, k.load(other, 1))

    check(
        fuse_loops,
        movable,
        """
        local scratch: f64[8]
        local other: f64[8]
        y[40] = x[0]
        for i in 0 .. 8:
          scratch[i] = x[i]
          other[i] = scratch[i] * 2.0
        y[41] = scratch[7]
        y[0] = other[1]
        """,
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda k, t, j: k.load(t, j + 1),
        lambda k, t, j: k.load(t, 7 - j),
        lambda k, t, j: k.load(t, j * 0),
        lambda k, t, j: k.load(t, (j * 3) % 8),
        lambda k, t, j: k.load(t, j * 2),
        lambda k, t, j: k.load(t, j, 2).lane(1),
    ],
    ids=["next", "reversed", "first", "scattered", "strided", "vector"],
)
def test_loops_of_which_one_reads_what_another_iteration_wrote_stay(read: object) -> None:
    def write(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
        scratch = k.local("scratch", Prim.F64, 16)
        with k.loop("i", 8) as i:
            k.store(scratch, i, k.load(x, i))
        with k.loop("j", 8) as j:
            value: E = read(k, scratch, j)  # type: ignore[operator]
            k.store(y, j, value)

    unchanged(fuse_loops, write)


@after(fuse_loops).changes_nothing()
def test_loops_over_other_ranges_and_those_that_fail_stay(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 8) as i:
        k.store(y, i, k.load(x, i))
    with k.loop("j", 9) as j:
        k.store(y, j + 10, k.load(x, j))
    with k.loop("p", 8) as p, k.if_(k.load(x, p) > 9.0):
        k.fail(Status.INDEX_OUT_OF_RANGE, p)


@after(fuse_loops).changes_nothing()
def test_loops_that_share_a_variable_stay(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    total = k.mutable("total", k.load(x, 0))
    with k.loop("i", 8) as i:
        total.set(total + k.load(x, i))
    with k.loop("j", 8) as j:
        k.store(y, j, total * k.load(x, j))


@after(fuse_loops).changes_nothing(may_alias=True)
def test_arguments_that_may_be_one_array_keep_loops_apart(
    k: KernelBuilder, x: Buffer, y: Buffer
) -> None:
    with k.loop("i", 8) as i:
        k.store(y, i, 1.0)
    with k.loop("j", 8) as j:
        k.store(y, j + 16, k.load(x, j))


@after(fuse_loops).changes_nothing()
def test_loops_of_no_trips_stay_as_they_are(k: KernelBuilder, x: Buffer, y: Buffer) -> None:
    scratch = k.local("scratch", Prim.F64, 8)
    with k.loop("i", 0) as i:
        k.store(scratch, i, k.load(x, i) * 2.0)
    with k.loop("j", 0) as j:
        k.store(y, j, k.load(scratch, j) + 1.0)

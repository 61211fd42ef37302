"""Calls of LAPACK for the eigenvalues of large general matrices.

A matrix without imaginary parts goes to the routine for real ones, so that real eigenvalues are
exactly real and pairs are conjugate, as of the generated kernel, which shares what comes before
and after.
"""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.eigenproblem import Eigenproblem
from rlx.codegen.kernels.linalg.eigenvalues import EigenResults, eig_groups, eig_sizes
from rlx.codegen.kernels.linalg.lapack import BLOCK, Room, Slice, call, integer, needs_room, slices
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, maximum, minimum, select
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.lowering import Library
from rlx.ir.types import TensorType


@needs_room("eig")
def _room(a: TensorType, **_: object) -> Room:
    n, own = eig_sizes(a)
    return Room({"own": own, "matrix": 2 * n * n, "vectors": 2 * n * n, "values": 2 * n,
                 "work": 2 * (BLOCK + 2) * n, "real_work": 2 * n})  # fmt: skip


@kernel("eig", lowering=Library)
def eig_by_lapack(scope: Scope, a: Reader, w: Writer, v: Writer, *, lowering: Library) -> None:
    """Find a triangle and its vectors by `geev`."""
    del lowering
    k, (n, _) = scope.k, eig_sizes(a.type)
    source, values_of, vectors_of = eig_groups(a, w, v)
    with slices(scope, a.type, _room(a.type)) as slice_:
        problem = Eigenproblem.at(k, slice_.memory, slice_.at("own"), n)
        scale, rest, is_real = problem.read(source.at(slice_.number))
        poison = k.mutable("poison", rest)
        with k.if_(is_real & rest.eq(0.0)):
            poison.set(select(_real(slice_, problem).ne(0), math.nan, poison))
        with k.else_(), k.if_(rest.eq(0.0)):
            poison.set(select(_complex(slice_, problem).ne(0), math.nan, poison))
        number = slice_.number
        results = EigenResults(values_of.at(number), vectors_of.at(number), scale, poison, is_real)
        with k.loop("c", n) as c:
            value = problem.matrix.entry("value", c, c)
            _take(slice_, problem, c, value[1], is_real)
            results.write(problem, c, value)


def _real(slice_: Slice, problem: Eigenproblem) -> E:
    """Decompose the real parts; leave the values on the diagonal."""
    k, memory, n = slice_.k, slice_.memory, problem.n
    with k.loop("i", n) as i, k.loop("j", n) as j:
        k.store(memory, slice_.at("matrix") + j * n + i, problem.matrix.load(i, j)[0])
    extent = integer(k, "extent", n)
    values = slice_.at("values")
    imaginary = k.address(memory, values + n, writable=True)
    args = [extent, slice_.array("matrix"), extent, slice_.array("values"), imaginary,
            slice_.array("own"), extent, slice_.array("vectors"), extent,
            slice_.array("work"), slice_.room_of("work")]  # fmt: skip
    verdict = call(k, "geev", memory.prim, "NV", args)
    with k.loop("i", n) as i:
        value = k.load(memory, values + i), k.load(memory, values + n + i)
        problem.matrix.store(i, i, value)
    return verdict


def _complex(slice_: Slice, problem: Eigenproblem) -> E:
    """Decompose complex numbers, whose parts are interleaved; leave the values as `_real` does."""
    k, memory, n = slice_.k, slice_.memory, problem.n
    with k.loop("i", n) as i, k.loop("j", n) as j:
        for part, x in enumerate(problem.matrix.load(i, j)):
            k.store(memory, slice_.at("matrix") + 2 * (j * n + i) + part, x)
    extent = integer(k, "extent", n)
    numbers = integer(k, "numbers", slice_.room.counts["work"] // 2)
    args = [extent, slice_.array("matrix"), extent, slice_.array("values"),
            slice_.array("own"), extent, slice_.array("vectors"), extent,
            slice_.array("work"), numbers, slice_.array("real_work")]  # fmt: skip
    verdict = call(k, "geev", memory.prim, "NV", args, is_complex=True)
    with k.loop("i", n) as i:
        at = slice_.at("values") + i * 2
        problem.matrix.store(i, i, (k.load(memory, at), k.load(memory, at + 1)))
    return verdict


def _take(slice_: Slice, problem: Eigenproblem, c: E, height: E, is_real: E) -> None:
    """Copy vector c: of a real matrix, a pair shares two columns, real and imaginary parts."""
    k, memory, n = slice_.k, slice_.memory, problem.n
    vectors = slice_.at("vectors")
    with k.if_(is_real):
        # the value with the positive imaginary part comes first
        before, after = select(height < 0.0, c - 1, c), select(height > 0.0, c + 1, c)
        first = k.let("first", maximum(before, 0) * n)
        second = k.let("second", minimum(after, n - 1) * n)
        sign = k.let("sign", select(height < 0.0, -1.0, select(height > 0.0, 1.0, height)))
        with k.loop("i", n, kind=LoopKind.SIMD) as i:
            re = k.load(memory, vectors + first + i)
            im = k.load(memory, vectors + second + i) * sign
            problem.vector.store(0, i, (re, im))
    with k.else_(), k.loop("i", n) as i:
        at = k.let("at", vectors + (c * n + i) * 2)
        problem.vector.store(0, i, (k.load(memory, at), k.load(memory, at + 1)))

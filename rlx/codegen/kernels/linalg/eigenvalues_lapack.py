"""Calls of LAPACK for the eigenvalues of large general matrices.

A matrix without imaginary parts goes to the routine for real ones, so that real eigenvalues are
exactly real and pairs are conjugate, as of the generated kernel, which shares what comes before
and after.
"""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.eigenproblem import Eigenproblem
from rlx.codegen.kernels.linalg.eigenvalues import EigenResults, eig_sizes
from rlx.codegen.kernels.linalg.lapack import (
    BLOCK,
    Room,
    Slice,
    needs_room,
    slices,
)
from rlx.codegen.kernels.linalg.rows import Rows, matrices_of, vectors_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import Complex
from rlx.codegen.loops.builder import Mutable
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
def eig_by_lapack(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """Find a triangle and its vectors by `geev`."""
    k, (n, _) = scope.k, eig_sizes(a.type)
    source, values, vectors = matrices_of(a), vectors_of(w), matrices_of(v)
    with slices(scope, a.type, _room(a.type)) as slice_:
        problem = Eigenproblem.at(k, slice_.memory, slice_.at("own"), n)
        scale, rest, is_real = problem.read(source.at(slice_.number))
        poison = k.mutable("poison", rest)
        with k.if_(is_real & rest.eq(0.0)):
            _decompose(slice_, problem, poison, is_complex=False)
        with k.else_(), k.if_(rest.eq(0.0)):
            _decompose(slice_, problem, poison, is_complex=True)
        number = slice_.number
        results = EigenResults(values.at(number), vectors.at(number), scale, poison, is_real)
        with k.loop("c", n) as c:
            value = problem.matrix.entry("value", c, c)
            _take(slice_, problem, c, value.im, is_real)
            results.write(problem, c, value)


def _decompose(slice_: Slice, problem: Eigenproblem, poison: Mutable, *, is_complex: bool) -> None:
    """Decompose the matrix, or its real parts; leave the values on the diagonal."""
    k, memory, n = slice_.k, slice_.memory, problem.n
    columns = Rows(k, memory, slice_.at("matrix"), n, 1 + is_complex)
    with k.loop("i", n) as i, k.loop("j", n) as j:
        entry = problem.matrix.load(i, j)
        columns.store(j, i, entry if is_complex else entry.re)
    values, (imaginary, real) = slice_.at("values"), ("", "real_work") if is_complex else ("im", "")
    verdict = slice_.call(
        "geev",
        "NV",
        f"n matrix n values {imaginary} own n vectors n work work_extent {real}",
        is_complex=is_complex,
        n=n,
        im=k.address(memory, values + n, writable=True),
        work_extent=slice_.room.counts["work"] // (1 + is_complex),
    )
    first, second = (2, 1) if is_complex else (1, n)
    with k.loop("i", n) as i:
        at = values + i * first
        problem.matrix.store(i, i, Complex(k.load(memory, at), k.load(memory, at + second)))
    poison.set(select(verdict.ne(0), math.nan, poison))


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
            problem.vector.store(0, i, Complex(re, im))
    with k.else_(), k.loop("i", n) as i:
        at = k.let("at", vectors + (c * n + i) * 2)
        problem.vector.store(0, i, Complex(k.load(memory, at), k.load(memory, at + 1)))

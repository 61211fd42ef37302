"""The kernel of Schur's form: the triangle that eigenvalues are read from, and its basis.

The steps are those of `eigenvalues`, without balancing, which is no unitary change. Neighbors on
the diagonal are then exchanged until they ascend.
"""

from __future__ import annotations

import math

from rlx.codegen.kernels import values
from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.complex_matrix import subtract, turning
from rlx.codegen.kernels.linalg.eigenvalues import (
    Eigenproblem,
    eig_scratch,
    eig_sizes,
)
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.complex_scalar import Complex, multiply
from rlx.codegen.loops.expr import E, select
from rlx.errors import InternalError
from rlx.ir.shape import product

scratch("schur")(eig_scratch)


@kernel("schur")
def schur(scope: Scope, a: Reader, t: Writer, z: Writer) -> None:
    """Turn axes until the matrix is a triangle, and its diagonal ascends."""
    k = scope.k
    n, each = eig_sizes(a.type)
    rank = len(a.shape)
    groups = tuple(range(rank - 2)), (rank - 2,), (rank - 1,)
    source, triangles, bases = a.grouped(groups), t.grouped(groups), z.grouped(groups)
    if scope.scratch is None:
        raise InternalError("Schur's form needs scratch")
    with rows(k, "slice", scope.extents(product(a.shape[:-2])), a.type.elements * 64) as number:
        problem = Eigenproblem.at(k, scope.scratch, number * each, n)
        scale, rest, _ = problem.read(source.at(number))
        problem.axes.fill_identity()
        problem.reduce()
        done = problem.iterate()
        poison = k.let("poison", select(done, rest, problem.matrix.number(math.nan)))
        _sort_diagonal(problem)
        _find_directions(problem)
        with k.loop("i", n) as i, k.loop("j", n) as j:
            own, other = problem.inside.load(0, i), problem.inside.entry("other", 0, j)
            entry = problem.matrix.entry("entry", i, j)
            turned = problem.matrix.named(
                "turned", multiply(multiply((own[0], -own[1]), entry), other)
            )
            # The diagonal stays as it is: what is real stays so. Below it there are zeros.
            kept = k.let("kept", select(i > j, 0.0, scale))
            re, im = (select(i.eq(j), x, y) * kept for x, y in zip(entry, turned, strict=True))
            triangles.at(number).write(i, j, value=values.Complex(re + poison, im + poison))
            re, im = problem.matrix.named("z", multiply(problem.axes.load(j, i), other))
            bases.at(number).write(i, j, value=values.Complex(re + poison, im + poison))


def _sort_diagonal(problem: Eigenproblem) -> None:
    """Exchange neighbors of the diagonal until they ascend by real, then imaginary parts."""
    k, m = problem.k, problem.matrix
    with k.loop("passed", problem.n) as passed, k.loop("p", problem.n - 1 - passed) as p:
        first, second = m.entry("first", p, p), m.entry("second", p + 1, p + 1)
        is_below = second[0].eq(first[0]) & (second[1] < first[1])
        with k.if_((second[0] < first[0]) | is_below):
            _exchange(problem, p, first, second)


def _exchange(problem: Eigenproblem, p: E, first: Complex, second: Complex) -> None:
    """Exchange two neighbors of the diagonal, p and p + 1."""
    m = problem.matrix
    apart = m.named("apart", subtract(second, first))
    turn, _ = turning(m, m.entry("beside", p, p + 1), apart)
    problem.turn_axes(p, turn, p, p + 2)
    m.store(p, p, second)
    m.store(p + 1, p, m.zero)
    m.store(p + 1, p + 1, first)


def _find_directions(problem: Eigenproblem) -> None:
    """Leave beside the matrix what makes the largest component of each axis positive."""
    k, axes = problem.k, problem.axes
    with k.loop("c", problem.n) as c:
        with k.loop("i", problem.n) as i:
            problem.vector.store(0, i, axes.load(c, i))
        problem.inside.store(0, c, problem.direction()[0])

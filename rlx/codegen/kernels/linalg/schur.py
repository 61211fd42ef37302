"""The kernel of Schur's form: the triangle that eigenvalues are read from, and its basis.

The steps are those of `eigenvalues`, without balancing, which is no unitary change. Complex
neighbors on the diagonal are then exchanged until they ascend. A real matrix stays real: pairs of
complex eigenvalues stay blocks of two, with equal entries on the diagonal.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import moved
from rlx.codegen.kernels.linalg.complex_matrix import choose, turning
from rlx.codegen.kernels.linalg.eigenproblem import Eigenproblem
from rlx.codegen.kernels.linalg.eigenvalues import eig_scratch, triangles
from rlx.codegen.kernels.linalg.rows import matrices_of
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.values import Complex
from rlx.codegen.loops.expr import E, select
from rlx.codegen.loops.nodes import UnaryOp

scratch("schur")(eig_scratch)


@kernel("schur")
def schur(scope: Scope, a: Reader, t: Writer, z: Writer) -> None:
    """QR iteration to Schur form; the diagonal of a complex one is sorted in ascending order."""
    k, is_complex = scope.k, a.type.dtype.is_complex
    solve_pair = Eigenproblem.solve_pair if is_complex else _solve_real_pair
    with triangles(scope, a, balanced=False, solve_pair=solve_pair) as found:
        problem, poison = found.problem, found.poison
        triangle, basis = (matrices_of(each).at(found.number) for each in (t, z))
        if is_complex:
            _sort_diagonal(problem)
        _find_directions(problem)
        with k.loop("i", problem.n) as i, k.loop("j", problem.n) as j:
            own, other = problem.inside.load(0, i), problem.inside.entry("other", 0, j)
            entry = problem.matrix.entry("entry", i, j)
            turned = problem.matrix.named("turned", own.conjugate() * entry * other)
            # The diagonal stays as it is: what is real stays so. Below it there are zeros.
            last = j if is_complex else j + 1
            kept = k.let("kept", select(i > last, 0.0, found.scale))
            entry_there = choose(i.eq(j), entry, turned) * kept
            axis = problem.matrix.named("z", problem.axes.load(j, i) * other)
            for writer, value in ((triangle, entry_there), (basis, axis)):
                writer.write(i, j, value=moved(value if is_complex else value.re, poison))


def _solve_real_pair(problem: Eigenproblem, low: E) -> None:
    """Rotate a real 2x2 block: to a triangle for real eigenvalues, else to an equal diagonal."""
    k, m = problem.k, problem.matrix
    a, b = m.load(low, low).re, m.load(low, low + 1).re
    c, d = m.load(low + 1, low).re, m.load(low + 1, low + 1).re
    half, middle = k.let("half", (a - d) * 0.5), k.let("middle", (a + d) * 0.5)
    both, apart = k.let("both", (b + c) * 0.5), k.let("apart", b - c)
    with k.if_(half * half + b * c < 0.0):
        _make_diagonal_equal(problem, low, half, both, apart)
        for at in (low, low + 1):
            m.store(at, at, m.real(middle))
    with k.else_():
        problem.solve_pair(low)


def _make_diagonal_equal(problem: Eigenproblem, low: E, half: E, both: E, apart: E) -> None:
    """Rotate by half the angle of tangent `-half / both`; the larger entry goes above."""
    k, m = problem.k, problem.matrix
    length = k.let("length", (half * half + both * both).unary(UnaryOp.SQRT))
    is_done = k.let("is_done", length.eq(0.0))
    signed = k.let("signed", select(apart < 0.0, -length, length))
    safe = k.let("safe", select(is_done, m.number(1.0), signed))
    double = k.let("double", select(is_done, m.number(1.0), both / safe))
    large = k.let("large", ((abs(double) + 1.0) * 0.5).unary(UnaryOp.SQRT))
    small = k.let("small", -half / safe / (large * 2.0))
    is_steep = double < 0.0
    cosine = k.let("cosine", select(is_steep, small, large))
    sine = k.let("sine", select(is_steep, large, small))
    turn, _ = turning(m, m.real(cosine), m.real(sine))
    problem.turn_axes(low, turn, low, low + 2)


def _sort_diagonal(problem: Eigenproblem) -> None:
    """Exchange neighbors of the diagonal until they ascend by real, then imaginary parts."""
    k, m = problem.k, problem.matrix
    with k.loop("passed", problem.n) as passed, k.loop("p", problem.n - 1 - passed) as p:
        first, second = m.entry("first", p, p), m.entry("second", p + 1, p + 1)
        is_below = second.re.eq(first.re) & (second.im < first.im)
        with k.if_((second.re < first.re) | is_below):
            _exchange(problem, p, first, second)


def _exchange(problem: Eigenproblem, p: E, first: Complex, second: Complex) -> None:
    """Exchange two neighbors of the diagonal, p and p + 1."""
    m = problem.matrix
    apart = m.named("apart", second - first)
    turn, _ = turning(m, m.entry("above", p, p + 1), apart)
    problem.turn_axes(p, turn, p, p + 2)
    m.store(p, p, second)
    m.store(p + 1, p, m.zero)
    m.store(p + 1, p + 1, first)


def _find_directions(problem: Eigenproblem) -> None:
    """Store next to the matrix what makes the largest component of each axis positive."""
    k, axes = problem.k, problem.axes
    with k.loop("c", problem.n) as c:
        with k.loop("i", problem.n) as i:
            problem.vector.store(0, i, axes.load(c, i))
        problem.inside.store(0, c, problem.direction()[0])

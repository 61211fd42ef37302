"""One general complex matrix in scratch: balancing, Hessenberg form, QR iteration.

A matrix is scaled, balanced, reduced to Hessenberg form and then to a triangle by Francis's
iteration with two shifts, all by turns of two axes. Real matrices stay real until a pair of
complex eigenvalues is split, so that real eigenvalues are exactly real and pairs are conjugate.
The vectors follow from the triangle by substitution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedReader
from rlx.codegen.kernels.linalg.arithmetic import Variable, is_zero, size, squared
from rlx.codegen.kernels.linalg.complex_matrix import Matrix, Turn, choose, turning
from rlx.codegen.kernels.values import Complex, complex_of, parts_of
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.complex_functions import named_square_root
from rlx.codegen.loops.expr import E, index, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, UnaryOp
from rlx.dataclass import dataclass

SolvePair: TypeAlias = "Callable[[Eigenproblem, E], None]"
"""What is done with the block of two axes that begins at one."""
_MOST_ITERATIONS = 30
"""Per eigenvalue; two or three do."""
_MOST_BALANCINGS = 20
_RESCALED_BEYOND = 1e6
"""Size of a component beyond which a vector is scaled down while it is substituted."""
_ALMOST_LARGEST = 1.0 - 2.0**-10
"""Squared sizes of components that count as equal to the largest."""


@dataclass(frozen=True, slots=True)
class Eigenproblem:
    """One matrix: the triangular factor, the Schur vectors as rows, and a work vector."""

    matrix: Matrix
    axes: Matrix
    inside: Matrix
    vector: Matrix
    factors: E
    """Offset of the balancing factor of each axis."""

    @classmethod
    def at(cls, k: KernelBuilder, buffer: Buffer, first: E, n: int) -> Eigenproblem:
        square, row = 2 * n * n, 2 * n
        rows_at = first + 2 * square
        return cls(
            Matrix(k, buffer, first, n, n),
            Matrix(k, buffer, first + square, n, n),
            Matrix(k, buffer, rows_at, 1, n),
            Matrix(k, buffer, rows_at + row, 1, n),
            rows_at + 2 * row,
        )

    @property
    def k(self) -> KernelBuilder:
        return self.matrix.k

    @property
    def n(self) -> int:
        return self.matrix.width

    # To a triangle

    def read(self, source: GroupedReader) -> tuple[E, E, E]:
        """Read it, scaled; return the scale, NaN unless all is finite, and whether it is real."""
        k, m = self.k, self.matrix
        largest, height, rest = (k.mutable(name, m.number(0.0)) for name in ("size", "im", "rest"))
        with k.loop("i", self.n) as i, k.loop("j", self.n) as j:
            value = source.read(i, j)
            x = m.named("x", value if isinstance(value, Complex) else m.real(value))
            m.store(i, j, x)
            re, im = parts_of(x)
            largest.set(maximum(largest, maximum(abs(re), abs(im))))
            height.set(maximum(height, abs(im)))
            rest.set(rest + (re - re) + (im - im))
        scale = k.let("scale", select(largest > 0.0, largest, m.number(1.0)))
        with k.loop("i", self.n) as i, k.loop("j", self.n, kind=LoopKind.SIMD) as j:
            m.store(i, j, m.load(i, j) / scale)
        return scale, k.let("finite", rest), k.let("is_real", height.eq(0.0))

    def balance(self) -> None:
        """Scale axes by powers of two until rows and columns are of about equal size."""
        k, m = self.k, self.matrix
        with k.loop("i", self.n) as i:
            k.store(m.buffer, self.factors + i, m.number(1.0))
        changed, count = k.mutable("changed", index(1)), k.mutable("balancings", index(0))
        with k.while_(changed.ne(0) & (count < _MOST_BALANCINGS)):
            changed.set(0)
            count.set(count + 1)
            with k.loop("i", self.n) as i:
                self._balance_axis(i, changed)

    def _balance_axis(self, i: E, changed: Mutable) -> None:
        k, m = self.k, self.matrix
        column, row = k.mutable("column", m.number(0.0)), k.mutable("row", m.number(0.0))
        with k.loop("j", self.n) as j:
            column.set(column + size(m.load(j, i)))
            row.set(row + size(m.load(i, j)))
        both, factor = k.let("both", column + row), k.mutable("factor", m.number(1.0))
        present = k.let("present", (column > 0.0) & (row > 0.0))
        with k.while_(present & (column < row * 0.5)):
            factor.set(factor * 2.0)
            column.set(column * 4.0)
        with k.while_(present & (column >= row * 2.0)):
            factor.set(factor * 0.5)
            column.set(column * 0.25)
        with k.if_(present & ((column + row) < both * factor * 0.95)):
            changed.set(1)
            at = self.factors + i
            k.store(m.buffer, at, k.load(m.buffer, at) * factor)
            with k.loop("j", self.n) as j:
                m.store(i, j, m.load(i, j) * (1.0 / factor))
            with k.loop("j", self.n) as j:
                m.store(j, i, m.load(j, i) * factor)

    def reduce(self) -> None:
        """Make the matrix zero below the first subdiagonal (Hessenberg form)."""
        k, m = self.k, self.matrix
        with k.loop("c", self.n - 2) as c, k.loop("back", self.n - 2 - c) as back:
            r = k.let("r", self.n - 1 - back)
            lower = m.entry("y", r, c)
            with k.if_(size(lower) > 0.0):
                turn, _ = turning(m, m.entry("x", r - 1, c), lower)
                self.turn_axes(r - 1, turn, c, self.n)
                m.store(r, c, m.zero)

    def turn_axes(self, p: E, turn: Turn, start: E, stop: E | int) -> None:
        """Rotate axes p and p + 1 of the matrix: rows from `start` on, columns up to `stop`."""
        self.matrix.turn_rows(p, turn, start)
        self.matrix.turn_columns(p, turn.conjugate(), stop)
        self.axes.turn_rows(p, turn.conjugate())

    def iterate(self, solve_pair: SolvePair) -> E:
        """Make a Hessenberg matrix a triangle; return whether all eigenvalues were found."""
        k = self.k
        high = k.mutable("high", index(self.n - 1))
        since, total = k.mutable("since", index(0)), k.mutable("total", index(0))
        with k.while_((high >= 0) & (total < _MOST_ITERATIONS * self.n)):
            last = k.let("last", high + 0)
            low = self._split_off(last)
            with k.if_(low.eq(last)):
                high.set(last - 1)
                since.set(0)
            with k.else_():
                with k.if_((low + 1).eq(last)):
                    solve_pair(self, low)
                    high.set(last - 2)
                    since.set(0)
                with k.else_():
                    since.set(since + 1)
                    total.set(total + 1)
                    self._sweep(low, last, *self._start(low, last, (since % 10).eq(0)))
        return k.let("done", high < 0)

    def _split_off(self, last: E) -> E:
        """Return where the last block begins that is not split by a negligible entry."""
        k, m = self.k, self.matrix
        low = k.mutable("low", index(0))
        with k.loop("i", last + 1, start=1) as i:
            scale = k.let("scale", size(m.load(i - 1, i - 1)) + size(m.load(i, i)))
            reference = select(scale.eq(0.0), m.number(1.0), scale)
            with k.if_(~(size(m.load(i, i - 1)) > reference * m.epsilon)):
                low.set(i)
                m.store(i, i - 1, m.zero)
        return k.let("first", low + 0)

    def _start(self, low: E, last: E, exceptional: E) -> tuple[Complex, Complex, Complex]:
        """Return the first column of `(h - s1)(h - s2)`, the shifts being those of the last pair.

        It is divided by the first subdiagonal entry. Now and then other shifts end a cycle.
        """
        m = self.matrix
        below = m.entry("below", last, last - 1)
        scale = self.k.let("size", size(below) + size(m.load(last - 1, last - 2)))
        corner, before = m.load(last, last), m.load(last - 1, last - 1)
        across = below * m.load(last - 1, last)
        other = Complex(corner.re + scale * 0.75, corner.im)
        corner, before = choose(exceptional, other, corner), choose(exceptional, other, before)
        across = choose(exceptional, m.real(scale * scale * -0.4375), across)
        top = m.entry("top", low, low)
        r, s = m.named("r", corner - top), m.named("s", before - top)
        numerator = m.named("numerator", r * s - across)
        x = numerator / m.entry("first", low + 1, low) + m.load(low, low + 1)
        y = m.load(low + 1, low + 1) - top - (r + s)
        return m.named("x", x), m.named("y", y), m.entry("z", low + 2, low + 1)

    def _sweep(self, low: E, last: E, *start: Complex) -> None:
        """Rotate the first axes onto `start`, and chase the bulge down the diagonal."""
        k, m = self.k, self.matrix
        x, y, z = (Variable.of(k, name, part) for name, part in zip("xyz", start, strict=True))
        with k.loop("c", last, start=low) as c:
            has_third = k.let("has_third", c + 2 <= last)
            column = k.let("column", select(c > low, c - 1, low))
            stop = k.let("stop", minimum(c + 4, last + 1))
            with k.if_(c > low):
                x.set(m.load(c, column))
                y.set(m.load(c + 1, column))
            with k.if_(has_third & (c > low)):
                z.set(m.load(c + 2, column))
            with k.if_(has_third):
                turn, length = turning(m, complex_of(y.value), complex_of(z.value))
                self.turn_axes(c + 1, turn, column, stop)
                y.set(m.real(length))
            turn, _ = turning(m, complex_of(x.value), complex_of(y.value))
            self.turn_axes(c, turn, column, stop)
            with k.if_(c > low):
                m.store(c + 1, column, m.zero)
            with k.if_(has_third & (c > low)):
                m.store(c + 2, column, m.zero)

    def solve_pair(self, low: E) -> None:
        """Rotate a block of two axes so that its eigenvalues are on the diagonal."""
        m = self.matrix
        a, b = m.entry("a", low, low), m.entry("b", low, low + 1)
        c, d = m.entry("c", low + 1, low), m.entry("d", low + 1, low + 1)
        half = m.named("half", (a - d) * 0.5)
        across = m.named("across", b * c)
        square = m.named("square", half * half + across)
        root = m.named("root", Complex(*named_square_root(parts_of(square))))
        opposed = half.re * root.re + half.im * root.im < 0.0
        root = m.named("way", choose(opposed, root * -1.0, root))
        moved = m.named("moved", half + root)  # the larger of the two roots
        middle = (a + d) * 0.5
        is_pair = root.re.eq(0.0) & half.im.eq(0.0)  # of conjugates, if the block is real
        safe = choose(is_zero(moved), m.real(m.number(1.0)), moved)
        first = m.named("first", choose(is_pair, middle + root, d + moved))
        apart = d - across / safe
        second = m.named("second", choose(is_pair, middle - root, apart))
        turn, _ = turning(m, moved, c)
        self.turn_axes(low, turn, low, low + 2)
        m.store(low, low, first)
        m.store(low + 1, low, m.zero)
        m.store(low + 1, low + 1, second)

    # From the triangle

    def norm(self) -> E:
        k, m = self.k, self.matrix
        norm = k.mutable("norm", m.number(0.0))
        with k.loop("i", self.n) as i, k.loop("j", self.n, start=i) as j:
            norm.set(maximum(norm, size(m.load(i, j))))
        return k.let("largest", select(norm > 0.0, norm, m.number(1.0)))

    def place(self, value: Complex, c: E) -> E:
        """Return how many eigenvalues come before one, by real and then by imaginary parts."""
        k, m = self.k, self.matrix
        count = k.mutable("count", index(0))
        with k.loop("j", self.n) as j:
            re, im = parts_of(m.entry("other", j, j))
            first = (im < value.im) | (im.eq(value.im) & (j < c))
            is_before = (re < value.re) | (re.eq(value.re) & first)
            count.set(count + select(is_before, index(1), index(0)))
        return k.let("before", count + 0)

    def substitute(self, c: E, value: Complex, norm: E) -> None:
        """Find the eigenvector of the triangle for its diagonal entry c."""
        k, m, x = self.k, self.matrix, self.inside
        epsilon = m.epsilon
        least = k.let("least", maximum(size(value), norm * epsilon) * epsilon)
        x.store(0, c, m.real(m.number(1.0)))
        with k.loop("back", c) as back:
            i = k.let("i", c - 1 - back)
            total = Variable.of(k, "total", m.zero)
            folded = [(part, BinaryOp.ADD) for part in total.parts]
            with k.loop("j", c + 1, start=i + 1, kind=LoopKind.SIMD, accumulators=folded) as j:
                total.set(total.value + m.entry("t", i, j) * x.entry("xj", 0, j))
            gap = m.named("gap", value - m.load(i, i))
            safe = choose(size(gap) < least, m.real(least), gap)
            component = m.named("component", complex_of(total.value) / m.named("divisor", safe))
            x.store(0, i, component)
            length = k.let("size", size(component))
            with k.if_(length > _RESCALED_BEYOND), k.loop("j", c + 1, start=i) as j:
                x.store(0, j, x.load(0, j) * (1.0 / length))

    def turn_back(self, c: E) -> None:
        """Transform the vector to the basis of the input matrix."""
        k, v = self.k, self.vector
        with k.loop("i", self.n) as i:
            v.store(0, i, v.zero)
        with k.loop("j", c + 1) as j:
            factor = self.inside.entry("factor", 0, j)
            with k.loop("i", self.n, kind=LoopKind.SIMD) as i:
                added = factor * self.axes.entry("axis", j, i)
                v.store(0, i, v.load(0, i) + added)
        with k.loop("i", self.n) as i:
            factor_of = k.load(v.buffer, self.factors + i)
            v.store(0, i, v.load(0, i) * factor_of)

    def direction(self) -> tuple[Complex, E]:
        """Scale the vector; return what makes its largest component positive, and where it is."""
        k, v = self.k, self.vector
        most, square = k.mutable("size", v.number(0.0)), k.mutable("square", v.number(0.0))
        with k.loop("i", self.n) as i:
            most.set(maximum(most, size(v.load(0, i))))
        inverse = k.let("inverse", 1.0 / select(most > 0.0, most, v.number(1.0)))
        with k.loop("i", self.n) as i:
            component = v.named("component", v.load(0, i) * inverse)
            v.store(0, i, component)
            square.set(maximum(square, squared(component)))
        chosen = k.mutable("chosen", index(0))
        with k.loop("back", self.n) as back:
            i = k.let("i", self.n - 1 - back)
            is_large = squared(v.load(0, i)) >= square * _ALMOST_LARGEST
            chosen.set(select(is_large, i, chosen))
        turn, _ = turning(v, v.entry("largest", 0, chosen), v.zero)
        return turn.a, k.let("place", chosen + 0)

    def turn_positive(self, is_real: E) -> E:
        """Make the largest component of the vector positive; return the vector's length."""
        k, v = self.k, self.vector
        direction, chosen = self.direction()
        total = k.mutable("total", v.number(0.0))
        with k.loop("i", self.n) as i:
            x = v.named("turned", direction * v.load(0, i))
            im = k.let("height", select(is_real | i.eq(chosen), v.number(0.0), x.im))
            v.store(0, i, Complex(x.re, im))
            total.set(total + squared(Complex(x.re, im)))
        return k.let("length", total.unary(UnaryOp.SQRT))

"""The kernel of eigenvalues and eigenvectors of general complex matrices, one slice at a time.

A matrix is scaled, balanced, reduced to Hessenberg form and then to a triangle by Francis's
iteration with two shifts, all by turns of two axes. Real matrices stay real until a pair of
complex eigenvalues is split, so that real eigenvalues are exactly real and pairs are conjugate.
The vectors follow from the triangle by substitution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlx.codegen.kernels import values
from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.complex_scalar import Complex, divide, multiply, square_root
from rlx.codegen.loops.expr import E, const, index, maximum, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, Buffer, LoopKind, UnaryOp
from rlx.errors import InternalError
from rlx.ir.shape import product
from rlx.ir.types import TensorType

_MOST_ITERATIONS = 30
"""Per eigenvalue; two or three do."""
_MOST_BALANCINGS = 20
_RESCALED_BEYOND = 1e6
"""Size of a component beyond which a vector is scaled down while it is substituted."""
_ALMOST_LARGEST = 1.0 - 2.0**-10
"""Squared sizes of components that count as equal to the largest."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The unitary matrix `[[a, b], [-conj(b), conj(a)]]` of two axes."""

    a: Complex
    b: Complex

    def conjugate(self) -> _Turn:
        return _Turn(_conjugate(self.a), _conjugate(self.b))

    def apply(self, p: Complex, q: Complex) -> tuple[Complex, Complex]:
        upper = _add(multiply(self.a, p), multiply(self.b, q))
        back = self.conjugate()
        return upper, _subtract(multiply(back.a, q), multiply(back.b, p))


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Complex rows in scratch: all real parts, then all imaginary ones."""

    k: KernelBuilder
    buffer: Buffer
    first: E
    height: int
    width: int

    def load(self, i: E | int, j: E | int) -> Complex:
        at = self.first + index(i) * self.width + j
        return self.k.load(self.buffer, at), self.k.load(self.buffer, at + self._parts)

    def store(self, i: E | int, j: E | int, value: Complex) -> None:
        at = self.first + index(i) * self.width + j
        self.k.store(self.buffer, at, value[0])
        self.k.store(self.buffer, at + self._parts, value[1])

    @property
    def _parts(self) -> int:
        return self.height * self.width

    def number(self, value: float) -> E:
        return const(value, self.buffer.prim)

    @property
    def zero(self) -> Complex:
        return self.number(0.0), self.number(0.0)

    @property
    def epsilon(self) -> float:
        return float(np.finfo(np.float32 if self.buffer.prim.size == 4 else np.float64).eps)

    def named(self, name: str, value: Complex) -> Complex:
        return self.k.let(f"{name}_re", value[0]), self.k.let(f"{name}_im", value[1])

    def entry(self, name: str, i: E | int, j: E | int) -> Complex:
        return self.named(name, self.load(i, j))

    def variable(self, name: str, value: Complex) -> tuple[Mutable, Mutable]:
        return self.k.mutable(f"{name}_re", value[0]), self.k.mutable(f"{name}_im", value[1])

    def turn_rows(self, p: E, turn: _Turn, start: E | int = 0) -> None:
        """Turn rows p and p + 1, from column `start` on."""
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            upper, lower = turn.apply(self.entry("upper", p, j), self.entry("lower", p + 1, j))
            self.store(p, j, upper)
            self.store(p + 1, j, lower)

    def turn_columns(self, p: E, turn: _Turn, stop: E | int) -> None:
        """Turn columns p and p + 1 back, up to row `stop`."""
        with self.k.loop("i", stop) as i:
            left, right = turn.apply(self.entry("left", i, p), self.entry("right", i, p + 1))
            self.store(i, p, left)
            self.store(i, p + 1, right)

    def fill_identity(self) -> None:
        with self.k.loop("i", self.height) as i:
            with self.k.loop("j", self.width, kind=LoopKind.SIMD) as j:
                self.store(i, j, self.zero)
            self.store(i, i, (self.number(1.0), self.number(0.0)))


def eig_sizes(a: TensorType) -> tuple[int, int]:
    """Return the extent of the matrices, and how many numbers of scratch each one takes."""
    (n, _) = a.with_shape(a.shape[-2:]).static_shape
    return n, 4 * n * n + 5 * n


@scratch("eig")
def eig_scratch(operands: list[TensorType], results: list[TensorType], **_: object) -> int:
    del results
    (a,) = operands
    return a.with_shape((product(a.shape[:-2]), eig_sizes(a)[1])).bytes // 2


@kernel("eig")
def eig(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """Turn axes until the matrix is a triangle, whose diagonal is the eigenvalues."""
    k = scope.k
    n, each = eig_sizes(a.type)
    source, values_of, vectors_of = eig_groups(a, w, v)
    if scope.scratch is None:
        raise InternalError("eigenvalues need scratch")
    with rows(k, "slice", scope.extents(product(a.shape[:-2])), a.type.elements * 64) as number:
        slice_ = Eigenproblem.at(k, scope.scratch, number * each, n)
        scale, poison, is_real = slice_.read(source.at(number))
        slice_.axes.fill_identity()
        slice_.balance()
        slice_.reduce()
        done = slice_.iterate()
        poison = k.let("poison", select(done, poison, slice_.matrix.number(math.nan)))
        norm = slice_.norm()
        results = EigenResults(values_of.at(number), vectors_of.at(number), scale, poison, is_real)
        with k.loop("c", n) as c:
            value = slice_.matrix.entry("value", c, c)
            slice_.substitute(c, value, norm)
            slice_.turn_back(c)
            results.write(slice_, c, value)


def eig_groups(
    a: Reader, w: Writer, v: Writer
) -> tuple[GroupedReader, GroupedWriter, GroupedWriter]:
    """Return matrices, values and vectors by slice."""
    rank = len(a.shape)
    batch, row, column = tuple(range(rank - 2)), (rank - 2,), (rank - 1,)
    return a.grouped((batch, row, column)), w.grouped((batch, row)), v.grouped((batch, row, column))


@dataclass(frozen=True, slots=True)
class EigenResults:
    """Where values and vectors of a slice go, and what they are multiplied by or spoiled with."""

    values: GroupedWriter
    vectors: GroupedWriter
    scale: E
    poison: E
    is_real: E

    def write(self, slice_: Eigenproblem, c: E, value: Complex) -> None:
        """Write value c, an entry of the diagonal, in its place, and the vector beside it."""
        k, poison = slice_.k, self.poison
        place = k.let("place", select(poison.eq(poison), slice_.place(value, c), c))
        scaled = (value[0] * self.scale + poison, value[1] * self.scale + poison)
        self.values.write(place, value=values.Complex(*scaled))
        length = slice_.turn_positive(self.is_real & value[1].eq(0.0))
        with k.loop("i", slice_.n) as i:
            re, im = slice_.vector.load(0, i)
            component = values.Complex(re / length + poison, im / length + poison)
            self.vectors.write(i, place, value=component)


@dataclass(frozen=True, slots=True)
class Eigenproblem:
    """One matrix: what becomes a triangle, the axes as rows, and room for a vector."""

    matrix: _Matrix
    axes: _Matrix
    inside: _Matrix
    vector: _Matrix
    factors: E
    """Where the balancing factor of each axis lies."""

    @classmethod
    def at(cls, k: KernelBuilder, buffer: Buffer, first: E, n: int) -> Eigenproblem:
        square, row = 2 * n * n, 2 * n
        rows_at = first + 2 * square
        return cls(
            _Matrix(k, buffer, first, n, n),
            _Matrix(k, buffer, first + square, n, n),
            _Matrix(k, buffer, rows_at, 1, n),
            _Matrix(k, buffer, rows_at + row, 1, n),
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
            if not isinstance(value, values.Complex):
                raise InternalError("eig reads complex matrices")
            re, im = m.named("x", (value.re, value.im))
            m.store(i, j, (re, im))
            largest.set(maximum(largest, maximum(abs(re), abs(im))))
            height.set(maximum(height, abs(im)))
            rest.set(rest + (re - re) + (im - im))
        scale = k.let("scale", select(largest > 0.0, largest, m.number(1.0)))
        with k.loop("i", self.n) as i, k.loop("j", self.n, kind=LoopKind.SIMD) as j:
            re, im = m.load(i, j)
            m.store(i, j, (re / scale, im / scale))
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
            column.set(column + _size(m.load(j, i)))
            row.set(row + _size(m.load(i, j)))
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
                m.store(i, j, _times(m.load(i, j), 1.0 / factor))
            with k.loop("j", self.n) as j:
                m.store(j, i, _times(m.load(j, i), factor))

    def reduce(self) -> None:
        """Make the matrix zero below the first subdiagonal (Hessenberg form)."""
        k, m = self.k, self.matrix
        with k.loop("c", self.n - 2) as c, k.loop("back", self.n - 2 - c) as back:
            r = k.let("r", self.n - 1 - back)
            lower = m.entry("y", r, c)
            with k.if_(_size(lower) > 0.0):
                turn, _ = _turning(m, m.entry("x", r - 1, c), lower)
                self._turn(r - 1, turn, c, self.n)
                m.store(r, c, m.zero)

    def _turn(self, p: E, turn: _Turn, start: E, stop: E | int) -> None:
        """Turn axes p and p + 1 of the matrix: rows from `start` on, columns up to `stop`."""
        self.matrix.turn_rows(p, turn, start)
        self.matrix.turn_columns(p, turn.conjugate(), stop)
        self.axes.turn_rows(p, turn.conjugate())

    def iterate(self) -> E:
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
                    self._solve_pair(low)
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
            beside = k.let("beside", _size(m.load(i - 1, i - 1)) + _size(m.load(i, i)))
            reference = select(beside.eq(0.0), m.number(1.0), beside)
            with k.if_(~(_size(m.load(i, i - 1)) > reference * m.epsilon)):
                low.set(i)
                m.store(i, i - 1, m.zero)
        return k.let("first", low + 0)

    def _start(self, low: E, last: E, exceptional: E) -> tuple[Complex, Complex, Complex]:
        """Return the first column of `(h - s1)(h - s2)`, the shifts being those of the last pair.

        It is divided by the first subdiagonal entry. Now and then other shifts end a cycle.
        """
        m = self.matrix
        below = m.entry("below", last, last - 1)
        size = self.k.let("size", _size(below) + _size(m.load(last - 1, last - 2)))
        corner, before = m.load(last, last), m.load(last - 1, last - 1)
        across = multiply(below, m.load(last - 1, last))
        other = (corner[0] + size * 0.75, corner[1])
        corner, before = _select(exceptional, other, corner), _select(exceptional, other, before)
        across = _select(exceptional, (size * size * -0.4375, m.number(0.0)), across)
        top = m.entry("top", low, low)
        r, s = m.named("r", _subtract(corner, top)), m.named("s", _subtract(before, top))
        numerator = m.named("numerator", _subtract(multiply(r, s), across))
        x = _add(divide(numerator, m.entry("first", low + 1, low)), m.load(low, low + 1))
        y = _subtract(_subtract(m.load(low + 1, low + 1), top), _add(r, s))
        return m.named("x", x), m.named("y", y), m.entry("z", low + 2, low + 1)

    def _sweep(self, low: E, last: E, *start: Complex) -> None:
        """Turn the first axes onto `start` and chase what this spoils down the diagonal."""
        k, m = self.k, self.matrix
        x, y, z = (m.variable(name, part) for name, part in zip("xyz", start, strict=True))
        with k.loop("c", last, start=low) as c:
            has_third = k.let("has_third", c + 2 <= last)
            column = k.let("column", select(c > low, c - 1, low))
            stop = k.let("stop", minimum(c + 4, last + 1))
            with k.if_(c > low):
                _assign(x, m.load(c, column))
                _assign(y, m.load(c + 1, column))
            with k.if_(has_third & (c > low)):
                _assign(z, m.load(c + 2, column))
            with k.if_(has_third):
                turn, length = _turning(m, y, z)
                self._turn(c + 1, turn, column, stop)
                _assign(y, (length, m.number(0.0)))
            turn, _ = _turning(m, x, y)
            self._turn(c, turn, column, stop)
            with k.if_(c > low):
                m.store(c + 1, column, m.zero)
            with k.if_(has_third & (c > low)):
                m.store(c + 2, column, m.zero)

    def _solve_pair(self, low: E) -> None:
        """Turn a block of two axes so that its eigenvalues lie on the diagonal."""
        m = self.matrix
        a, b = m.entry("a", low, low), m.entry("b", low, low + 1)
        c, d = m.entry("c", low + 1, low), m.entry("d", low + 1, low + 1)
        half = m.named("half", _times(_subtract(a, d), 0.5))
        across = m.named("across", multiply(b, c))
        root = m.named("root", square_root(m.named("square", _add(multiply(half, half), across))))
        opposed = half[0] * root[0] + half[1] * root[1] < 0.0
        root = m.named("way", _select(opposed, _times(root, -1.0), root))
        moved = m.named("moved", _add(half, root))  # the larger of the two roots
        middle = _times(_add(a, d), 0.5)
        is_pair = root[0].eq(0.0) & half[1].eq(0.0)  # of conjugates, if the block is real
        none = (moved[0].eq(0.0)) & (moved[1].eq(0.0))
        safe = _select(none, (m.number(1.0), m.number(0.0)), moved)
        first = m.named("first", _select(is_pair, _add(middle, root), _add(d, moved)))
        apart = _subtract(d, divide(across, safe))
        second = m.named("second", _select(is_pair, _subtract(middle, root), apart))
        turn, _ = _turning(m, moved, c)
        self._turn(low, turn, low, low + 2)
        m.store(low, low, first)
        m.store(low + 1, low, m.zero)
        m.store(low + 1, low + 1, second)

    # From the triangle

    def norm(self) -> E:
        k, m = self.k, self.matrix
        norm = k.mutable("norm", m.number(0.0))
        with k.loop("i", self.n) as i, k.loop("j", self.n, start=i) as j:
            norm.set(maximum(norm, _size(m.load(i, j))))
        return k.let("largest", select(norm > 0.0, norm, m.number(1.0)))

    def place(self, value: Complex, c: E) -> E:
        """Return how many eigenvalues come before one, by real and then by imaginary parts."""
        k, m = self.k, self.matrix
        count = k.mutable("count", index(0))
        with k.loop("j", self.n) as j:
            re, im = m.entry("other", j, j)
            first = (im < value[1]) | (im.eq(value[1]) & (j < c))
            is_before = (re < value[0]) | (re.eq(value[0]) & first)
            count.set(count + select(is_before, index(1), index(0)))
        return k.let("before", count + 0)

    def substitute(self, c: E, value: Complex, norm: E) -> None:
        """Find the eigenvector of the triangle for its diagonal entry c."""
        k, m, x = self.k, self.matrix, self.inside
        epsilon = m.epsilon
        least = k.let("least", maximum(_size(value), norm * epsilon) * epsilon)
        x.store(0, c, (m.number(1.0), m.number(0.0)))
        with k.loop("back", c) as back:
            i = k.let("i", c - 1 - back)
            total = m.variable("total", m.zero)
            folded = [(part, BinaryOp.ADD) for part in total]
            with k.loop("j", c + 1, start=i + 1, kind=LoopKind.SIMD, accumulators=folded) as j:
                _assign(total, _add(total, multiply(m.entry("t", i, j), x.entry("xj", 0, j))))
            gap = m.named("gap", _subtract(value, m.load(i, i)))
            safe = _select(_size(gap) < least, (least, m.number(0.0)), gap)
            component = m.named("component", divide(total, m.named("divisor", safe)))
            x.store(0, i, component)
            size = k.let("size", _size(component))
            with k.if_(size > _RESCALED_BEYOND), k.loop("j", c + 1, start=i) as j:
                x.store(0, j, _times(x.load(0, j), 1.0 / size))

    def turn_back(self, c: E) -> None:
        """Give the vector in the axes of the matrix that was read."""
        k, v = self.k, self.vector
        with k.loop("i", self.n) as i:
            v.store(0, i, v.zero)
        with k.loop("j", c + 1) as j:
            factor = self.inside.entry("factor", 0, j)
            with k.loop("i", self.n, kind=LoopKind.SIMD) as i:
                added = multiply(factor, self.axes.entry("axis", j, i))
                v.store(0, i, _add(v.load(0, i), added))
        with k.loop("i", self.n) as i:
            factor_of = k.load(v.buffer, self.factors + i)
            v.store(0, i, _times(v.load(0, i), factor_of))

    def turn_positive(self, is_real: E) -> E:
        """Make the largest component of the vector positive; return the vector's length."""
        k, v = self.k, self.vector
        size, square = k.mutable("size", v.number(0.0)), k.mutable("square", v.number(0.0))
        with k.loop("i", self.n) as i:
            size.set(maximum(size, _size(v.load(0, i))))
        inverse = k.let("inverse", 1.0 / select(size > 0.0, size, v.number(1.0)))
        with k.loop("i", self.n) as i:
            component = v.named("component", _times(v.load(0, i), inverse))
            v.store(0, i, component)
            square.set(maximum(square, _square(component)))
        chosen = k.mutable("chosen", index(0))
        with k.loop("back", self.n) as back:
            i = k.let("i", self.n - 1 - back)
            is_large = _square(v.load(0, i)) >= square * _ALMOST_LARGEST
            chosen.set(select(is_large, i, chosen))
        turn, _ = _turning(v, v.entry("largest", 0, chosen), v.zero)
        total = k.mutable("total", v.number(0.0))
        with k.loop("i", self.n) as i:
            re, im = v.named("turned", multiply(turn.a, v.load(0, i)))
            im = k.let("height", select(is_real | i.eq(chosen), v.number(0.0), im))
            v.store(0, i, (re, im))
            total.set(total + _square((re, im)))
        return k.let("length", total.unary(UnaryOp.SQRT))


# Numbers


def _turning(m: _Matrix, x: Complex, y: Complex) -> tuple[_Turn, E]:
    """Return the turn that takes `(x, y)` to `(length, 0)`, and the length."""
    k = m.k
    largest = maximum(maximum(abs(x[0]), abs(x[1])), maximum(abs(y[0]), abs(y[1])))
    size = k.let("size", largest)
    is_zero = k.let("is_zero", size.eq(0.0))
    safe = k.let("safe", select(is_zero, m.number(1.0), size))
    x, y = m.named("x", _divided(x, safe)), m.named("y", _divided(y, safe))
    root = (_square(x) + _square(y)).unary(UnaryOp.SQRT)
    length = k.let("length", select(is_zero, m.number(1.0), root))
    first = (select(is_zero, m.number(1.0), x[0] / length), -x[1] / length)
    second = (y[0] / length, -y[1] / length)
    return _Turn(m.named("a", first), m.named("b", second)), k.let("whole", root * size)


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _conjugate(a: Complex) -> Complex:
    return a[0], -a[1]


def _times(a: Complex, factor: E | float) -> Complex:
    return a[0] * factor, a[1] * factor


def _divided(a: Complex, divisor: E) -> Complex:
    return a[0] / divisor, a[1] / divisor


def _size(a: Complex) -> E:
    """The sum of the parts' sizes."""
    return abs(a[0]) + abs(a[1])


def _square(a: Complex) -> E:
    return a[0] * a[0] + a[1] * a[1]


def _select(condition: E, a: Complex, b: Complex) -> Complex:
    return select(condition, a[0], b[0]), select(condition, a[1], b[1])


def _assign(target: tuple[Mutable, Mutable], value: Complex) -> None:
    """Set both parts, neither of which sees the other's new value."""
    target[0].set(value[0])
    target[1].set(value[1])

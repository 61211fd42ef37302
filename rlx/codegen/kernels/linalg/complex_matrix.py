"""Complex matrices in scratch, for decompositions by Givens rotations."""

from __future__ import annotations

from rlx.codegen.kernels.linalg.arithmetic import squared
from rlx.codegen.kernels.linalg.rows import epsilon
from rlx.codegen.kernels.values import Complex
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, maximum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, UnaryOp
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """A Givens rotation: the unitary matrix `[[a, b], [-conj(b), conj(a)]]` of two axes."""

    a: Complex
    b: Complex

    def conjugate(self) -> Turn:
        return Turn(self.a.conjugate(), self.b.conjugate())

    def apply(self, p: Complex, q: Complex) -> tuple[Complex, Complex]:
        upper = self.a * p + self.b * q
        back = self.conjugate()
        return upper, back.a * q - back.b * p


@dataclass(frozen=True, slots=True)
class Matrix:
    """Complex rows in scratch: all real parts, then all imaginary ones."""

    k: KernelBuilder
    buffer: Buffer
    first: E
    height: int
    width: int

    def load(self, i: E | int, j: E | int) -> Complex:
        at = self.first + index(i) * self.width + j
        return Complex(self.k.load(self.buffer, at), self.k.load(self.buffer, at + self._parts))

    def store(self, i: E | int, j: E | int, value: Complex) -> None:
        at = self.first + index(i) * self.width + j
        self.k.store(self.buffer, at, value.re)
        self.k.store(self.buffer, at + self._parts, value.im)

    @property
    def _parts(self) -> int:
        return self.height * self.width

    def number(self, value: float) -> E:
        return const(value, self.buffer.prim)

    @property
    def zero(self) -> Complex:
        return self.real(self.number(0.0))

    def real(self, value: E) -> Complex:
        return Complex(value, self.number(0.0))

    @property
    def epsilon(self) -> float:
        return epsilon(self.buffer.prim)

    def named(self, name: str, value: Complex) -> Complex:
        return Complex(self.k.let(f"{name}_re", value.re), self.k.let(f"{name}_im", value.im))

    def entry(self, name: str, i: E | int, j: E | int) -> Complex:
        return self.named(name, self.load(i, j))

    def turn_rows(self, p: E, turn: Turn, start: E | int = 0) -> None:
        """Apply a rotation to rows p and p + 1, from column `start` on."""
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            upper, lower = turn.apply(self.entry("upper", p, j), self.entry("lower", p + 1, j))
            self.store(p, j, upper)
            self.store(p + 1, j, lower)

    def turn_columns(self, p: E, turn: Turn, stop: E | int) -> None:
        """Apply the inverse rotation to columns p and p + 1, up to row `stop`."""
        with self.k.loop("i", stop) as i:
            left, right = turn.apply(self.entry("left", i, p), self.entry("right", i, p + 1))
            self.store(i, p, left)
            self.store(i, p + 1, right)

    def fill_identity(self) -> None:
        with self.k.loop("i", self.height) as i:
            with self.k.loop("j", self.width, kind=LoopKind.SIMD) as j:
                self.store(i, j, self.zero)
            self.store(i, i, self.real(self.number(1.0)))


def turning(m: Matrix, x: Complex, y: Complex) -> tuple[Turn, E]:
    """Return the Givens rotation that maps `(x, y)` to `(length, 0)`, and the length."""
    k = m.k
    largest = maximum(maximum(abs(x.re), abs(x.im)), maximum(abs(y.re), abs(y.im)))
    size = k.let("size", largest)
    is_zero = k.let("is_zero", size.eq(0.0))
    safe = k.let("safe", select(is_zero, m.number(1.0), size))
    x, y = m.named("x", x / safe), m.named("y", y / safe)
    root = (squared(x) + squared(y)).unary(UnaryOp.SQRT)
    length = k.let("length", select(is_zero, m.number(1.0), root))
    first = Complex(select(is_zero, m.number(1.0), x.re / length), -x.im / length)
    second = Complex(y.re / length, -y.im / length)
    return Turn(m.named("a", first), m.named("b", second)), k.let("whole", root * size)


def choose(condition: E, a: Complex, b: Complex) -> Complex:
    return Complex(select(condition, a.re, b.re), select(condition, a.im, b.im))

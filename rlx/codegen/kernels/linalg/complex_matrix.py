"""Complex matrices in scratch, and the numbers in them, for decompositions by turns of two axes."""

from __future__ import annotations

import numpy as np

from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.complex_scalar import Complex, multiply
from rlx.codegen.loops.expr import E, const, index, maximum, select
from rlx.codegen.loops.nodes import Buffer, LoopKind, UnaryOp
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """The unitary matrix `[[a, b], [-conj(b), conj(a)]]` of two axes."""

    a: Complex
    b: Complex

    def conjugate(self) -> Turn:
        return Turn(conjugate(self.a), conjugate(self.b))

    def apply(self, p: Complex, q: Complex) -> tuple[Complex, Complex]:
        upper = add(multiply(self.a, p), multiply(self.b, q))
        back = self.conjugate()
        return upper, subtract(multiply(back.a, q), multiply(back.b, p))


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

    def turn_rows(self, p: E, turn: Turn, start: E | int = 0) -> None:
        """Turn rows p and p + 1, from column `start` on."""
        with self.k.loop("j", self.width, start=start, kind=LoopKind.SIMD) as j:
            upper, lower = turn.apply(self.entry("upper", p, j), self.entry("lower", p + 1, j))
            self.store(p, j, upper)
            self.store(p + 1, j, lower)

    def turn_columns(self, p: E, turn: Turn, stop: E | int) -> None:
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


def turning(m: Matrix, x: Complex, y: Complex) -> tuple[Turn, E]:
    """Return the turn that takes `(x, y)` to `(length, 0)`, and the length."""
    k = m.k
    largest = maximum(maximum(abs(x[0]), abs(x[1])), maximum(abs(y[0]), abs(y[1])))
    size = k.let("size", largest)
    is_zero = k.let("is_zero", size.eq(0.0))
    safe = k.let("safe", select(is_zero, m.number(1.0), size))
    x, y = m.named("x", divided(x, safe)), m.named("y", divided(y, safe))
    root = (size_squared(x) + size_squared(y)).unary(UnaryOp.SQRT)
    length = k.let("length", select(is_zero, m.number(1.0), root))
    first = (select(is_zero, m.number(1.0), x[0] / length), -x[1] / length)
    second = (y[0] / length, -y[1] / length)
    return Turn(m.named("a", first), m.named("b", second)), k.let("whole", root * size)


def add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def conjugate(a: Complex) -> Complex:
    return a[0], -a[1]


def times(a: Complex, factor: E | float) -> Complex:
    return a[0] * factor, a[1] * factor


def divided(a: Complex, divisor: E) -> Complex:
    return a[0] / divisor, a[1] / divisor


def size_of(a: Complex) -> E:
    """The sum of the parts' sizes."""
    return abs(a[0]) + abs(a[1])


def size_squared(a: Complex) -> E:
    return a[0] * a[0] + a[1] * a[1]


def choose(condition: E, a: Complex, b: Complex) -> Complex:
    return select(condition, a[0], b[0]), select(condition, a[1], b[1])


def assign(target: tuple[Mutable, Mutable], value: Complex) -> None:
    """Set both parts, neither of which sees the other's new value."""
    target[0].set(value[0])
    target[1].set(value[1])

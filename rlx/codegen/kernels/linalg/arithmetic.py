"""Functions of elements of matrices, for kernels written once for real and for complex ones."""

from __future__ import annotations

from rlx.codegen.kernels.values import Complex, Scalar, let, parts_of, scalar_of
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import UnaryOp
from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """A number that changes."""

    parts: tuple[Mutable, ...]

    @classmethod
    def of(cls, k: KernelBuilder, name: str, x: Scalar) -> Variable:
        names = (name,) if isinstance(x, E) else (f"{name}_re", f"{name}_im")
        return cls(tuple(map(k.mutable, names, parts_of(x))))

    @property
    def value(self) -> Scalar:
        return scalar_of(self.parts)

    def set(self, x: Scalar) -> None:
        for mutable, part in zip(self.parts, parts_of(x), strict=True):
            mutable.set(part)


def moved(a: Scalar, by: E) -> Scalar:
    """Add a real number to each part: 0, or NaN to make both NaN."""
    return Complex(a.re + by, a.im + by) if isinstance(a, Complex) else a + by


def conjugate(a: Scalar) -> Scalar:
    return a.conjugate() if isinstance(a, Complex) else a


def real_part(a: Scalar) -> E:
    return a.re if isinstance(a, Complex) else a


def size(a: Scalar) -> E:
    """The absolute value; of complex numbers the sum of those of the parts, as LAPACK compares."""
    return abs(a.re) + abs(a.im) if isinstance(a, Complex) else abs(a)


def squared(a: Scalar) -> E:
    """The squared absolute value."""
    return a.re * a.re + a.im * a.im if isinstance(a, Complex) else a * a


def is_zero(a: Scalar) -> E:
    return a.re.eq(0.0) & a.im.eq(0.0) if isinstance(a, Complex) else a.eq(0.0)


def with_real(like: Scalar, x: E) -> Scalar:
    """Return a real number as the kind of another one."""
    return Complex(x, const(0.0, x.type.prim, x.type.lanes)) if isinstance(like, Complex) else x


def filled(value: float, like: Scalar) -> Scalar:
    """Return a real number of the kind and type of another one."""
    of = real_part(like).type
    return with_real(like, const(value, of.prim, of.lanes))


def polar(k: KernelBuilder, x: Scalar) -> tuple[E, Scalar]:
    """Return the absolute value of a number that is not 0, and its direction."""
    most = k.let("most", size(x))
    near = let(k, "near", x / most)  # its square neither overflows nor vanishes
    length = k.let("length", squared(near).unary(UnaryOp.SQRT))
    return k.let("absolute", most * length), let(k, "direction", near / length)


def spoiled(like: Scalar) -> Scalar:
    """Return NaN, in both parts."""
    nan = real_part(filled(float("nan"), like))
    return Complex(nan, nan) if isinstance(like, Complex) else nan

"""Tensor elements as kernels compute with them.

Memory holds what `ir.dtype` says; a kernel computes f16 and bf16 in f32, and complex numbers as
pairs. `load` and `store` convert, so that kernels do not depend on how an element is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, overload

import numpy as np

from rlx.codegen.loops import complex_scalar
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Number, const, select, shuffle
from rlx.codegen.loops.math.storage import from_storage, to_storage
from rlx.codegen.loops.nodes import Buffer, Const, Prim, ValueType, Var, storage
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.index_maps import index_map


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex value: the expressions of its parts; factors and divisors may be real."""

    re: E
    im: E

    def __add__(self, other: Scalar) -> Complex:
        other = complex_of(other)
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Scalar) -> Complex:
        other = complex_of(other)
        return Complex(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Scalar | float) -> Complex:
        if isinstance(other, Complex):
            return Complex(*complex_scalar.multiply(parts_of(self), parts_of(other)))
        return Complex(self.re * other, self.im * other)

    def __truediv__(self, other: Scalar) -> Complex:
        """Divide without overflow on the way."""
        if isinstance(other, Complex):
            return Complex(*complex_scalar.divide(parts_of(self), parts_of(other)))
        return Complex(self.re / other, self.im / other)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def conjugate(self) -> Complex:
        return Complex(self.re, -self.im)

    def _refuse(self, other: E) -> Complex:
        raise InternalError(f"a kernel computes with {other} and a complex number")

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = _refuse


Scalar: TypeAlias = E | Complex


def complex_of(value: Scalar) -> Complex:
    """Return `value`, which the op's type rule guarantees to be complex."""
    if not isinstance(value, Complex):
        raise InternalError("a real value reached a kernel for complex dtypes")
    return value


@overload
def parts_of(value: Complex) -> tuple[E, E]: ...
@overload
def parts_of(value: Scalar) -> tuple[E, ...]: ...
def parts_of(value: Scalar) -> tuple[E, ...]:
    """Return an element, or both parts of a complex one."""
    return (value.re, value.im) if isinstance(value, Complex) else (value,)


def scalar_of(parts: Sequence[E]) -> Scalar:
    """Return the real or complex element with these parts."""
    return Complex(*parts) if len(parts) == 2 else parts[0]


_FLOATS = (Prim.F32, Prim.F64)


def compute_prim(dtype: DType) -> Prim:
    """Return the machine type in which elements of `dtype` are computed (complex: its parts)."""
    return Prim.F32 if dtype.is_low_precision else storage(dtype)


def real(value: Scalar) -> E:
    """Return `value`, which the op's type rule guarantees not to be complex."""
    if isinstance(value, Complex):
        raise InternalError("a complex value reached a kernel for real dtypes")
    return value


def literal(number: Number | complex, dtype: DType) -> Scalar:
    """Return a constant element of `dtype`."""
    if dtype.is_complex:
        number = complex(number)
        return Complex(*(const(part, storage(dtype)) for part in (number.real, number.imag)))
    prim = compute_prim(dtype)
    if prim is Prim.BOOL:
        return const(bool(number), prim)
    plain = number.real if isinstance(number, complex) else number
    return const(float(plain) if prim.is_float else int(plain), prim)


def filled(value: Value) -> Scalar | None:
    """Return the element of a movement's result outside of all operands, if there is one."""
    found = index_map(value.node)
    if found is None or found.fill is None:
        return None
    return literal(np.asarray(found.fill).astype(value.dtype.numpy).item(), value.dtype)


def known_number(value: Value) -> Const | None:
    """Return the float that every element of a constant is, bit for bit."""
    if value.op is not ops.constant or storage(value.dtype) not in _FLOATS:
        return None
    data = value.node.attribute("value").array.tobytes()
    first = data[: value.dtype.size]
    if not data or value.dtype.is_complex or data != first * (len(data) // len(first)):
        return None
    number = float(np.frombuffer(first, value.dtype.numpy)[0])
    return Const(number, ValueType(storage(value.dtype)))


def chosen_where(condition: E, a: Scalar, b: Scalar) -> Scalar:
    """Return `a` where `condition` holds, else `b`."""
    if isinstance(a, Complex) and isinstance(b, Complex):
        return Complex(select(condition, a.re, b.re), select(condition, a.im, b.im))
    return select(condition, real(a), real(b))


def converted(count: E, prim: Prim) -> E:
    """Return an extent as a number of type `prim`, folded if it is a literal."""
    if isinstance(count.node, Const):
        return const(float(count.node.value) if prim.is_float else count.node.value, prim)
    return count.cast(prim)


def load(k: KernelBuilder, buffer: Buffer, dtype: DType, at: E, lanes: int = 1) -> Scalar:
    """Read element `at` (with `lanes`: consecutive ones), widened to its compute type."""
    if dtype.is_complex:
        return Complex(*load_parts(k, buffer, at, lanes))
    return from_storage(k.load(buffer, at, lanes), dtype)


def store(k: KernelBuilder, buffer: Buffer, dtype: DType, at: E, value: Scalar) -> None:
    """Write element `at`, rounded once from its compute type."""
    if isinstance(value, Complex):
        store_parts(k, buffer, at, value.re, value.im)
        return
    k.store(buffer, at, to_storage(value, dtype))


def load_parts(k: KernelBuilder, buffer: Buffer, at: E, lanes: int = 1) -> tuple[E, E]:
    """Read complex element `at` (with `lanes`: consecutive ones), and take its parts apart."""
    if lanes == 1:
        return k.load(buffer, at * 2), k.load(buffer, at * 2 + 1)
    low = k.let("low", k.load(buffer, at * 2, lanes))
    high = k.let("high", k.load(buffer, at * 2 + lanes, lanes))
    parts = (list(range(part, 2 * lanes, 2)) for part in (0, 1))
    re, im = (k.let("part", shuffle(low, high, places)) for places in parts)
    return re, im


def store_parts(k: KernelBuilder, buffer: Buffer, at: E, re: E, im: E) -> None:
    """Write the parts of complex element `at`, of consecutive ones if they are vectors."""
    lanes = max(re.type.lanes, im.type.lanes)
    if lanes == 1:
        k.store(buffer, at * 2, re)
        k.store(buffer, at * 2 + 1, im)
        return
    re, im = k.let("re", re.splat(lanes)), k.let("im", im.splat(lanes))
    pairs = [place for lane in range(lanes) for place in (lane, lanes + lane)]
    for part in (0, 1):
        both = shuffle(re, im, pairs[part * lanes : (part + 1) * lanes])
        k.store(buffer, at * 2 + part * lanes, both)


def let(k: KernelBuilder, name: str, value: Scalar) -> Scalar:
    """Bind `value` to a name."""
    if isinstance(value, Complex):
        return Complex(k.let(f"{name}_re", value.re), k.let(f"{name}_im", value.im))
    return k.let(name, value)


def named(k: KernelBuilder, name: str, value: Scalar) -> Scalar:
    """Bind `value` to a name, unless it is a name or literal already."""
    if isinstance(value, Complex):
        return Complex(_named(k, f"{name}_re", value.re), _named(k, f"{name}_im", value.im))
    return _named(k, name, value)


def _named(k: KernelBuilder, name: str, value: E) -> E:
    return value if isinstance(value.node, (Var, Const)) else k.let(name, value)

"""Dtype promotion as JAX does it with 64-bit types enabled.

Python numbers are weakly typed: they take part as kinds (`int`, `float`, `complex`) that give
way to any array of that kind or a wider one. The table is the lattice of JAX's documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, InputError
from rlx.ir.dtype import DType
from rlx.tracing.widths import canonical, natural


@dataclass(frozen=True, slots=True)
class ElementType:
    """A dtype and whether it is weak, as that of a Python number is."""

    dtype: DType
    weak: bool = False


_WEAK_KINDS = {"int": DType.I64, "float": DType.F64, "complex": DType.C128}
_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("int",),
    "int": ("u8", "i8"),
    "u8": ("i16", "u16"),
    "u16": ("i32", "u32"),
    "u32": ("i64", "u64"),
    "u64": ("float",),
    "i8": ("i16",),
    "i16": ("i32",),
    "i32": ("i64",),
    "i64": ("float",),
    "float": ("f8_e4m3fn", "f8_e5m2", "f16", "bf16", "complex"),
    "f8_e4m3fn": (),
    "f8_e5m2": (),
    "f16": ("f32",),
    "bf16": ("f32",),
    "f32": ("f64", "c64"),
    "f64": ("c128",),
    "complex": ("c64",),
    "c64": ("c128",),
    "c128": (),
}
"""The next wider types; floats of eight bits promote to no other type, as in JAX."""


def promote_types(types: Iterable[ElementType]) -> ElementType:
    """Return the common type to which `types` promote."""
    given = list(types)
    if not given:
        raise InputError(
            "is given no array; it needs at least one",
            remedy="pass one array or more",
        )
    joined = functools.reduce(_join, [_node(type) for type in given])
    if joined in _WEAK_KINDS:
        return ElementType(natural(_WEAK_KINDS[joined]), weak=True)
    return ElementType(canonical(DType(joined)))


def to_inexact(type: ElementType) -> ElementType:
    """Return the float type in which a function such as `sin` computes `type`."""
    if type.dtype.is_differentiable:
        return type
    is_wide = type.dtype in (DType.I64, DType.U64)
    return ElementType(natural(DType.F64) if is_wide else DType.F32, type.weak)


def _node(type: ElementType) -> str:
    if not type.weak or type.dtype is DType.BOOL:
        return type.dtype.value
    if type.dtype.is_int:
        return "int"
    return "complex" if type.dtype.is_complex else "float"


@functools.cache
def _join(left: str, right: str) -> str:
    """Return the least node above both."""
    shared = _reachable(left) & _reachable(right)
    if not shared:
        raise DTypeError(
            f"{left} and {right} have no common type: floats of eight bits are converted by name",
            remedy="convert one of them, with .astype",
        )
    return max(shared, key=lambda node: (len(_reachable(node)), node))


@functools.cache
def _reachable(node: str) -> frozenset[str]:
    return frozenset({node}).union(*(_reachable(above) for above in _ABOVE[node]))

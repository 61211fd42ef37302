"""Policies of mixed precision: classes of ops that are computed in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, InputError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.op import OpDef, Trait
from rlx.ir.source_lines import calling_source
from rlx.target import Target

OP_CLASSES: Mapping[str, frozenset[Trait]] = {
    "contraction": frozenset({Trait.CONTRACTION}),
    "elementwise": frozenset({Trait.ELEMENTWISE}),
    "reduction": frozenset({Trait.REDUCTION}),
    "row_wise": frozenset({Trait.ROW_WISE}),
}
"""Classes of ops by the trait that makes one; `row_wise` is softmax and the norms."""


@dataclass(frozen=True, slots=True, init=False)
class MixedPrecision:
    """Compute some classes of ops in `dtype`, "bf16" or "f16", and all others as written.

    Only f32 is touched: inputs, params, results, integers, f64 and complex numbers stay what
    they are. By default the contractions, products of matrices that is, are lowered: they sum
    in f32 whatever they read.
    """

    dtype: DType
    classes: tuple[str, ...]

    def __init__(
        self, dtype: DType | str = "bf16", classes: Iterable[str] = ("contraction",)
    ) -> None:
        object.__setattr__(self, "dtype", _low_dtype(dtype))
        object.__setattr__(self, "classes", _known_classes(classes))

    def lowers(self, definition: OpDef) -> bool:
        """True for the ops that compute in 16 bits where they would in f32."""
        return any(OP_CLASSES[name] & definition.traits for name in self.classes)


Precision: TypeAlias = MixedPrecision | str | None
"""A policy, the dtype of one, "strict", "finite", or None: as written."""

STRICT = "strict"
"""As written, and no algorithm whose rounding differs from that of the formula."""

FINITE = "finite"
"""As written, where no value is NaN or infinite: a product with a constant zero is zero."""


def as_policy(precision: Precision) -> MixedPrecision | None:
    """Return the policy that an argument `precision` means."""
    if precision is None or isinstance(precision, MixedPrecision):
        return precision
    if isinstance(precision, (str, DType)):
        return None if precision in ("f32", STRICT, FINITE) else MixedPrecision(precision)
    raise InputError(
        f"precision is a {type(precision).__name__}",
        source=calling_source(),
        remedy="use 'bf16', 'f16', 'strict', 'finite' or an rlx.MixedPrecision",
    )


def target_at(target: Target, precision: Precision) -> Target:
    """Return `target` as passes see it at this precision."""
    return replace(target, is_strict=True) if precision == STRICT else target


def _low_dtype(spec: DType | str) -> DType:
    if spec in (DType.BF16, DType.F16, "bf16", "f16"):
        return as_dtype(spec)
    raise DTypeError(
        f"unknown precision {str(spec)!r}",
        source=calling_source(),
        remedy="use 'bf16', which has the range of f32, 'f16', 'strict' or 'finite'",
    )


def _known_classes(classes: Iterable[str]) -> tuple[str, ...]:
    names = (classes,) if isinstance(classes, str) else tuple(classes)
    unknown = [name for name in names if name not in OP_CLASSES]
    if unknown:
        raise InputError(
            f"no class of ops is called {unknown[0]!r}",
            source=calling_source(),
            remedy=f"use one of: {', '.join(OP_CLASSES)}",
        )
    return names

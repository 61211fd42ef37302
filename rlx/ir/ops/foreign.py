"""Calls of functions from outside of the program, by the names they are registered under.

`ir.foreign` defines what a target is. Derivatives are those of the function around the call
(`custom_jvp`, `custom_vjp`); batching is what `vmap_method` says.

Source: StableHLO's `custom_call` and JAX's `ffi_call`.
"""

from __future__ import annotations

from rlx.errors import GraphError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.op import Trait
from rlx.ir.types import TensorType

_FAMILY = "foreign"

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")
TOKEN = TensorType(DType.I32, ())
"""The token that an effect returns in addition to its results."""


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, Trait.FOREIGN)
def ffi_call(
    *operands: TensorType,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...] = (),
    vmap_method: str | None = None,
) -> tuple[TensorType, ...]:
    """Apply the function registered as `target`, which does nothing but give its results.

    It may be eliminated where they are unread, or run more often than it is written. The target
    is given `attributes`, bytes, as they are.
    """
    if not result_types:
        raise GraphError(
            f"{target} is pure and has no results, so that it would never run",
            remedy="declare a result, or call it for its effect",
        )
    _require(target, attributes, vmap_method)
    return result_types


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT, Trait.FOREIGN, Trait.IMPURE, Trait.EFFECT)
def effect_call(
    *operands: TensorType,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...] = (),
    vmap_method: str | None = None,
) -> tuple[TensorType, ...]:
    """Call the function registered as `target` once, in the order of the program.

    The last result is 0: a value for what has to hold on to the call.
    """
    _require(target, attributes, vmap_method)
    return (*result_types, TOKEN)


def _require(target: str, attributes: tuple[int, ...], vmap_method: str | None) -> None:
    if not target:
        raise GraphError("the target has no name", remedy="name a registered function")
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise GraphError(
            f"vmap_method is {vmap_method!r}; it must be None or one of {', '.join(VMAP_METHODS)}",
            remedy="pass vmap_method='sequential', which every function allows",
        )
    odd = [value for value in attributes if not 0 <= value < 256]
    if odd:
        raise GraphError(f"attributes hold {odd[0]}, which is not a byte", remedy="pass bytes")


__all__ = ["effect_call", "ffi_call"]

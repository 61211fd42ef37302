"""Functions from outside of the program, called on NumPy arrays."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.foreign import find_target
from rlx.ir.ops.foreign import TOKEN
from rlx.ir.reference.registry import Array, reference
from rlx.ir.types import TensorType


@reference.exact(ops.ffi_call)
def ffi_call(
    *operands: Array,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...],
    **_: str | None,
) -> tuple[Array, ...]:
    return find_target(target).call(operands, result_types, bytes(attributes))


@reference.exact(ops.effect_call)
def effect_call(
    *operands: Array,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...],
    **_: str | None,
) -> tuple[Array, ...]:
    made = find_target(target).call(operands, result_types, bytes(attributes))
    return (*made, np.zeros((), TOKEN.dtype.numpy))

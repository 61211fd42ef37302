"""Elementwise ops: arithmetic, comparison, selection, casts and activations.

Unary and binary ops are one line each; an op that is a formula over others is a composite
and lives in `elementwise_composite`.
"""

from __future__ import annotations

from rlx.errors import DTypeError
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef, Trait, declare_op
from rlx.ir.shape import broadcast_shapes
from rlx.ir.types import TensorType

_NUMERIC = "numeric"
_FLOAT = "float"


def unary(name: str, doc: str, *, takes: str = "float complex") -> OpDef:
    """Declare an elementwise op of one operand; `takes` lists dtype classes or dtypes."""

    def infer(x: TensorType) -> TensorType:
        _require(x.dtype, takes)
        return x

    return declare_op(name, "elementwise", infer, traits=(Trait.ELEMENTWISE, Trait.IN_PLACE), doc=doc)


def _require(dtype: DType, takes: str) -> None:
    """Raise DTypeError unless `dtype` is in one of the classes or dtypes listed in `takes`."""
    classes = {
        "float": dtype.is_float,
        "int": dtype.is_int,
        "signed": dtype.is_signed_int,
        "complex": dtype.is_complex,
    }
    if not any(classes.get(word, word == dtype.value) for word in takes.split()):
        raise DTypeError(f"does not take {dtype}; it takes {takes}")


tanh = unary("tanh", "Hyperbolic tangent.", takes="float")

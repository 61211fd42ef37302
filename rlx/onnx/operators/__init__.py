"""Translators of the standard's operators, one file per family."""

from rlx.onnx.operators import (
    control,
    conv,
    elementwise,
    indexing,
    linalg,
    norm,
    pool,
    quantized,
    recurrent,
    reduction,
    sampling,
    sequence,
    shape,
)

__all__ = [
    "control",
    "conv",
    "elementwise",
    "indexing",
    "linalg",
    "norm",
    "pool",
    "quantized",
    "recurrent",
    "reduction",
    "sampling",
    "sequence",
    "shape",
]

"""Translators of the standard's operators, one file per family."""

from rlx.onnx.operators import (
    elementwise,
    indexing,
    linalg,
    reduction,
    shape,
)

__all__ = ["elementwise", "indexing", "linalg", "reduction", "shape"]

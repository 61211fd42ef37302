"""The NumPy meaning of every op: the oracle of all backends, and the constant folder."""

from rlx.ir.reference import (
    attention,
    collective,
    control,
    conv,
    elementwise,
    fused,
    indexing,
    linalg,
    loops,
    loss,
    norm,
    packed,
    pool,
    random,
    reduction,
    shape,
    solve,
)
from rlx.ir.reference.interpreter import evaluate, evaluate_body, fold
from rlx.ir.reference.registry import reference

__all__ = [
    "attention",
    "collective",
    "control",
    "conv",
    "elementwise",
    "evaluate",
    "evaluate_body",
    "fold",
    "fused",
    "indexing",
    "linalg",
    "loops",
    "loss",
    "norm",
    "packed",
    "pool",
    "random",
    "reduction",
    "reference",
    "shape",
    "solve",
]

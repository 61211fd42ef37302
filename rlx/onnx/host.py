"""Operators on dtypes that our ops lack, computed by NumPy where all inputs are known.

They run while a session is run, and cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import UnsupportedError
from rlx.onnx.registry import Operator

_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {}


def on_host(*names: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of NumPy arrays for operators."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _FUNCTIONS[domain, name] = compute
        return compute

    return register


def apply(found: Operator, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Return what NumPy makes of known arrays."""
    compute = _FUNCTIONS.get((found.domain, found.name))
    if compute is None:
        listed = ", ".join(str(x.dtype) for x in inputs if isinstance(x, np.ndarray))
        raise UnsupportedError(
            f"{found.name} of {listed}", remedy="cast to a dtype that rlx has before it"
        )
    with np.errstate(all="ignore"):
        return compute(*inputs, **attributes)

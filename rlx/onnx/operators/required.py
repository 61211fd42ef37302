"""Inputs that a node requires because of its others."""

from __future__ import annotations

from typing import Any

from rlx.errors import FormatError


def require_inputs(op: str, **inputs: Any) -> None:
    """Raise a FormatError for inputs that are left out, though the others require them."""
    for name, value in inputs.items():
        if value is None:
            raise FormatError(
                f"{op} needs its input {name} here, which is left out",
                remedy="the model is malformed: export it again",
            )

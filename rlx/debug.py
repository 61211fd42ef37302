"""Looking into programs while they run, under JAX's names: `rlx.debug.print("x is {}", x)`."""

from __future__ import annotations

from rlx.public_names import names_of as _names_of
from rlx.transforms.callbacks import debug_callback as callback
from rlx.transforms.callbacks import debug_print as print

__all__ = ["callback", "print"]

__dir__ = _names_of(__name__)

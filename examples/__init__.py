"""Small, complete programs; each is run by the tests.

A program that imports a package which is not installed ends with the command that installs it.
"""

from __future__ import annotations

import sys
from types import TracebackType

INSTALLED_BY = {
    "PIL": "--editable '.[examples]'",
    "equinox": "--editable '.[jax]' equinox optax",
    "jax": "--editable '.[jax]' equinox optax",
    "matplotlib": "--editable '.[examples]'",
    "optax": "--editable '.[jax]' equinox optax",
    "rich": "--editable '.[demo]'",
    "safetensors": "--editable '.[demo]'",
    "tokenizers": "--editable '.[demo]'",
    "torch": "--editable '.[torch]'",
}
"""What pip installs in a checkout to have a module that an example imports."""


def add_remedy(error: BaseException) -> None:
    """Add the command that installs the missing package to the note of an error."""
    module = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and module in INSTALLED_BY:
        error.add_note(f"the example needs {module}: pip install {INSTALLED_BY[module]}")


_next_hook = sys.excepthook


def _hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    add_remedy(error)
    _next_hook(kind, error, traceback)


sys.excepthook = _hook

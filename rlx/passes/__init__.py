"""Passes: functions from graphs to graphs. They are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlx.locks import importing

if TYPE_CHECKING:
    from rlx.passes.autodiff import STRICT as STRICT
    from rlx.passes.autodiff import TRAINING as TRAINING
    from rlx.passes.autodiff import grad as grad
    from rlx.passes.autodiff import grad_with_loss as grad_with_loss
    from rlx.passes.autodiff import hvp as hvp
    from rlx.passes.autodiff import jvp as jvp
    from rlx.passes.vmap import vmap as vmap

_AUTODIFF = ("STRICT", "TRAINING", "grad", "grad_with_loss", "hvp", "jvp")
_HOMES = {**dict.fromkeys(_AUTODIFF, "rlx.passes.autodiff"), "vmap": "rlx.passes.vmap"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing():
        value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Passes(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Set `vmap` to the function also where the import of its package would set the package."""
        is_package = name == "vmap" and isinstance(value, ModuleType)
        super().__setattr__(name, value.vmap if is_package else value)


sys.modules[__name__].__class__ = _Passes

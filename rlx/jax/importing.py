"""Imports of `jax` answered by the modules of `rlx.jax`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType

import rlx.jax
from rlx.scipy import stats
from rlx.scipy.stats.family import Continuous, Discrete

_OWN = (
    "importing",
    "derivatives",
    "devices",
    "configuration",
    "functions",
    "arrays",
    "door",
    "__main__",
)
"""Modules of `rlx.jax` that JAX has under no name."""

MODULES = tuple(
    name
    for name in ("", *(m.name.removeprefix("rlx.jax") for m in pkgutil.walk_packages(
        rlx.jax.__path__, "rlx.jax.")))
    if name.rpartition(".")[2] not in _OWN
)  # fmt: skip
"""Those of JAX that are there, without the leading `jax`."""


def answer_imports() -> None:
    """Let `import jax` and its modules find those of rlx in this process."""
    for name in MODULES:
        sys.modules[f"jax{name}"] = importlib.import_module(f"rlx.jax{name}")
    for name in dir(stats):
        if isinstance(family := getattr(stats, name), (Continuous, Discrete)):
            sys.modules[f"jax.scipy.stats.{name}"] = _module(name, family)


def _module(name: str, family: Continuous | Discrete) -> ModuleType:
    """Return a distribution as JAX has it: a module of functions."""
    module = ModuleType(f"jax.scipy.stats.{name}", family.__doc__)
    public = (each for each in dir(family) if not each.startswith("_"))
    vars(module).update({each: getattr(family, each) for each in public})
    return module

"""Imports of `jax` answered by the modules of `rlx.jax`."""

from __future__ import annotations

import importlib
import sys

MODULES = ("", ".lax", ".nn", ".numpy", ".numpy.fft", ".numpy.linalg", ".ops", ".random",
           ".scipy", ".scipy.linalg", ".scipy.ndimage", ".scipy.optimize", ".scipy.signal",
           ".scipy.sparse", ".scipy.sparse.linalg", ".scipy.special", ".scipy.stats", ".tree",
           ".tree_util")  # fmt: skip
"""Those of JAX that are there, without the leading `jax`."""


def answer_imports() -> None:
    """Let `import jax` and its modules find those of rlx in this process."""
    for name in MODULES:
        sys.modules[f"jax{name}"] = importlib.import_module(f"rlx.jax{name}")

"""Imports of `jax` answered by the modules of `rlx.jax`."""

from __future__ import annotations

import importlib
import sys

MODULES = ("", ".ad_checkpoint", ".debug", ".dtypes", ".errors", ".experimental", ".ffi",
           ".flatten_util", ".lax", ".nn", ".nn.initializers", ".numpy", ".numpy.fft",
           ".numpy.linalg", ".ops", ".random", ".scipy", ".scipy.fft",
           ".scipy.integrate", ".scipy.linalg", ".scipy.ndimage", ".scipy.optimize",
           ".scipy.signal", ".scipy.sparse", ".scipy.sparse.linalg", ".scipy.special",
           ".scipy.stats", ".tree",
           ".test_util", ".tree_util", ".typing")  # fmt: skip
"""Those of JAX that are there, without the leading `jax`."""


def answer_imports() -> None:
    """Let `import jax` and its modules find those of rlx in this process."""
    for name in MODULES:
        sys.modules[f"jax{name}"] = importlib.import_module(f"rlx.jax{name}")

"""Data and models that other packages carry, read as files without importing the packages.

The packages depend on much that rlx does not use (PyTorch with CUDA, SciPy), so `make` installs
them without their dependencies.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def package_directory(module: str, distribution: str) -> Path:
    """Return the folder of an installed package; FileNotFoundError says how to install it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"{distribution} is not installed: "
            f"run `make demo`, or `pip install --no-deps {distribution}`"
        )
    return Path(spec.origin).parent


def is_installed(module: str) -> bool:
    """Return whether a package is there, without importing it."""
    return importlib.util.find_spec(module) is not None


def load_digits() -> tuple[Array, Array]:
    """Return 1,797 handwritten digits as `[1797, 64]` in 0..16, and their labels.

    A part of the UCI data set "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak,
    1998), as scikit-learn carries it.
    """
    data = package_directory("sklearn", "scikit-learn") / "datasets" / "data"
    table = np.loadtxt(data / "digits.csv.gz", delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)

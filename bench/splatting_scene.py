"""The scene that the benchmarks of Gaussian splatting draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def scene(splats: int, size: float | None = None) -> list[Array]:
    """Return a cloud of splats and a camera; splats are smaller where there are more of them."""
    random = np.random.default_rng(0)
    q = random.standard_normal((splats, 4))
    spread = 1.2 / np.sqrt(splats) if size is None else size
    camera = [0, 0, 4, 0, 0, 0, 0, 1, 0, 60, 0.1, 20, 0.1, 0.15, 0.2, *[0.0] * 8]
    arrays = [
        random.uniform(-1.5, 1.5, (splats, 3)),
        np.log(spread) + random.uniform(-0.7, 0.7, (splats, 3)),
        q / np.linalg.norm(q, axis=1, keepdims=True),
        random.uniform(0.1, 0.9, splats),
        random.uniform(0.0, 1.0, (splats, 3)),
        np.zeros((splats, 1, 3)),
        np.array(camera),
    ]
    return [array.astype(np.float32) for array in arrays]

"""`jax.experimental.mesh_utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.jax.sharding import make_mesh
from rlx.public_names import names_of as _names_of


def create_device_mesh(mesh_shape: Sequence[int], *_: Any, **__: Any) -> np.ndarray[Any, Any]:
    """The one device as an array with axes of one element."""
    return make_mesh(mesh_shape, [str(axis) for axis in range(len(mesh_shape))]).devices


__dir__ = _names_of(__name__)

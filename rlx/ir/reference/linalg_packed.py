"""Reference meaning of packing; packed products evaluate by their decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.reference.registry import reference


@reference(ops.pack_panels)
def pack_panels(b: NDArray[Any], *, panel: int, transposed: bool, lanes: int) -> NDArray[Any]:
    matrix = np.swapaxes(b, -1, -2) if transposed else b
    *batch, rows, columns = matrix.shape
    panels = -(-columns // panel)
    padding = [(0, 0)] * (matrix.ndim - 1) + [(0, panels * panel - columns)]
    wide = np.pad(matrix, padding).reshape(*batch, rows, panels, panel)
    return np.swapaxes(wide, -3, -2)

"""Layouts: where the elements of a tensor lie, if not row by row.

A layout is part of a tensor's type: `f32[384, 10]{panels(width = 32)}` has the shape and the
elements of `f32[384, 10]`, which lie in memory otherwise. Only ops that say so read such a
tensor (`@lowered_by(..., layouts=...)`); the reference interpreter computes with its elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import ShapeError
from rlx.ir.shape import Shape, format_shape


@dataclass(frozen=True, slots=True)
class Panels:
    """Matrices cut into panels of `width` columns: `[..., ceil(columns / width), rows, width]`.

    Each panel is dense, so that a product reads it in one stream; the last one is padded with
    zeros.
    """

    width: int

    def stored_shape(self, shape: Shape) -> Shape:
        """Return the row-major shape of what lies in memory."""
        if len(shape) < 2 or not isinstance(shape[-1], int) or self.width < 1:
            raise ShapeError(f"shape {format_shape(shape)} does not lie in {self}: {_MATRIX}")
        return (*shape[:-2], -(-shape[-1] // self.width), shape[-2], self.width)

    def elements(self, stored: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the tensor of `shape` whose stored form is given."""
        *batch, rows, columns = shape
        side_by_side = np.swapaxes(stored, -3, -2)
        wide = side_by_side.reshape(*batch, rows, stored.shape[-3] * self.width)
        return wide[..., :columns]

    def __str__(self) -> str:
        return f"panels(width = {self.width})"


_MATRIX = "it must be of rank 2 at least, with a static number of columns"
LAYOUTS: dict[str, type[Panels]] = {"panels": Panels}
"""Every layout by its name in the text form."""

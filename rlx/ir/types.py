"""The type of a tensor: its dtype, its shape, and its layout."""

from __future__ import annotations

from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.errors import SymbolicExtentError
from rlx.ir.dtype import DType
from rlx.ir.layout import Layout
from rlx.ir.shape import Extent, Shape, format_shape, product, upper

LARGEST_VALUE = 1 << 47
"""Bytes that a value may take: as much as a process can address."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor of `dtype` and `shape`, row-major unless it has a layout.

    Printed `f32[8, n, 128]`, or `f32[8, n, 128]{panels(width = 32)}`.
    """

    dtype: DType
    shape: Shape
    layout: Layout | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Extent:
        """The number of elements, symbolic where the shape is."""
        return product(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes at the largest extents: what the planner reserves."""
        return upper(product(self.stored_shape)) * self.dtype.size

    @property
    def stored_shape(self) -> Shape:
        """The row-major shape of the stored elements."""
        return self.shape if self.layout is None else self.layout.stored_shape(self.shape)

    @property
    def plain(self) -> TensorType:
        """The type of the same tensor without a layout."""
        return self if self.layout is None else self.with_layout(None)

    @property
    def is_static(self) -> bool:
        return all(isinstance(extent, int) for extent in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as integers; ShapeError if an extent is symbolic."""
        if not all(isinstance(extent, int) for extent in self.shape):
            raise SymbolicExtentError(
                f"{self} has a symbolic extent", remedy="bind its symbols first"
            )
        return tuple(extent for extent in self.shape if isinstance(extent, int))

    def with_shape(self, shape: Shape) -> TensorType:
        return replace(self, shape=shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return replace(self, dtype=dtype)

    def with_layout(self, layout: Layout | None) -> TensorType:
        return replace(self, layout=layout)

    def describe_shape(self) -> str:
        """Return the shape as `(8, n, 128)`, for messages."""
        return format_shape(self.shape)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(str(extent) for extent in self.shape)}]"
        return text if self.layout is None else f"{text}{{{self.layout}}}"

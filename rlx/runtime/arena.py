"""The memory of one executable: one aligned block, seen through NumPy views at byte offsets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import UnsupportedError
from rlx.ir.dtype import DType
from rlx.runtime.native import discard, keep_pages_small

_PAGE = 4096
HEADER_WORDS = 8
"""i64 words at the arena's start: status, origin, position of a fault; see `codegen.entry`."""


class Arena:
    """`size` zeroed bytes, aligned to a page."""

    def __init__(self, size: int) -> None:
        block = _zeros(size + _PAGE)
        start = -block.ctypes.data % _PAGE
        self.bytes: NDArray[np.uint8] = block[start : start + size]
        self.address: int = block.ctypes.data + start
        self.header: NDArray[np.int64] = self.bytes[: 8 * HEADER_WORDS].view(np.int64)

    def view(self, offset: int, dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the dense array of `shape` at `offset`."""
        size = dtype.size * math.prod(shape)
        return self.bytes[offset : offset + size].view(dtype.numpy).reshape(shape)


def _zeros(size: int) -> NDArray[np.uint8]:
    try:
        return np.zeros(size, np.uint8)
    except MemoryError as error:
        raise UnsupportedError(
            f"the arena takes {size} bytes, which this machine does not give",
            remedy="compile for smaller shapes; the plan lists what takes the memory",
        ) from error


def discard_pages(view: NDArray[Any]) -> None:
    """Return the pages inside of a dense array of an arena to the system; they hold zeros again."""
    start = view.ctypes.data
    first, stop = -(-start // _PAGE) * _PAGE, (start + view.nbytes) // _PAGE * _PAGE
    if stop > first:
        discard(first, stop - first)


def fill_slowly(view: NDArray[Any]) -> None:
    """Let a dense array of zeros take memory page by page, as far as it is written.

    NumPy asks for pages of 2 MB, of which the first row of a table would take a whole one.
    """
    start = view.ctypes.data // _PAGE * _PAGE
    stop = -(-(view.ctypes.data + view.nbytes) // _PAGE) * _PAGE
    keep_pages_small(start, stop - start)

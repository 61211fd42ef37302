"""Tile registers: their configuration, what an instruction takes, and an implementation in NumPy.

    tile_shapes([(16, 64), (16, 64), ...])    the words that `CONFIGURE` reads: rows and bytes a row

Of the 64 bytes, the first is 1, those from 16 on are bytes of a row as 16-bit numbers, those from
48 on rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.loops.nodes import TileOp, TileStep
from rlx.errors import InternalError

Array: TypeAlias = NDArray[Any]

ROWS, ROW_BYTES, REGISTERS = 16, 64, 8
"""Rows of a register at most, bytes of a row at most, and how many registers there are."""

CONFIGURATION_WORDS = 8
"""Words of 64 bits that `CONFIGURE` reads."""

_WORDS_OF_BYTES, _WORD_OF_ROWS = (2, 3), 6

_TAKEN = {
    TileOp.CONFIGURE: (0, True, False),
    TileOp.RELEASE: (0, False, False),
    TileOp.ZERO: (1, False, False),
    TileOp.LOAD: (1, True, True),
    TileOp.STORE: (1, True, True),
    TileOp.DOT_UNSIGNED_SIGNED: (3, False, False),
    TileOp.DOT_SIGNED_UNSIGNED: (3, False, False),
}
"""How many registers an instruction names, and whether it has an address, and a stride."""


def tile_shapes(shapes: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the words of a configuration that are not 0: rows and bytes a row by register."""
    words = {0: 1}
    for register, (rows, row_bytes) in enumerate(shapes):
        at = _WORDS_OF_BYTES[register // 4]
        words[at] = words.get(at, 0) | row_bytes << 16 * (register % 4)
        words[_WORD_OF_ROWS] = words.get(_WORD_OF_ROWS, 0) | rows << 8 * register
    return words


def tile_faults(step: TileStep) -> Iterator[str]:
    """Yield what is wrong with an instruction."""
    count, addressed, strided = _TAKEN[step.op]
    if len(step.tiles) != count or any(not 0 <= each < REGISTERS for each in step.tiles):
        yield f"{step.op.value} takes {count} of {REGISTERS} tile registers, given {step.tiles}"
    if (step.address is not None, step.stride is not None) != (addressed, strided):
        yield f"{step.op.value} has an address: {addressed}, a stride: {strided}"
    writes = step.address is not None and step.address.writable
    if writes is not (step.op is TileOp.STORE):
        yield f"{step.op.value} has an address that is{'' if writes else ' not'} written"


class TileRegisters:
    """The eight registers, as arrays of bytes; none before they are configured."""

    def __init__(self) -> None:
        self._tiles: list[Array] = []

    def run(self, op: TileOp, tiles: tuple[int, ...], memory: Array | None, stride: int) -> None:
        """Execute an instruction on `memory`, the bytes from its address on."""
        if op is TileOp.CONFIGURE and memory is not None:
            count = REGISTERS
            widths, rows = memory[16 : 16 + 2 * count].view(np.uint16), memory[48 : 48 + count]
            self._tiles = [np.zeros(shape, np.uint8) for shape in zip(rows, widths, strict=True)]
            return
        if op is TileOp.RELEASE:
            self._tiles = []
            return
        if not self._tiles:
            raise InternalError(f"{op.value} of tile registers that are not configured")
        tile, *factors = (self._tiles[each] for each in tiles)
        if memory is not None:
            for number, row in enumerate(tile):
                part = memory[number * stride : number * stride + len(row)]
                if len(part) < len(row):
                    raise InternalError(f"{op.value} of tile{tiles[0]} outside of its buffer")
                if op is TileOp.LOAD:
                    row[:] = part
                else:
                    part[:] = row
        elif op is TileOp.ZERO:
            tile[:] = 0
        else:
            self._dot(op, tile, *factors)

    def _dot(self, op: TileOp, sums: Array, a: Array, b: Array) -> None:
        signs: list[type[np.int8 | np.uint8]] = [np.uint8, np.int8]
        first, second = signs if op is TileOp.DOT_UNSIGNED_SIGNED else reversed(signs)
        left = a.view(first).reshape(len(a), -1, 4).astype(np.int32)
        right = b.view(second).reshape(len(b), -1, 4).astype(np.int32)
        if len(sums) != len(a) or left.shape[1] != len(b) or sums.shape[1] != b.shape[1]:
            raise InternalError(
                f"tiles of {a.shape} by {b.shape} bytes are summed in one of {sums.shape}"
            )
        sums.view(np.int32)[:] += np.einsum("ipb,pjb->ij", left, right)

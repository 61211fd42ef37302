"""Elements computed side by side: a loop over a local array within a body that is written out.

Scalars of a body run one after the other. Where many of them call the same function of the math
library, they are laid in an array first, over which one vector loop runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.kernels.cells import Cell, Cells
from rlx.codegen.kernels.scalars import element
from rlx.codegen.kernels.values import compute_prim, real
from rlx.codegen.loops.expr import E, const
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.ir.graph import Node

Array: TypeAlias = NDArray[Any]
"""Of cells."""


def vector_of(cells: Cells, node: Node, operands: Sequence[Array]) -> Array:
    """Return the elements of an elementwise float op on arrays of one shape, from one loop."""
    shape = operands[0].shape
    count = math.prod(shape)
    shared = [_only_cell(array) for array in operands]
    given = [
        list(array.flat) if one is None else [one]
        for array, one in zip(operands, shared, strict=True)
    ]
    k, buffers = cells.k, list[Buffer]()

    def loop(*values: E) -> E:
        """Lay the operands in arrays, and the results in the first of them."""
        rest = list(values)
        sources: list[Buffer | E] = []
        for operand, parts in zip(node.operands, given, strict=True):
            own, rest = rest[: len(parts)], rest[len(parts) :]
            if len(parts) == 1:
                sources.append(own[0])
                continue
            buffer = k.local(f"{node.op.name}s", compute_prim(operand.dtype), count)
            buffers.append(buffer)
            sources.append(buffer)
            for at, value in enumerate(own):
                k.store(buffer, at, value)
        with k.loop("i", count, kind=LoopKind.SIMD) as i:
            read = [k.load(s, i) if isinstance(s, Buffer) else s for s in sources]
            k.store(buffers[0], i, real(element(node, read)))
        return const(0, Prim.I64)

    block = cells.stated(node.op.name, loop, [cell for parts in given for cell in parts])
    result = np.empty(shape, object)
    for number, index in enumerate(np.ndindex(shape)):
        result[index] = cells.computed(
            f"{node.op.name}{number}", lambda _, n=number: k.load(buffers[0], n), [block]
        )
    return result


def _only_cell(array: Array) -> Cell | None:
    """Return the cell that all elements are, if there is one."""
    first: Cell = array.item(0)
    return first if all(cell is first for cell in array.flat) else None

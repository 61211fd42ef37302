"""The plain matrix product, for any dtype and for sizes too small to pack.

One row of the result at a time, a block of columns in local sums:

    for p in K:  for every column j of the block:  sums[j] += a[row][p] * b[p][j]

Where the columns of `b` are contiguous (`b` transposed, or one column), each element is a dot
product instead, which vectors run along, and on small targets, which have few bytes to keep sums
in. Without vectors, blocks are as wide as registers hold sums: an element of `a` that was loaded
is used for several of `b`; where these are apart, that pays for more than a few terms. Either may
be given transposed.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.plain import contract
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, const, index
from rlx.codegen.loops.nodes import LoopKind
from rlx.errors import InternalError
from rlx.ir.shape import Extent, Shape, upper
from rlx.target import Target

_COLUMNS = 64
"""Columns of a block: sums stay in registers or the first-level cache."""
_FEW_TERMS = 16
"""Terms of a dot product that compilers spell out by themselves."""
_REGISTERS_PER_SUM = 2
"""Without vectors, of each column of a block: one for the sum, and one for what is added."""


@kernel("matmul")
def matmul(scope: Scope, a: Reader, b: Reader, out: Writer) -> None:
    stored_matmul(scope, a, b, out, left=False, right=False, elements="plain")


@kernel("stored_matmul")
def stored_matmul(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, left: bool, right: bool, elements: str
) -> None:
    """Choose blocks of columns, or dot products along what is contiguous."""
    if elements in ("bytes", "bf16"):
        raise InternalError("products of words have no plain kernel: tiles, or the formula")
    width, columns = min(_COLUMNS, upper(out.shape[-1])), out.shape[-1]
    few = right and upper(a.shape[-2 if left else -1]) <= _FEW_TERMS
    even = None if scope.target.has_vectors else _even_width(columns, scope.target)
    if a.dtype.is_complex:
        contract(scope, a, b, out, width=width)
    elif columns == 1 or scope.target.is_small or few:
        contract(scope, a, b, out, width=width, dots=True)
    elif even is not None:
        contract(scope, a, b, out, width=even, kind=LoopKind.UNROLL)
    else:
        contract(scope, a, b, out, width=width, dots=right)


def _even_width(columns: Extent, target: Target) -> int | None:
    """Return the most columns of a block that registers hold and that divide all, if there are."""
    if not isinstance(columns, int):
        return None
    most = target.vector_registers // _REGISTERS_PER_SUM
    return next((width for width in range(most, 1, -1) if columns % width == 0), None)


def operand_batch(scope: Scope, batch: E, shape: Shape, out: Shape) -> E:
    """Return the flat batch index of an operand whose batch axes broadcast to the result's."""
    own, full = shape[:-2], out[:-2]
    if all(extent == 1 for extent in own):
        return index(0)
    if own == full:
        return batch
    rest, at, stride = batch, const(0, batch.type.prim), scope.extents(1)
    padded = (1,) * (len(full) - len(own)) + own
    for extent, whole in reversed(list(zip(padded, full, strict=True))):
        if extent != 1:
            at = at + rest % scope.extents(whole) * stride
            stride = stride * scope.extents(extent)
        if whole != 1:
            rest = rest / scope.extents(whole)
    return at

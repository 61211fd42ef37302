"""The plain matrix product, for any dtype and for sizes too small to pack.

One row of the result at a time, a block of columns in local sums:

    for p in K:  for every column j of the block:  sums[j] += a[row][p] * b[p][j]
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import Complex, compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.complex_scalar import multiply
from rlx.codegen.loops.expr import E, const, index, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.errors import InternalError
from rlx.ir.shape import Shape, upper

_COLUMNS = 64
"""Columns of a block: sums stay in registers or the first-level cache."""


@kernel("matmul")
def matmul(scope: Scope, a: Reader, b: Reader, out: Writer) -> None:
    k = scope.k
    left = a.grouped(_groups(a.shape))
    right = b.grouped(_groups(b.shape))
    target = out.grouped(_groups(out.shape))
    height, columns = target.extent(1), target.extent(2)
    width = max(1, min(_COLUMNS, upper(out.shape[-1])))
    with k.loop("row", target.extent(0) * height, kind=LoopKind.PARALLEL) as item:
        batch = k.let("batch", item / height)
        row = k.let("i", item % height)
        a_row = left.at(_operand_batch(batch, a.shape, out.shape), row)
        b_item = right.at(_operand_batch(batch, b.shape, out.shape))
        y_row = target.at(batch, row)
        with k.loop("first", columns, step=width) as first:
            count = k.let("count", minimum(columns - first, width))
            if a.dtype.is_complex:
                _complex_block(k, a_row, b_item, y_row, first, count, left.extent(2), width)
            else:
                _real_block(k, a_row, b_item, y_row, first, count, left.extent(2), width)


def _real_block(
    k: KernelBuilder,
    a_row: GroupedReader,
    b_item: GroupedReader,
    y_row: GroupedWriter,
    first: E,
    count: E,
    inner: E,
    width: int,
) -> None:
    prim = compute_prim(a_row.value.dtype)
    sums = k.local("sums", prim, width)
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        k.store(sums, j, 0)
    with k.loop("p", inner) as p:
        x = k.let("x", a_row.read_real(p))
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            k.store(sums, j, k.load(sums, j) + x * b_item.read_real(p, first + j))
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        y_row.write(first + j, value=k.load(sums, j))


def _complex_block(
    k: KernelBuilder,
    a_row: GroupedReader,
    b_item: GroupedReader,
    y_row: GroupedWriter,
    first: E,
    count: E,
    inner: E,
    width: int,
) -> None:
    prim = compute_prim(a_row.value.dtype)
    re, im = k.local("re", prim, width), k.local("im", prim, width)
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        k.store(re, j, 0)
        k.store(im, j, 0)
    with k.loop("p", inner) as p:
        x = _complex(a_row.read(p))
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            y = _complex(b_item.read(p, first + j))
            term_re, term_im = multiply((x.re, x.im), (y.re, y.im))
            k.store(re, j, k.load(re, j) + term_re)
            k.store(im, j, k.load(im, j) + term_im)
    with k.loop("j", count, kind=LoopKind.SIMD) as j:
        y_row.write(first + j, value=Complex(k.load(re, j), k.load(im, j)))


def _complex(value: object) -> Complex:
    if not isinstance(value, Complex):
        raise InternalError("a complex product met a real element")
    return value


def _groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    rank = len(shape) - 2
    return (tuple(range(rank)), (rank,), (rank + 1,))


def _operand_batch(batch: E, shape: Shape, out: Shape) -> E:
    """Return the flat batch index of an operand whose batch axes broadcast to the result's."""
    own, full = shape[:-2], out[:-2]
    if all(extent == 1 for extent in own):
        return index(0)
    if own == full:
        return batch
    rest, at, stride = batch, const(0, batch.type.prim), 1
    padded = (1,) * (len(full) - len(own)) + own
    for extent, whole in reversed(list(zip(padded, full, strict=True))):
        if not isinstance(extent, int) or not isinstance(whole, int):
            raise InternalError("broadcast batch axes of a product must be static")
        if extent != 1:
            at = at + rest % whole * stride
            stride *= extent
        rest = rest / whole
    return at

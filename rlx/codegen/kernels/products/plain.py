"""The plain matrix product, for any dtype and for sizes too small to pack.

One row of the result at a time, a block of columns in local sums:

    for p in K:  for every column j of the block:  sums[j] += a[row][p] * b[p][j]

Where the columns of `b` lie together (`b` transposed, or one column), each element is a dot
product instead, which vectors run along, and on small targets, which have few bytes to keep sums
in. Without vectors, blocks are as wide as registers hold sums: an element of `a` that was loaded
meets several of `b`; where these lie apart, that pays for more than a few terms. Either operand may
be given transposed.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import Complex, Scalar, compute_prim, real
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.complex_scalar import multiply
from rlx.codegen.loops.expr import E, const, index, minimum
from rlx.codegen.loops.nodes import BinaryOp, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.shape import Extent, Shape, product, upper
from rlx.target import Target

_COLUMNS = 64
"""Columns of a block: sums stay in registers or the first-level cache."""
_FEW_TERMS = 16
"""Terms of a dot product that compilers spell out by themselves."""
_REGISTERS_PER_SUM = 2
"""Without vectors, of each column of a block: one for the sum, and one for what is added."""


@kernel("matmul", "matmul_codes")
def matmul(scope: Scope, a: Reader, b: Reader, out: Writer) -> None:
    matmul_transposed(scope, a, b, out, left=False, right=False)


@kernel("matmul_transposed")
def matmul_transposed(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, left: bool, right: bool
) -> None:
    k = scope.k
    target = out.grouped(_groups(out.shape))
    height = target.extent(1)
    inner = a.shape[-2 if left else -1]
    kind = product_loop(product((*out.shape, inner)))
    width = None if scope.target.has_vectors else _even_width(out.shape[-1], scope.target)
    with k.loop("row", target.extent(0) * height, kind=kind) as item:
        batched = any(extent != 1 for extent in out.shape[:-2])
        batch = k.let("batch", item / height) if batched else index(0)
        row = k.let("i", item % height) if batched else item
        row_product = _RowProduct(
            k,
            a.grouped(_groups(a.shape)).at(operand_batch(scope, batch, a.shape, out.shape)),
            b.grouped(_groups(b.shape)).at(operand_batch(scope, batch, b.shape, out.shape)),
            target.at(batch, row),
            row,
            left,
            right,
            compute_prim(out.dtype),
        )
        if a.dtype.is_complex:
            row_product.complex_blocks(upper(out.shape[-1]))
        elif out.shape[-1] == 1 or scope.target.is_small or (right and upper(inner) <= _FEW_TERMS):
            row_product.dots()
        elif width is not None:
            row_product.blocks(width, LoopKind.UNROLL)
        elif right:
            row_product.dots()
        else:
            row_product.blocks(upper(out.shape[-1]))


@dataclass(frozen=True, slots=True)
class _RowProduct:
    """One row of the result: row `row` of `a` times all of `b`."""

    k: KernelBuilder
    a: GroupedReader
    b: GroupedReader
    target: GroupedWriter
    row: E
    left: bool
    right: bool

    prim: Prim
    """The type of the sums, to which elements are widened."""

    @property
    def inner(self) -> E:
        return self.a.extent(0 if self.left else 1)

    def a_at(self, p: E) -> Scalar:
        return self.a.read(p, self.row) if self.left else self.a.read(self.row, p)

    def b_at(self, p: E, column: E) -> Scalar:
        return self.b.read(column, p) if self.right else self.b.read(p, column)

    def _wide(self, element: Scalar) -> E:
        return real(element).cast(self.prim)

    def dots(self) -> None:
        """Each element as a dot product over what lies together."""
        k = self.k
        with k.loop("j", self.target.extent(0)) as j:
            total = k.mutable("total", const(0, self.prim))
            sums = [(total, BinaryOp.ADD)]
            with k.loop("p", self.inner, kind=LoopKind.SIMD, accumulators=sums) as p:
                x, y = self._wide(self.a_at(p)), self._wide(self.b_at(p, j))
                total.set(multiply_add(x, y, total))
            self.target.write(j, value=total)

    def blocks(self, columns: int, kind: LoopKind = LoopKind.SIMD) -> None:
        """A block of columns at a time, every element of `a` meeting the whole block.

        Of `unroll` loops every block is whole.
        """
        k, width = self.k, max(1, min(_COLUMNS, columns))
        with k.loop("first", self.target.extent(0), step=width) as first:
            rest = self.target.extent(0) - first
            count = (
                index(width) if kind is LoopKind.UNROLL else k.let("count", minimum(rest, width))
            )
            sums = k.local("sums", self.prim, width)
            with k.loop("j", count, kind=kind) as j:
                k.store(sums, j, 0)
            with k.loop("p", self.inner) as p:
                x = k.let("x", self._wide(self.a_at(p)))
                with k.loop("j", count, kind=kind) as j:
                    y = self._wide(self.b_at(p, first + j))
                    k.store(sums, j, multiply_add(x, y, k.load(sums, j)))
            with k.loop("j", count, kind=kind) as j:
                self.target.write(first + j, value=k.load(sums, j))

    def complex_blocks(self, columns: int) -> None:
        """As `blocks`, over pairs of real and imaginary part."""
        k, width = self.k, max(1, min(_COLUMNS, columns))
        with k.loop("first", self.target.extent(0), step=width) as first:
            count = k.let("count", minimum(self.target.extent(0) - first, width))
            re, im = k.local("re", self.prim, width), k.local("im", self.prim, width)
            with k.loop("j", count, kind=LoopKind.SIMD) as j:
                k.store(re, j, 0)
                k.store(im, j, 0)
            with k.loop("p", self.inner) as p:
                x = _complex(self.a_at(p))
                with k.loop("j", count, kind=LoopKind.SIMD) as j:
                    y = _complex(self.b_at(p, first + j))
                    term_re, term_im = multiply((x.re, x.im), (y.re, y.im))
                    k.store(re, j, k.load(re, j) + term_re)
                    k.store(im, j, k.load(im, j) + term_im)
            with k.loop("j", count, kind=LoopKind.SIMD) as j:
                self.target.write(first + j, value=Complex(k.load(re, j), k.load(im, j)))


def _even_width(columns: Extent, target: Target) -> int | None:
    """Return the most columns of a block that registers hold and that divide all, if there are."""
    if not isinstance(columns, int):
        return None
    most = target.vector_registers // _REGISTERS_PER_SUM
    return next((width for width in range(most, 1, -1) if columns % width == 0), None)


def _complex(value: object) -> Complex:
    if not isinstance(value, Complex):
        raise InternalError("a complex product met a real element")
    return value


def _groups(shape: Shape) -> tuple[tuple[int, ...], ...]:
    rank = len(shape) - 2
    return (tuple(range(rank)), (rank,), (rank + 1,))


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

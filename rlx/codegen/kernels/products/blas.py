"""Matrix products by `cblas_?gemm` of a BLAS library.

Operands are read in place, transposed or not. On several threads a product is cut into
blocks of rows, each of which is one call: the same ones for any number of threads.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.products.plain import operand_batch
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import Address, Buffer, Const, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, product, upper

_GEMM = {
    DType.F32: "cblas_sgemm",
    DType.F64: "cblas_dgemm",
    DType.C64: "cblas_cgemm",
    DType.C128: "cblas_zgemm",
}
_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED = 101, 111, 112
_BLOCK_ROWS = 192
"""Rows of one call on several threads; the library arranges all of `b` anew for each."""


def product_by_blas(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, left: bool, right: bool
) -> None:
    """Multiply by calls of the library; `left` and `right` say which operands are transposed."""
    k, target = scope.k, out.memory
    if a.memory is None or b.memory is None or target is None:
        raise InternalError("a product by a library reads and writes memory, and computes nothing")
    scope.body.stored.update(range(len(scope.body.outputs)))
    is_shared = len(b.shape) == 2 and not left  # then all rows of `a` are those of one matrix
    height: Extent = product(out.shape[:-1]) if is_shared else out.shape[-2]
    batches: Extent = 1 if is_shared else product(out.shape[:-2])
    inner = a.shape[-2 if left else -1]
    rows, columns = scope.extents(height), scope.extents(out.shape[-1])
    gemm = _Gemm(k, a.dtype, rows, columns, scope.extents(inner), left, right)
    work = product((*out.shape, inner))
    kind = LoopKind.SERIAL if scope.target.is_serial else product_loop(work)
    step = _BLOCK_ROWS if kind is LoopKind.PARALLEL else max(upper(height), 1)
    blocks = 1 if upper(height) <= step else (rows + (step - 1)) / step
    with k.loop("item", scope.extents(batches) * blocks, kind=kind) as item:
        batch = k.let("batch", item / blocks)
        first = k.let("first", item % blocks * step)
        at = [
            index(0) if is_shared else operand_batch(scope, batch, each.shape, out.shape)
            for each in (a, b)
        ]
        gemm.call((a.memory, b.memory, target), (at[0], at[1], batch), first, step)


@dataclass(frozen=True, slots=True)
class _Gemm:
    """Calls of one function, for products of `rows` by `inner` by `columns`."""

    k: KernelBuilder
    dtype: DType
    rows: E
    columns: E
    inner: E
    left: bool
    right: bool

    def call(
        self, memory: tuple[Buffer, Buffer, Buffer], matrices: tuple[E, E, E], first: E, most: int
    ) -> None:
        """Multiply `most` rows from `first` on, at most, of one matrix of each operand."""
        (a, b, c), (a_at, b_at, c_at) = memory, matrices
        count = minimum(self.rows - first, most)
        row = first if self.left else first * self.inner
        one, zero = (self._scalar(name, value) for name, value in (("one", 1.0), ("zero", 0.0)))
        self.k.external(
            _GEMM[self.dtype],
            [
                *(const(number, Prim.I32) for number in (_ROW_MAJOR, *self._transposes())),
                *(_integer(extent) for extent in (count, self.columns, self.inner)),
                one,
                self._address(a, a_at * (self.rows * self.inner) + row),
                _stride(self.rows if self.left else self.inner),
                self._address(b, b_at * (self.inner * self.columns)),
                _stride(self.inner if self.right else self.columns),
                zero,
                self._address(c, c_at * (self.rows * self.columns) + first * self.columns, True),
                _stride(self.columns),
            ],
        )

    def _transposes(self) -> tuple[int, int]:
        a, b = (_TRANSPOSED if turned else _AS_IT_IS for turned in (self.left, self.right))
        return a, b

    def _address(self, memory: Buffer, element: E, writable: bool = False) -> Address:
        at = element * 2 if self.dtype.is_complex else element
        return self.k.address(memory, at, writable=writable)

    def _scalar(self, name: str, value: float) -> E | Address:
        """Return a factor as CBLAS takes it: complex ones by address."""
        prim = Prim.F64 if self.dtype in (DType.F64, DType.C128) else Prim.F32
        if not self.dtype.is_complex:
            return const(value, prim)
        place = self.k.local(name, prim, 2)
        self.k.store(place, 0, const(value, prim))
        self.k.store(place, 1, const(0.0, prim))
        return self.k.address(place, 0)


def _stride(extent: E) -> E:
    """Return the elements from one row to the next; BLAS takes no 0."""
    known = extent.node.value if isinstance(extent.node, Const) else 0
    return _integer(extent if known else maximum(extent, 1))


def _integer(extent: E) -> E:
    """Return an extent as a C int."""
    if isinstance(extent.node, Const):
        return const(extent.node.value, Prim.I32)
    return extent.cast(Prim.I32)

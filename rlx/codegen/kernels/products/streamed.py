"""Matrix products of few rows: rows of `b` stream by, and the sums stay in the cache.

    sums[:][:] = 0
    for p in K, `depth` at a time:
        for every vector j of the block:
            for every row i:  sums[i][j] += a[i][p] * b[p][j] + a[i][p + 1] * b[p + 1][j] + ...

Such a product takes the time that it takes to read `b` once. So `b` is read in long stretches,
where it lies, and every element that is loaded meets all rows. Threads share blocks of columns.
Each sum runs along K in order, so that results do not depend on the blocks.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import weights_loop
from rlx.codegen.kernels.products.split import matrix_groups, row_groups
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, minimum
from rlx.codegen.loops.nodes import Buffer
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.lowering import Streamed
from rlx.ir.shape import product, upper


@kernel("matmul", lowering=Streamed)
def matmul_streamed(scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Streamed) -> None:
    _product(scope, a, b, out, lowering, transposed=False)


@kernel("matmul_transposed", lowering=Streamed)
def matmul_transposed_streamed(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Streamed, left: bool, right: bool
) -> None:
    if right:
        raise InternalError("matmul_transposed: a streamed product reads b as it is")
    _product(scope, a, b, out, lowering, transposed=left)


def _product(
    scope: Scope, a: Reader, b: Reader, out: Writer, shape: Streamed, *, transposed: bool
) -> None:
    """Compute a block of columns of one matrix of the batch per item."""
    k, batched, columns = scope.k, len(b.shape) > 2, upper(out.shape[-1])
    if b.memory is None:
        raise InternalError("b of a streamed product must be in memory")
    groups = matrix_groups if batched else row_groups
    left, target = a.grouped(groups(a.shape)), out.grouped(groups(out.shape))
    rows, inner = target.extent_of(1), left.extent(1 if transposed else 2)
    blocks = -(-columns // shape.columns)
    kind = weights_loop(k, product((*out.shape, b.shape[-2])))
    with k.loop("item", target.extent(0) * blocks, kind=kind) as item:
        batch = k.let("batch", item / blocks) if batched else index(0)
        first = k.let("first_column", (item % blocks if batched else item) * shape.columns)
        block = _Block(
            k,
            left.at(batch if batched and len(a.shape) > 2 else index(0)),
            b.memory,
            batch * (inner * columns),
            target.at(batch),
            first,
            inner,
            upper(rows),
            columns,
            shape,
            transposed,
        )
        block.compute()


@dataclass(frozen=True, slots=True)
class _Block:
    """Some columns of one matrix product, for all of its rows."""

    k: KernelBuilder
    left: GroupedReader
    memory: Buffer
    matrix: E
    """Where the matrix `b` starts."""
    target: GroupedWriter
    first: E
    inner: E
    rows: int
    columns: int
    """All columns of `b`."""
    shape: Streamed
    transposed: bool

    def compute(self) -> None:
        k, depth, size = self.k, self.shape.depth, self.rows * self.shape.columns
        sums = k.local("sums", self.memory.prim, size)
        with k.loop("i", size, step=self.shape.lanes) as i:
            k.store(sums, i, const(0, sums.prim, self.shape.lanes))
        count = k.let("columns", minimum(self.columns - self.first, self.shape.columns))
        whole = k.let("whole", self.inner / depth * depth)
        with k.loop("p", whole, step=depth) as p:
            self._add(sums, count, p, depth)
        with k.loop("p", self.inner, start=whole) as p:
            self._add(sums, count, p, 1)
        with k.loop("i", self.rows) as i:
            self._finish(sums, count, i)

    def _add(self, sums: Buffer, count: E, p: E, depth: int) -> None:
        """Add the products with `depth` rows of `b`."""
        k, lanes = self.k, self.shape.lanes
        steps, rows = range(depth), range(self.rows)
        x = [[k.let("x", self._left(index(i), p + step)) for step in steps] for i in rows]
        row = k.let("row", self.matrix + p * self.columns)
        with k.loop("j", count, step=lanes) as j:
            # The last vector meets its neighbour where the columns are no multiple of the lanes.
            column = k.let("column", minimum(self.first + j, self.columns - lanes))
            places = [row + (column + step * self.columns) for step in steps]
            y = [k.let("y", k.load(self.memory, place, lanes)) for place in places]
            for i in rows:
                total = k.load(sums, j + i * self.shape.columns, lanes)
                for step in steps:
                    total = multiply_add(x[i][step], y[step], total)
                k.store(sums, j + i * self.shape.columns, total)

    def _finish(self, sums: Buffer, count: E, i: E) -> None:
        """Compute what follows the product in row `i`, and store."""
        k, lanes, at = self.k, self.shape.lanes, i * self.shape.columns
        whole = k.let("whole_vectors", count / lanes * lanes)
        with k.loop("j", whole, step=lanes) as j:
            value = k.load(sums, at + j, lanes)
            self.target.write_vector(i, self.first + j, value=value)
        if self.columns % lanes:
            skipped = k.let("skipped", self.first + whole - (self.columns - lanes))
            with k.loop("j", count, start=whole) as j:
                value = k.load(sums, at + j + skipped)
                self.target.write(i, self.first + j, value=value)

    def _left(self, i: E, p: E) -> E:
        return self.left.read_real(*((p, i) if self.transposed else (i, p)))

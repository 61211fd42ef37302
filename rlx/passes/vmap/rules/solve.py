"""Linear systems: a shared matrix is factored once, for all right-hand sides together."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.vmap.batching import Batching, batch_to, batch_to_front, reshape_to
from rlx.passes.vmap.registry import Batched, batch, leading

leading(ops.lu, ops.cholesky)


@batch(ops.solve)
def solve_batch(
    at: Batching, a: Value, b: Value, *, vector: bool, transposed: bool, on_singular: str
) -> Batched:
    if at.batched[0]:
        return ops.solve(
            *at.lifted((a, b)), vector=vector, transposed=transposed, on_singular=on_singular
        )
    columns = _as_columns(b, vector=vector)
    x = ops.solve(a, columns, transposed=transposed, on_singular=on_singular)
    return _from_columns(x, b, vector=vector)


@batch(ops.triangular_solve)
def triangular_solve_batch(
    at: Batching,
    a: Value,
    b: Value,
    *,
    lower: bool,
    unit_diagonal: bool,
    transposed: bool,
    left: bool,
    on_singular: str,
) -> Batched:
    def solved(matrix: Value, sides: Value) -> Value:
        return ops.triangular_solve(
            matrix, sides, lower=lower, unit_diagonal=unit_diagonal, transposed=transposed,
            left=left, on_singular=on_singular,
        )  # fmt: skip

    if at.batched[0]:
        return solved(*at.lifted((a, b)))
    if left:
        return _from_columns(solved(a, _as_columns(b)), b)
    return _from_rows(solved(a, _as_rows(b)), b)


def _as_columns(b: Value, *, vector: bool = False) -> Value:
    """Move the batch axis after all others, merged with the columns that are there.

    Vectors `[B, ..., n]` become `[..., n, B]`, matrices `[B, ..., n, k]` `[..., n, k * B]`.
    """
    last = batch_to(b, b.rank - 1)
    if vector:
        return last
    return reshape_to(last, (*last.shape[:-2], last.shape[-2] * last.shape[-1]))


def _from_columns(x: Value, b: Value, *, vector: bool = False) -> Value:
    last = x if vector else reshape_to(x, (*b.shape[1:], b.shape[0]))
    return batch_to_front(last, b.rank - 1)


def _as_rows(b: Value) -> Value:
    """Merge the batch axis into the rows: `[B, ..., k, n]` becomes `[..., B * k, n]`."""
    near = batch_to(b, b.rank - 3)
    return reshape_to(near, (*near.shape[:-3], near.shape[-3] * near.shape[-2], near.shape[-1]))


def _from_rows(x: Value, b: Value) -> Value:
    *batch, rows, extent = b.shape[1:]
    return batch_to_front(reshape_to(x, (*batch, b.shape[0], rows, extent)), b.rank - 3)

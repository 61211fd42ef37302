"""The ops of sparse factorizations: `sparse_factor`, and `sparse_substitute` with its factors.

Rows are eliminated in the order of a `Structure`, without pivots. Row k of the matrix is stored in
a row of zeros, from which multiples of the rows above it are subtracted; what is left is row k of
the upper factor, and the multiples are that of the lower one. Of a symmetric matrix the multiples
follow from the upper factor, and entries below the diagonal are neither read nor computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlx.custom import TensorType, Trait, Value, define_op, ops, require_dtype
from rlx.custom.kernels import (
    Buffer,
    E,
    KernelBuilder,
    Prim,
    Reader,
    Scope,
    Status,
    Writer,
    const,
    given,
    result,
)
from rlx.dataclass import dataclass
from rlx.errors import ShapeError, SingularMatrixError
from rlx.ir.shape import Shape, upper
from rlx.passes.vmap.registry import BY_FORMULA
from rlx.sparse.ordering import Structure

VERSION = "1"

Array = np.ndarray[Any, np.dtype[Any]]


def tables_of(structure: Structure, *, symmetric: bool) -> Array:
    """Return the indices that both ops read, one after the other, i32.

    Where each row of the upper factor starts, and its columns; the same of the lower factor, with
    the place of each entry among the factor's values; the order of the unknowns; where each row of
    the permuted matrix starts, its columns, and the place of each entry among its values.
    """
    above, below, own = structure.upper, structure.upper.T, structure.entries
    parts = [above.indptr, above.indices, below.indptr, below.indices, structure.places]
    parts.append(structure.order)
    indptr, columns, sources = own.indptr, own.indices, structure.sources
    if symmetric:
        stays = columns >= own.rows
        indptr = np.append(0, np.cumsum(np.bincount(own.rows[stays], minlength=own.shape[0])))
        columns, sources = columns[stays], sources[stays]
    return np.concatenate([*parts, indptr, columns, sources]).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a pattern in memory, from a place among the tables on."""

    k: KernelBuilder
    tables: Buffer
    starts: int
    columns: int

    @contextmanager
    def entries(self, row: E, first: E | None = None) -> Iterator[tuple[E, E]]:
        """Open a loop over the entries of a row, from `first` on; yields place and column."""
        k = self.k
        start = self.at(row + self.starts) if first is None else first
        with k.loop("p", self.at(row + (self.starts + 1)), start=start) as place:
            yield place, k.let("column", self.at(place + self.columns))

    def at(self, place: E) -> E:
        return self.k.load(self.tables, place).cast(Prim.I64)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a kernel."""

    above: _Rows
    below: _Rows
    own: _Rows
    places: int
    order: int
    sources: int

    @classmethod
    def of(cls, k: KernelBuilder, x: Reader, size: int, entries: int) -> _Tables:
        lower = size + 1 + entries
        places = 2 * lower
        order = places + entries
        own = order + size
        stored = (upper(x.shape[0]) - own - size - 1) // 2
        sources = own + size + 1 + stored
        above, below, owned = (
            _Rows(k, given(x), start, start + size + 1) for start in (0, lower, own)
        )
        return cls(above, below, owned, places, order, sources)


def _scratch(operands: list[TensorType], results: list[TensorType], **attributes: Any) -> int:
    """One row of the matrix, or one column of the right side."""
    del results
    return int(attributes["size"]) * operands[0].dtype.size


def _examples(scope: Scope, x: Reader, axes: int) -> E:
    return scope.extents(math.prod(x.shape[: len(x.shape) - axes]))


def _factor_kernel(
    scope: Scope, data: Reader, tables: Reader, lower: Writer, above: Writer, inverse: Writer,
    *, size: int, entries: int, symmetric: bool,
) -> None:  # fmt: skip
    k, row_of, values = scope.k, scope.scratch, given(data)
    assert row_of is not None
    low, high, inverses = result(lower), result(above), result(inverse)
    table, zero = _Tables.of(k, tables, size, entries), const(0.0, row_of.prim)
    with k.loop("i", size) as i:
        k.store(row_of, i, zero)
    with k.loop("item", _examples(scope, data, 1)) as item, k.loop("row", size) as row:
        first = k.let("first", item * entries)
        pivots = k.let("pivots", item * size)
        with table.own.entries(row) as (place, column):
            source = item * upper(data.shape[-1]) + table.own.at(place + table.sources)
            k.store(row_of, column, k.load(values, source))
        with table.below.entries(row) as (place, other):
            at = k.let("at", table.below.at(place + table.places))
            read = k.load(high, first + at) if symmetric else k.load(row_of, other)
            multiple = k.let("multiple", read * k.load(inverses, pivots + other))
            k.store(low, first + at, multiple)
            if not symmetric:
                k.store(row_of, other, zero)
            with table.above.entries(other, at if symmetric else None) as (place, column):
                taken = multiple * k.load(high, first + place)
                k.store(row_of, column, k.load(row_of, column) - taken)
        pivot = k.let("pivot", k.load(row_of, row))
        k.store(row_of, row, zero)
        with k.if_(pivot.eq(0.0)):
            k.fail(Status.SINGULAR_MATRIX, item)
        k.store(inverses, pivots + row, 1.0 / pivot)
        with table.above.entries(row) as (place, column):
            k.store(high, first + place, k.load(row_of, column))
            k.store(row_of, column, zero)


def _substitute_kernel(
    scope: Scope, lower: Reader, upper: Reader, inverse: Reader, b: Reader, tables: Reader,
    x: Writer, *, size: int, entries: int, transposed: bool,
) -> None:  # fmt: skip
    k, found, inverses = scope.k, scope.scratch, given(inverse)
    assert found is not None
    first, second = (given(each) for each in ((upper, lower) if transposed else (lower, upper)))
    table, width = _Tables.of(k, tables, size, entries), scope.extents(b.shape[-1])
    with k.loop("item", _examples(scope, b, 2)) as item, k.loop("c", width) as c:
        start = k.let("start", item * entries)

        def outside(row: E) -> E:
            return (item * size + table.above.at(row + table.order)) * width + c

        with k.loop("row", size) as row:
            total = k.mutable("total", k.load(given(b), outside(row)))
            with table.below.entries(row) as (place, other):
                at = table.below.at(place + table.places)
                total.set(total - k.load(first, start + at) * k.load(found, other))
            scale = k.load(inverses, item * size + row) if transposed else None
            k.store(found, row, total if scale is None else total * scale)
        with k.loop("step", size) as step:
            row = k.let("row", size - 1 - step)
            total = k.mutable("total", k.load(found, row))
            with table.above.entries(row) as (place, other):
                total.set(total - k.load(second, start + place) * k.load(found, other))
            scale = None if transposed else k.load(inverses, item * size + row)
            value = k.let("value", total if scale is None else total * scale)
            k.store(found, row, value)
            k.store(result(x), outside(row), value)


# The meaning in NumPy


def _parts(tables: Array, size: int, entries: int) -> list[Array]:
    """Return what `tables_of` joined."""
    stored = (len(tables) - 3 * (size + 1) - size - 3 * entries) // 2
    sizes = [size + 1, entries, size + 1, entries, entries, size, size + 1, stored, stored]
    return np.split(tables, np.cumsum(sizes)[:-1])


def _factor_reference(
    data: Array, tables: Array, *, size: int, entries: int, symmetric: bool
) -> tuple[Array, Array, Array]:
    starts, columns, below, others, places, _, own, own_columns, sources = _parts(
        tables, size, entries
    )
    lead = data.shape[:-1]
    low, high = np.zeros((2, *lead, entries), data.dtype)
    inverse = np.zeros((*lead, size), data.dtype)
    for item in np.ndindex(*lead):
        row_of = np.zeros(size, data.dtype)
        for row in range(size):
            row_of[:] = 0
            mine = slice(own[row], own[row + 1])
            row_of[own_columns[mine]] = data[item][sources[mine]]
            for place in range(below[row], below[row + 1]):
                other, at = others[place], places[place]
                read = high[item][at] if symmetric else row_of[other]
                multiple = low[item][at] = read * inverse[item][other]
                rest = slice(at if symmetric else starts[other], starts[other + 1])
                row_of[columns[rest]] -= multiple * high[item][rest]
            if row_of[row] == 0:
                raise SingularMatrixError(
                    f"singular matrix: the pivot of unknown {row} in the order of elimination is 0",
                    remedy="add a small multiple of the identity, or check the matrix",
                )
            inverse[item][row] = 1 / row_of[row]
            rest = slice(starts[row], starts[row + 1])
            high[item][rest] = row_of[columns[rest]]
    return low, high, inverse


def _substitute_reference(
    lower: Array, upper: Array, inverse: Array, b: Array, tables: Array,
    *, size: int, entries: int, transposed: bool,
) -> Array:  # fmt: skip
    starts, columns, below, others, places, order, *_ = _parts(tables, size, entries)
    x = np.empty_like(b)
    for item in np.ndindex(*b.shape[:-2]):
        found, scale = b[item][order], inverse[item]
        first, second = lower[item], upper[item]
        if transposed:
            first, second = second, first
        for row in range(size):
            for place in range(below[row], below[row + 1]):  # one by one, as the kernel does
                found[row] -= first[places[place]] * found[others[place]]
            found[row] *= scale[row] if transposed else 1
        for row in reversed(range(size)):
            for place in range(starts[row], starts[row + 1]):
                found[row] -= second[place] * found[columns[place]]
            found[row] *= 1 if transposed else scale[row]
        x[item][order] = found
    return x


# Types and batches


def _batched_factor(at: Any, data: Value, tables: Value, **attributes: Any) -> Any:
    return BY_FORMULA if at.batched[1] else sparse_factor(data, tables, **attributes)


def _batched_substitute(at: Any, *operands: Value, **attributes: Any) -> Any:
    """Solve for the right sides of all examples at once, where they have the factors in common."""
    *factors, b, tables = operands
    if at.batched[4]:
        return BY_FORMULA
    if any(at.batched[:3]):
        *lifted, _ = at.lifted(operands)
        return sparse_substitute(*lifted, tables, **attributes)
    rank, shape = b.rank, b.shape
    perm = (*range(1, rank - 1), 0, rank - 1)
    wide = ops.reshape(ops.transpose(b, perm=perm), shape=(*shape[1:-1], shape[0] * shape[-1]))
    found = sparse_substitute(*factors, wide, tables, **attributes)
    apart = ops.reshape(found, shape=(*shape[1:-1], shape[0], shape[-1]))
    return ops.transpose(apart, perm=(rank - 2, *range(rank - 2), rank - 1))


def _require(name: str, x: TensorType, shape: Shape) -> None:
    if x.shape != shape:
        raise ShapeError(
            f"{name} has shape {x.describe_shape()}; the structure and the other operands need "
            f"{x.with_shape(shape).describe_shape()}",
            remedy="give the results of sparse_factor, and a right side of as many rows",
        )


def _op(
    kernel: Any, reference: Any, vmap: Any, *traits: Trait
) -> Callable[[Callable[..., Any]], Any]:
    return lambda infer: define_op(
        infer, reference=reference, kernel=kernel, scratch=_scratch, vmap=vmap, version=VERSION,
        traits=(Trait.ALL_ELEMENTS, *traits),
        no_derivative="solutions of sparse systems are differentiated by their equation",
    )  # fmt: skip


@_op(_factor_kernel, _factor_reference, _batched_factor, Trait.MAY_FAULT)
def sparse_factor(
    data: TensorType, tables: TensorType, *, size: int, entries: int, symmetric: bool
) -> tuple[TensorType, TensorType, TensorType]:
    """Factor the matrices of the values `data`, `[..., nnz]`, in the structure of `tables`.

    Returns the values of the lower and the upper factor, `[..., entries]`, and the reciprocals of
    the pivots, `[..., size]`. A pivot of zero is a fault.
    """
    del symmetric
    require_dtype(data, "f32 f64", "data")
    require_dtype(tables, "i32", "tables")
    _require("data", data, (*data.shape[:-1], upper(data.shape[-1])))
    lead = data.shape[:-1]
    factor = data.with_shape((*lead, entries))
    return factor, factor, data.with_shape((*lead, size))


@_op(_substitute_kernel, _substitute_reference, _batched_substitute)
def sparse_substitute(
    lower: TensorType, upper: TensorType, inverse: TensorType, b: TensorType, tables: TensorType,
    *, size: int, entries: int, transposed: bool,
) -> TensorType:  # fmt: skip
    """Solve for the columns of `b`, `[..., size, k]`, with the results of `sparse_factor`."""
    del transposed
    require_dtype(b, "f32 f64", "b")
    require_dtype(tables, "i32", "tables")
    lead = b.shape[:-2]
    factors = {"lower": lower, "upper": upper, "inverse": inverse}
    for name, each in factors.items():
        _require(name, each, (*lead, size if name == "inverse" else entries))
    _require("b", b, (*lead, size, b.shape[-1]))
    return b

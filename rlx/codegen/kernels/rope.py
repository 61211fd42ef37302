"""Rotary position embedding."""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import vector_groups
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import LoopKind


@kernel("rope")
def rope(
    scope: Scope,
    x: Reader,
    cos: Reader,
    sin: Reader,
    y: Writer,
    *,
    head_dim: int,
    n_rot: int | None = None,
) -> None:
    """Rotate pairs of each head by its position's angle; copy the rest of the row."""
    k, groups = scope.k, vector_groups(x.shape)
    rotated = head_dim if n_rot is None else n_rot
    source, target = x.grouped(groups), y.grouped(groups)
    tables = cos.grouped(((0,), (1,))), sin.grouped(((0,), (1,)))
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row, y_row = source.at(row), target.at(row)
        position = row % scope.extents(x.shape[-2])
        angle = k.let("angle", position % tables[0].extent(0))
        heads = k.let("heads", x_row.extent(0) / head_dim)
        with k.loop("head", heads) as head:
            first = k.let("first", head * head_dim)
            cosines, sines = (table.at(angle) for table in tables)
            _rotate(scope, x_row, y_row, (cosines, sines), first, rotated // 2)
            if rotated < head_dim:
                _copy(scope, x_row, y_row, first + rotated, first + head_dim)
        if not isinstance(x.shape[-1], int) or x.shape[-1] % head_dim:
            _copy(scope, x_row, y_row, heads * head_dim, x_row.extent(0))


def _rotate(
    scope: Scope,
    x: GroupedReader,
    y: GroupedWriter,
    tables: tuple[GroupedReader, GroupedReader],
    first: E,
    half: int,
) -> None:
    k = scope.k
    with k.loop("i", half, kind=LoopKind.SIMD) as i:
        c, s = (k.let(name, t.read_real(i)) for name, t in zip(("c", "s"), tables, strict=True))
        low, high = first + i, first + i + half
        a = k.let("low", x.read_real(low))
        b = k.let("high", x.read_real(high))
        y.write(low, value=a * c - b * s)
        y.write(high, value=b * c + a * s)


def _copy(scope: Scope, x: GroupedReader, y: GroupedWriter, start: E, stop: E) -> None:
    with scope.k.loop("i", stop, start=start, kind=LoopKind.SIMD) as i:
        y.write(i, value=x.read(i))

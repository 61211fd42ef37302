"""argmax and argmin: the first extreme element along an axis.

A contiguous row is searched twice by vectors, for the extreme value and then for its lowest
index; across columns one pass keeps value and index side by side.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.folds import greatest, least, max_fold, min_fold
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.reduction import fold_row
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.slices import Slices, column_blocks, slices
from rlx.codegen.kernels.values import real
from rlx.codegen.loops.expr import E, const, minimum, select
from rlx.codegen.loops.nodes import BinaryOp, LoopKind, Prim
from rlx.ir.shape import upper


@kernel("argmax")
def argmax(scope: Scope, x: Reader, y: Writer, *, axis: int, **_: object) -> None:
    """Find the largest element."""
    _search(scope, x, y, slices(x.shape, axis), largest=True)


@kernel("argmin")
def argmin(scope: Scope, x: Reader, y: Writer, *, axis: int, **_: object) -> None:
    """Find the smallest element."""
    _search(scope, x, y, slices(x.shape, axis), largest=False)


def _search(scope: Scope, x: Reader, y: Writer, split: Slices, *, largest: bool) -> None:
    (_search_rows if split.are_rows else _search_columns)(scope, x, y, split, largest=largest)


def _search_rows(scope: Scope, x: Reader, y: Writer, split: Slices, *, largest: bool) -> None:
    k = scope.k
    source, target = x.grouped(split.groups[:2]), y.grouped((tuple(range(len(y.shape))),))
    fold = max_fold(x.dtype) if largest else min_fold(x.dtype)
    with rows(k, "row", source.extent(0), x.type.elements) as row:
        x_row = source.at(row)
        extreme = k.let("extreme", real(fold.finish(fold_row(scope, x_row, fold), row)))
        target.write(row, value=_first_match(scope, x_row, extreme, split))


def _first_match(scope: Scope, x_row: GroupedReader, extreme: E, split: Slices) -> E:
    """Return the lowest index of a row's element equal to `extreme`, NaN equal to NaN."""
    k = scope.k
    width = _index_prim(split)
    none = x_row.extent(0).cast(width)
    first = k.mutable("first", none)
    folded = [(first, BinaryOp.MIN)]
    with k.loop("i", x_row.extent(0), kind=LoopKind.SIMD, accumulators=folded) as i:
        value = k.let("value", x_row.read_real(i))
        matches = value.eq(extreme)
        if value.type.prim.is_float:
            matches = matches | value.ne(value)
        first.set(minimum(first, select(matches, i.cast(width), none)))
    return first.cast(Prim.I64)


def _search_columns(scope: Scope, x: Reader, y: Writer, split: Slices, *, largest: bool) -> None:
    k = scope.k
    source = x.grouped(split.groups)
    kept = len(y.shape) - len(split.groups[2])
    target = y.grouped((tuple(range(kept)), tuple(range(kept, len(y.shape)))))
    with column_blocks(scope, split.outer, split.inner, x.type.elements) as columns:
        best = k.local("best", x.prim, columns.most)
        place = k.local("place", _index_prim(split), columns.most)
        x_block, y_block = source.at(columns.outer), target.at(columns.outer)
        with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
            k.store(best, j, _worst(x.prim, largest=largest))
            k.store(place, j, 0)
        with k.loop("r", x_block.extent(0)) as r:
            line = x_block.at(r)
            with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
                value = k.let("value", line.read_real(columns.start + j))
                before = k.let("before", k.load(best, j))
                better = k.let("better", _beats(value, before, largest=largest))
                k.store(best, j, select(better, value, before))
                k.store(place, j, select(better, r.cast(place.prim), k.load(place, j)))
        with k.loop("j", columns.width, kind=LoopKind.SIMD) as j:
            y_block.write(columns.start + j, value=k.load(place, j).cast(Prim.I64))


def _index_prim(split: Slices) -> Prim:
    """Return a narrow index type where it fits, so that it vectorizes with f32."""
    return Prim.I32 if upper(split.length) < 1 << 31 else Prim.I64


def _worst(prim: Prim, *, largest: bool) -> E:
    if prim is Prim.BOOL:
        return const(not largest, prim)
    return const(least(prim) if largest else greatest(prim), prim)


def _beats(value: E, best: E, *, largest: bool) -> E:
    """True if `value` comes strictly before `best`; a NaN comes before everything else."""
    if value.type.prim is Prim.BOOL:
        return value & ~best if largest else ~value & best
    beats = value > best if largest else value < best
    return beats | (value.ne(value) & best.eq(best)) if value.type.prim.is_float else beats

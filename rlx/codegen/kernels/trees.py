"""Walks through decision trees: several chains of trees side by side, without branches.

A step of one walk is a chain of two loads, a comparison and an addition. Steps of the other walks
fill the time that it waits, and no test is a jump, which processors would have to guess.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import E, const, minimum
from rlx.codegen.loops.nodes import Prim

_STEPS = 16
"""Elements that a walk through one tree is worth, where work is divided among threads."""


def _unsigned(place: E) -> E:
    """Make a negative place a large number."""
    return place.cast(Prim.I64).cast(Prim.U64)


@kernel("walk_trees")
def walk_trees(
    scope: Scope, keys: Reader, table: Reader, starts: Reader, y: Writer, *, width: int, **_: object
) -> None:
    """Walk every row from tree to tree, until all walks have ended.

    A table may come from a file: its places are held inside of memory, and a walk has no more steps
    than there are nodes.
    """
    k = scope.k
    source, target = keys.grouped(((0,), (1,))), y.grouped(((0,), (1,)))
    nodes, first = table.grouped(((0,),)), starts.grouped(((0,),))
    chains = range(int(starts.shape[0]))

    records = table.type.elements // width
    last_record = const((records - 1) * width, Prim.U64)

    def of(node: E, number: int) -> E:
        return nodes.read_real(node + number)

    def inside(place: E, last: E) -> E:
        return minimum(_unsigned(place), last).cast(Prim.I64)

    with rows(k, "row", target.extent(0), y.type.elements * _STEPS) as row:
        last_tree = (target.extent(1) - 1).cast(Prim.U64)
        last_column = (source.extent(1) - 1).cast(Prim.U64)
        places = [
            k.mutable("place", inside(first.read_real(const(n, Prim.I64)), last_record))
            for n in chains
        ]
        target.write(row, target.extent(1) - 1, value=const(0, Prim.I32))
        open_ = k.mutable("open", const(1, Prim.I64))
        steps = k.mutable("steps", const(0, Prim.I64))
        with k.while_(open_.ne(0) & (steps < records)):
            steps.set(steps + 1)
            left: E = const(0, Prim.I64)
            for place in places:
                node = k.let("node", place)
                tree = k.let("tree", inside(of(node, 3), last_tree))
                target.write(row, tree, value=node.cast(Prim.I32))
                key = source.read_real(row, k.let("column", inside(of(node, 1), last_column)))
                if width == 5:
                    key = key & of(node, 4)
                # no select, of which compilers make a jump where it waits for a load
                is_more = k.let("is_more", (key > of(node, 0)).cast(Prim.U64))
                child = _unsigned(of(node, 2)) + is_more * width
                place.set(k.let("after", minimum(child, last_record).cast(Prim.I64)))
                left = left | place
            open_.set(left)

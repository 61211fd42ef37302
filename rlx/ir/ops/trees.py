"""Walks of rows through ensembles of decision trees."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.types import TensorType

__all__ = ["walk_trees"]


@op("indexing", Trait.ALL_ELEMENTS, Trait.SEARCH, Trait.LOWERED)
def walk_trees(
    keys: TensorType, table: TensorType, starts: TensorType, *, trees: int, width: int
) -> TensorType:
    """Where in `table` each row leaves each tree: i32 `[rows, trees + 1]`.

    `table` has a record of `width` integers for each node: a limit, a column of `keys`, the place
    of the first of two children, the number of its tree, and a mask if `width` is 5. A row goes on
    to the second child, `width` further, if its key (of which the mask keeps some bits) is more
    than the limit. The child of a leaf, which no key exceeds, is the root of the next tree of its
    chain, or the record at 0 after the last one: a leaf that is its own child, of the last column.
    `starts` are the first roots of chains that are walked side by side, for a row at a time: each
    waits for loads, which the others do not need. Places outside of an operand become the last
    ones, and a walk ends after as many steps as there are records.
    """
    require_dtype(keys, "i32 i64", "keys")
    require_same_dtype(keys, table)
    require_dtype(starts, "i32", "starts")
    for value, rank, name in ((keys, 2, "keys"), (table, 1, "table"), (starts, 1, "starts")):
        require_rank(value, rank, name)
    if width not in (4, 5):
        raise ShapeError(f"records have {width} integers", remedy="give records of 4 or 5")
    columns, numbers = keys.shape[1], table.shape[0]
    if not isinstance(columns, int) or not isinstance(numbers, int) or not columns * numbers:
        raise ShapeError(
            f"keys have shape {keys.describe_shape()} and table {table.describe_shape()}; columns "
            "and records are known numbers, at least 1",
            remedy="give a column and a record",
        )
    if numbers % width:
        raise ShapeError(
            f"table has {numbers} integers, not a multiple of {width}",
            remedy="give whole records",
        )
    chains = starts.shape[0]
    if not isinstance(chains, int) or not 0 < chains <= trees:
        raise ShapeError(
            f"starts has shape {starts.describe_shape()}; chains are a known number, 1 to {trees}",
            remedy="give at least a tree for each chain",
        )
    return keys.with_shape((keys.shape[0], trees + 1)).with_dtype(DType.I32)

"""Values that are functions of the leaf that a row reaches in a decision tree.

An elementwise operator on such a value is applied to the values of the leaves while the model is
imported, and a sum of such values over the same rows is one ensemble. All other operators read the
array, for which the tree is walked. Forests that are written as a regressor and a chain of
operators per tree, as isolation forests are, become one walk of all trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.onnx.folding import fold
from rlx.onnx.registry import Operator
from rlx.onnx.tree_masks import total
from rlx.onnx.tree_tables import Trees
from rlx.onnx.types import computes
from rlx.tracing.apply import graph as open_graph
from rlx.tracing.trace import TracedArray
from rlx.tracing.tracer import Tracer

Array = np.ndarray[Any, Any]

_ELEMENTWISE = frozenset((
    "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Exp", "Floor", "Greater",
    "GreaterOrEqual", "Identity", "LabelEncoder", "Less", "LessOrEqual", "Log", "Max", "Min", "Mul",
    "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sqrt", "Sub",
    "Sum", "Tanh", "Where", "Xor",
))  # fmt: skip


class Walk:
    """A tree and the rows that it is walked with, `[rows, features]`."""

    def __init__(self, trees: Trees, x: Any, dtype: Any) -> None:
        """`dtype` is the one that features are compared in."""
        self.x, columns = _picked(x)
        self.trees = trees if columns is None else trees.reading(columns)
        self.dtype = dtype
        self.leaves = np.flatnonzero(trees.is_leaf)
        """Places of the leaves among the nodes."""
        self._reached: dict[Any, Any] = {}

    def reached(self) -> Any:
        """Return the place of the leaf that each row reaches, once per open graph."""
        graph = open_graph()
        if graph not in self._reached:
            self._reached[graph] = self.trees.reached(self.rows())[:, 0]
        return self._reached[graph]

    def rows(self) -> Any:
        return rnp.astype(self.x, self.dtype)

    def by_node(self, values: Array) -> Array:
        """Return what leaves have as a table of all nodes."""
        table = np.zeros((self.trees.child.size, *values.shape[1:]), values.dtype)
        table[self.leaves] = values
        return table


@dataclass(frozen=True, slots=True, eq=False)
class LeafValues:
    """The sum, from left to right, of what rows find at the leaf of each of some trees."""

    terms: tuple[tuple[Walk, Array], ...]
    """Trees over equal rows, each with the values of its leaves `[leaves, columns]`."""

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.terms[0][1].dtype
        return found

    @property
    def shape(self) -> tuple[Any, ...]:
        (walk, table), *_ = self.terms
        return walk.x.shape[0], table.shape[1]

    def array(self) -> Any:
        """Append the walk to the open graph; return the traced array `[rows, columns]`."""
        walks = [walk for walk, _ in self.terms]
        own = np.concatenate([walk.by_node(table) for walk, table in self.terms])
        if len(walks) == 1:
            return rnp.take(own, walks[0].reached(), axis=0, mode="clip")
        joined = Trees.joined([walk.trees for walk in walks])
        return total(joined, walks[0].rows(), own, "SUM")


def applied(found: Operator, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Return the leaf values that an operator results in; None where it reads their arrays.

    For 32 rows or more, trees are added in the order of the model.
    """
    if found.domain not in ("", "ai.onnx.ml"):
        return None
    values = [value for value in inputs if isinstance(value, LeafValues)]
    if found.name == "Reshape":
        return values[0] if _keeps_shape(values[0], inputs[-1]) else None
    walk, _ = values[0].terms[0]
    if any(len(value.terms) > 1 or value.terms[0][0] is not walk for value in values):
        is_sum = found.name in ("Add", "Sum") and len(values) == len(inputs)
        return _joined(values) if is_sum and not attributes else None
    others = (value for value in inputs if not isinstance(value, LeafValues))
    if found.name not in _ELEMENTWISE or "axis" in attributes or not all(map(_is_row, others)):
        return None
    tables = [v.terms[0][1] if isinstance(v, LeafValues) else v for v in inputs]
    table = fold(lambda: found.translate(*tables, **attributes))
    is_table = isinstance(table, np.ndarray) and computes(table.dtype) and table.ndim == 2
    return LeafValues(((walk, table),)) if is_table else None


def _keeps_shape(value: LeafValues, shape: Any) -> bool:
    """True if a reshape to `shape` gives each row its own columns again."""
    rows, columns = value.shape
    wanted = shape.tolist()
    return len(wanted) == 2 and wanted[0] in (-1, rows) and wanted[1] == columns


def _is_row(value: Any) -> bool:
    """True for a known operand that is the same for all rows."""
    if not isinstance(value, np.ndarray):
        return value is None
    return computes(value.dtype) and (value.ndim < 2 or (value.ndim == 2 and len(value) == 1))


def _joined(values: Sequence[LeafValues]) -> LeafValues | None:
    """Return a sum in the given order as one ensemble; None if that has no such form."""
    if len(values) == 2 and len(values[1].terms) > 1:
        values = values[::-1]  # a sum of two numbers is the same in both orders
    first, *rest = values
    if first.dtype not in (np.float32, np.float64) or any(len(v.terms) > 1 for v in rest):
        return None
    walk = first.terms[0][0]
    terms = tuple(term for value in values for term in value.terms)
    same_rows = all(w.x.value is walk.x.value and w.dtype == walk.dtype for w, _ in terms)
    same_type = all((v.dtype, v.shape) == (first.dtype, first.shape) for v in rest)
    return LeafValues(terms) if same_rows and same_type else None


def _picked(x: TracedArray) -> tuple[TracedArray, Array | None]:
    """Return the rows that `x` has some columns of, and these columns; `x` itself and None."""
    value: Value = x.value
    if value.op is not ops.gather or value.node.attribute("axis") != 1:
        return x, None
    rows, places = value.node.operands
    if places.op is not ops.constant or places.rank != 1 or rows.rank != 2:
        return x, None
    columns: Array = places.node.attribute("value").array
    width = rows.shape[1]
    if not isinstance(width, int) or not np.all((columns >= 0) & (columns < width)):
        return x, None
    return Tracer(x.owner, rows), columns

"""Regions of numbers: what a reducer, a comparison of a sort, or an update of a scatter computes.

Common ones are recognized by their operations, as trees: an operation's name, what distinguishes
it, and its operands; arguments of the region are their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlx.lax as lax
from rlx.stablehlo.elementwise import function_of
from rlx.stablehlo.interpret import Operation
from rlx.stablehlo.types import constant, dtype_of, word
from rlx.transforms.vectorize import vectorize

Tree = Any
_DEEPEST = 24
"""Operations after one another that a tree has; those of comparisons of several keys have less."""

_COMBINERS = ("add", "and", "maximum", "minimum", "multiply", "or", "subtract", "xor")


def trees(operation: Operation, region: int) -> list[Tree]:
    """Return the results of a region as trees; values from around it are leaves of their own."""
    block = operation.block(region)
    count = len(block.operations[len(block.operations) - 1].operation.operands)
    return [tree_of(operation, region, place) for place in range(count)]


def tree_of(operation: Operation, region: int, result: int) -> Tree:
    """Return one result of a region as a tree."""
    block = operation.block(region)
    places = {value: place for place, value in enumerate(block.arguments)}
    made: dict[Any, Tree] = {}

    def tree(value: Any, depth: int) -> Tree:
        if value in places:
            return places[value]
        if (value, depth) not in made:
            made[value, depth] = _node(value, depth)
        return made[value, depth]

    def _node(value: Any, depth: int) -> Tree:
        op = getattr(value.owner, "operation", None)  # a block has none
        if op is None or op.block != block:
            found = operation.scope[value]
            is_known = isinstance(found, np.ndarray) and found.size == 1
            return ("constant", found.item()) if is_known else ("around", value)
        if op.name == "stablehlo.constant":
            found = constant(op)
            return ("constant", found.item()) if found.size == 1 else ("array", value)
        if not depth or len(op.results) != 1:
            return "deep", value
        return (op.name, _details(op), *(tree(x, depth - 1) for x in op.operands))

    last = block.operations[len(block.operations) - 1].operation
    return tree(last.operands[result], _DEEPEST)


def _details(op: Any) -> tuple[str, ...]:
    if op.name != "stablehlo.compare":
        return (str(op.results[0].type),)
    kind = word(op.attributes["compare_type"]) if "compare_type" in op.attributes else ""
    return word(op.attributes["comparison_direction"]), kind


def combiner(tree: Tree, left: Tree, right: Tree) -> str | None:
    """Return the name of the operation that a tree applies to two trees, in any order."""
    if not isinstance(tree, tuple) or len(tree) != 4:
        return None
    name = str(tree[0]).removeprefix("stablehlo.")
    if name not in _COMBINERS:
        return None
    swapped = name != "subtract" and tree[2:] == (right, left)
    return name if tree[2:] == (left, right) or swapped else None


def function_of_combiner(name: str, operation: Operation, region: int) -> Any:
    """Return the function of `rlx.lax` for the combiner of a region."""
    dtype = dtype_of(operation.block(region).arguments[0].type)
    return function_of(f"stablehlo.{name}", dtype)


def of_elements(operation: Operation, region: int) -> Callable[..., list[Any]]:
    """Return a region of numbers as a function of arrays, element by element."""
    return vectorize(lambda *xs: list(operation.region(region, *xs)))


def of_pairs(operation: Operation, region: int) -> Callable[..., list[Any]]:
    """Return a reducer as a function of two lists of arrays."""
    combine = of_elements(operation, region)

    def pairs(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        return combine(*left, *right)

    return pairs


def order(operation: Operation) -> list[tuple[int, bool]] | None:
    """Return the keys of a comparison, first ones first: which operand, and whether descending.

    None for a comparison that is no lexicographic order of operands, or one of floats in which
    zeros of both signs or NaN differ.
    """
    (tree,) = trees(operation, 0)
    return _keys(tree, operation)


def _keys(tree: Tree, operation: Operation) -> list[tuple[int, bool]] | None:
    if not isinstance(tree, tuple):
        return None
    if tree[0] == "stablehlo.compare":
        key = _key(tree, operation)
        return None if key is None else [key]
    if tree[0] != "stablehlo.or" or not isinstance(tree[3], tuple):
        return None
    first, rest = _keys(tree[2], operation), tree[3]
    if rest[0] != "stablehlo.and" or first is None or len(first) != 1:
        return None
    equal, others = rest[2], _keys(rest[3], operation)
    operands = equal[2:] if isinstance(equal, tuple) and equal[0] == "stablehlo.compare" else ()
    if others is None or operands != tree[2][2:] or equal[1][0] != "EQ":
        return None
    return [*first, *others]


def _key(tree: Tree, operation: Operation) -> tuple[int, bool] | None:
    (direction, kind), left, right = tree[1], tree[2], tree[3]
    if direction not in ("LT", "GT"):
        return None
    a, b = _without_variants(left), _without_variants(right)
    if not isinstance(a, int) or not isinstance(b, int) or a % 2 or b != a + 1:
        return None
    is_float = dtype_of(operation.operand_type(a // 2)).is_float
    if is_float and kind == "TOTALORDER" and (left == a or direction == "GT"):
        return None  # zeros of both signs differ, or NaN comes first
    return a // 2, direction == "GT"


def _without_variants(tree: Tree) -> Tree:
    """Return x of a tree that is x but for the signs of zeros and NaN."""
    while isinstance(tree, tuple) and tree[0] == "stablehlo.select":
        test, chosen, other = tree[2:]
        if not isinstance(test, tuple) or test[0] != "stablehlo.compare" or len(test) != 4:
            return tree
        x = _without_variants(other)
        value = chosen[1] if isinstance(chosen, tuple) and chosen[0] == "constant" else None
        is_nan = test[1][0] == "NE" and test[2:] == (x, x) and value != value
        is_zero = test[1][0] == "EQ" and test[2:] == (x, ("constant", 0.0)) and value == 0
        if not is_nan and not is_zero:
            return tree
        tree = x
    return tree


def is_sum(operation: Operation, region: int) -> bool:
    """True for a region that adds its two arguments."""
    (tree,) = trees(operation, region)
    return combiner(tree, 0, 1) == "add"


def identity(name: str, x: Any) -> Any:
    """Return what a combiner leaves every number of a dtype as it is with."""
    dtype = np.dtype(lax.full_like(x, 0).dtype) if not hasattr(x, "dtype") else np.dtype(x.dtype)
    if name in ("add", "or", "xor"):
        return np.zeros((), dtype)
    if name == "multiply":
        return np.ones((), dtype)
    if name == "and":
        return np.bitwise_not(np.zeros((), dtype))
    least = name == "maximum"
    if dtype.kind == "b":
        return np.asarray(not least)
    if dtype.kind in "iu":
        return np.asarray(np.iinfo(dtype).min if least else np.iinfo(dtype).max, dtype)
    return np.asarray(-np.inf if least else np.inf, dtype)

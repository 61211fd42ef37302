"""Functions written for one structure agree with those that look at it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

from rlx.tracing.known_trees import joiner, splitter
from rlx.tracing.pytree import register_pytree_node, tree_flatten


class Pair(NamedTuple):
    first: Any
    second: Any


class Bag:
    def __init__(self, items: list[Any], label: Any) -> None:
        self.items, self.label = items, label

    def __repr__(self) -> str:
        return f"Bag({self.items}, {self.label})"  # names tests: no address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # equality is all that the tests need


register_pytree_node(Bag, lambda b: (b.items, b.label), lambda label, items: Bag(items, label))

TREES = [
    1, (), (1,), [], {}, None, {"w": 1}, {"b": 1, "w": [2, (3, None)], "a": {}}, {2: [1], 1: ()},
    {(1, "quote's"): 1, (0, "\n"): 2}, {'a"b': 1, "c\\": [2], "{}": 3}, Pair(1, {"x": 2}),
    Bag([1, [2]], "named"), [[[[[1], 2], 3], 4], 5],
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_known_trees_come_apart_and_together_like_others(tree: Any) -> None:
    leaves, structure = tree_flatten(tree)
    assert splitter(structure)(tree) == leaves
    assert joiner(structure)(tuple(leaves)) == tree


@pytest.mark.parametrize(
    ("known", "other"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1}, OrderedDict(a=1)),
        ((1, 2), [1, 2]),
        ((1, 2), (1, 2, 3)),
        ([1], (1,)),
        (Pair(1, 2), (1, 2)),
        ((1, 2), Pair(1, 2)),
        (None, 1),
        ([None], [1]),
        ({"a": [1]}, {"a": 1}),
        (Bag([1], "one"), Bag([1], "two")),
        (Bag([1], "one"), Bag([1, 2], "one")),
    ],
    ids=repr,
)
def test_another_structure_is_refused(known: Any, other: Any) -> None:
    assert splitter(tree_flatten(known)[1])(other) is None


def test_deep_trees_are_no_deep_expressions() -> None:
    tree: Any = 1
    for _ in range(300):
        tree = [tree]
    leaves, structure = tree_flatten(tree)
    assert splitter(structure)(tree) == leaves
    assert joiner(structure)(leaves) == tree

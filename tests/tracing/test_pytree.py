"""Trees: what comes apart goes together again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import rlx
from rlx.errors import InputError


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Layer:
    w: Any
    b: Any
    name: str


rlx.register_dataclass(Layer, static=["name"])


def test_flattening_and_unflattening_give_the_tree_back() -> None:
    tree = {"b": [1, (2, None)], "a": Point(3, {"z": 4}), "c": Layer(5, 6, "first")}
    leaves, structure = rlx.tree_flatten(tree)
    assert leaves == [3, 4, 1, 2, 5, 6]
    assert rlx.tree_unflatten(structure, leaves) == tree


def test_static_fields_belong_to_the_structure() -> None:
    one, two = rlx.tree_structure(Layer(1, 2, "a")), rlx.tree_structure(Layer(1, 2, "b"))
    assert one != two
    assert one == rlx.tree_structure(Layer(3, 4, "a"))


def test_map_takes_trees_of_one_structure() -> None:
    assert rlx.tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]}) == {
        "a": 11,
        "b": [22],
    }
    with pytest.raises(InputError, match="the trees differ"):
        rlx.tree_map(lambda x, y: x, [1, 2], [1])


def test_keys_without_an_order_are_refused() -> None:
    with pytest.raises(InputError, match="order"):
        rlx.tree_leaves({1: 0, "a": 0})


def test_a_class_is_registered_once() -> None:
    with pytest.raises(InputError, match="already"):
        rlx.register_dataclass(Layer)


def test_dataclasses_pass_through_transformations() -> None:
    layer = Layer(np.ones(2), np.ones(2), "linear")
    gradient = rlx.grad(lambda p: (p.w * p.w * p.b).sum())(layer)
    assert gradient.name == "linear"
    np.testing.assert_array_equal(gradient.w, [2.0, 2.0])


@pytest.mark.parametrize("is_leaf", [None, lambda x: x is None])
def test_trees_nest_only_so_deep(is_leaf: Any) -> None:
    endless = list[Any]()
    endless.append(endless)
    for tree in (nested(2000), endless):
        with pytest.raises(InputError, match="deeper than Python's stack"):
            rlx.tree_leaves(tree, is_leaf)


@pytest.mark.parametrize("depth", [200, 300, 400, 480])
def test_operations_on_deep_trees_work_or_are_refused(depth: int) -> None:
    tree = nested(depth)
    try:
        structure = rlx.tree_structure(tree)
        assert structure == rlx.tree_structure(tree)
        assert "..." in str(structure)
        assert rlx.tree_map(lambda x: x, tree) == tree
        hash(structure)
    except InputError:
        assert depth > 200
        with pytest.raises(InputError, match="deeper than Python's stack"):
            hash(rlx.tree_structure(tree))


def nested(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree

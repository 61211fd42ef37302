"""Trees under JAX's names, compared with JAX's own."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import rlx
from rlx import tree_util
from rlx.errors import InputError


class Pair(NamedTuple):
    first: Any
    second: Any


TREE = {"b": [1, (2, None)], "a": Pair(3, OrderedDict(z=4, y=5)), "c": defaultdict(int, k=6)}


def test_leaves_and_paths_are_jaxs() -> None:
    jax = pytest.importorskip("jax")
    other, own = jax.tree_util, tree_util
    assert own.tree_leaves(TREE) == other.tree_leaves(TREE)
    paths = [(own.keystr(path), leaf) for path, leaf in own.tree_leaves_with_path(TREE)]
    assert paths == [(other.keystr(path), leaf) for path, leaf in other.tree_leaves_with_path(TREE)]
    assert own.tree_map(lambda x: x + 1, TREE) == other.tree_map(lambda x: x + 1, TREE)


def test_is_leaf_stops_at_containers() -> None:
    found = tree_util.tree_leaves(TREE, is_leaf=lambda x: isinstance(x, tuple))
    assert found == [Pair(3, OrderedDict(z=4, y=5)), 1, (2, None), 6]


def test_other_trees_may_go_deeper() -> None:
    found = tree_util.tree_map(lambda x, y: (x, sum(y)), [1, 2], [[3, 4], (5, 6)])
    assert found == [(1, 7), (2, 11)]
    with pytest.raises(InputError, match="the trees differ"):
        tree_util.tree_map(max, [1, 2], [1, 2, 3])


def test_classes_and_partial_functions_are_containers() -> None:
    @tree_util.register_pytree_node_class
    class Scaled:
        def __init__(self, x: Any, name: str) -> None:
            self.x, self.name = x, name

        def tree_flatten(self) -> Any:
            return (self.x,), self.name

        @classmethod
        def tree_unflatten(cls, name: str, children: Any) -> Scaled:
            return Scaled(children[0], name)

    found = rlx.jit(lambda s: Scaled(s.x * 2, s.name))(Scaled(np.ones(2), "unit"))
    np.testing.assert_array_equal(found.x, [2, 2])
    assert found.name == "unit"
    power = tree_util.Partial(np.power, 2.0)
    assert tree_util.tree_leaves(power) == [2.0]
    assert tree_util.tree_map(lambda x: x + 1, power)(2) == 9


def test_trees_of_trees_turn_inside_out() -> None:
    outer = tree_util.tree_structure([0, 0])
    found = tree_util.tree_transpose(outer, None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert found == {"a": [1, 3], "b": [2, 4]}
    assert tree_util.tree_reduce(lambda a, b: a + b, TREE, 100) == 121
    assert tree_util.treedef_children(outer) == [tree_util.tree_structure(0)] * 2


@rlx.tree_util.register_pytree_with_keys_class
class Keyed:
    """Two parts, of which the second comes first."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def tree_flatten_with_keys(self) -> Any:
        keys = rlx.tree_util.GetAttrKey("b"), rlx.tree_util.DictKey("a")
        return ((keys[0], self.b), (keys[1], self.a)), None

    @classmethod
    def tree_unflatten(cls, extra: Any, children: Any) -> Keyed:
        del extra
        return cls(children[1], children[0])


def test_containers_that_name_their_children() -> None:
    tree = {"x": Keyed(1, [2, 3])}
    paths = [rlx.tree_util.keystr(path) for path, _ in rlx.tree_util.tree_leaves_with_path(tree)]
    assert paths == ["['x'].b[0]", "['x'].b[1]", "['x']['a']"]
    doubled = rlx.tree_util.tree_map(lambda x: 2 * x, tree)["x"]
    assert (doubled.a, doubled.b) == (2, [4, 6])
    assert rlx.tree_util.flatten_one_level(Keyed(1, [2, 3])) == ([[2, 3], 1], None)
    pairs, _ = rlx.tree_util.flatten_one_level_with_keys({"p": [1], "q": 2})
    assert [(str(key), child) for key, child in pairs] == [("['p']", [1]), ("['q']", 2)]
    with pytest.raises(InputError, match="is a leaf"):
        rlx.tree_util.flatten_one_level(3)


def test_prefixes_are_broadcast_and_leaves_combined_in_pairs() -> None:
    full = {"p": [1, 2], "q": 3}
    assert rlx.tree_util.tree_broadcast({"p": 7, "q": 8}, full) == {"p": [7, 7], "q": 8}
    joined = rlx.tree_util.tree_reduce_associative(lambda a, b: f"({a}{b})", [*"abcde"])
    assert joined == "(((ab)(cd))e)"
    assert rlx.tree_util.tree_reduce_associative(max, [], identity=0) == 0
    with pytest.raises(InputError, match="no leaves"):
        rlx.tree_util.tree_reduce_associative(max, [])

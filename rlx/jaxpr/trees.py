"""JAX's containers and arrays in trees of rlx, so that models of libraries pass through `rlx.jit`.

Instances of a class that is registered with JAX come apart as a whole: their arrays are leaves,
anything else that they hold (functions, strings) belongs to the structure. Numbers of Python
inside of an Equinox module do, too, as under `equinox.filter_jit`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_flatten, tree_flatten_with_path, tree_unflatten

from rlx.jaxpr.internals import is_key
from rlx.jaxpr.types import Key, argument_array, words_of_keys
from rlx.runtime.arrays import BUFFER_CLASSES
from rlx.tracing.pytree import (
    TreeKind,
    register_foreign_array,
    register_foreign_trees,
    register_pytree_node,
)
from rlx.tracing.trace import TracedArray

_NUMBERS = (bool, int, float, complex)
_ARRAYS = (TracedArray, np.ndarray, np.generic, jax.Array, Key, jax.ShapeDtypeStruct)


@dataclass(frozen=True, slots=True)
class Fixed:
    """What is no array in a tree: compared by value where it can be hashed, else by identity."""

    value: Any

    def __hash__(self) -> int:
        try:
            return hash((self.value.__class__, self.value))
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed) or self.value.__class__ is not other.value.__class__:
            return False
        if self.value is other.value:
            return True
        try:
            hash(self.value)
        except TypeError:
            return False
        return bool(self.value == other.value)


_HOLE = object()


@dataclass(frozen=True, slots=True)
class Structure:
    """A tree of JAX without its arrays."""

    tree: Any
    """JAX's tree, whose leaves are arrays and what is fixed."""
    fixed: tuple[Fixed, ...] = ()
    """One for each leaf, arrays leave holes; none where all leaves are arrays."""

    def join(self, arrays: Sequence[Any]) -> Any:
        """Return the tree with `arrays` in its holes."""
        if not self.fixed:
            return self.tree.unflatten(arrays)
        given = iter(arrays)
        leaves = [next(given) if f.value is _HOLE else f.value for f in self.fixed]
        return self.tree.unflatten(leaves)

    def mark(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the leaves with `arrays` in the holes; others are `Fixed`."""
        given = iter(arrays)
        holes = self.fixed or [_ALL_ELEMENTS] * len(arrays)
        return [next(given) if f.value is _HOLE else f for f in holes]

    def names(self) -> list[str]:
        """Return a name for each array, by its path."""
        numbered = tree_unflatten(self.tree, range(self.tree.num_leaves))
        paths, _ = tree_flatten_with_path(numbered)
        holes = [f.value is _HOLE for f in self.fixed] or [True] * len(paths)
        return [_name(path) for (path, _), is_hole in zip(paths, holes, strict=True) if is_hole]


def _name(path: Sequence[Any]) -> str:
    parts = []
    for entry in path:
        names = (getattr(entry, a, None) for a in ("name", "key", "idx"))
        parts.append(str(next((n for n in names if n is not None), entry)))
    return "_".join(parts) or "value"


_ALL_ELEMENTS = Fixed(_HOLE)


def split(tree: Any) -> tuple[list[Any], Structure]:
    """Return the arrays and numbers of a tree of JAX's containers, and its structure."""
    leaves, treedef = tree_flatten(tree, is_leaf=_is_leaf)
    if all(isinstance(leaf, _ARRAYS) for leaf in leaves):
        return leaves, Structure(treedef)
    numbers = _number_places(tree)
    arrays, fixed = [], []
    for place, leaf in enumerate(leaves):
        moves = isinstance(leaf, _ARRAYS) or (isinstance(leaf, _NUMBERS) and place not in numbers)
        fixed.append(_ALL_ELEMENTS if moves else Fixed(leaf))
        if moves:
            arrays.append(leaf)
    return arrays, Structure(
        treedef, () if all(f is _ALL_ELEMENTS for f in fixed) else tuple(fixed)
    )


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Key)


def _is_module(x: Any) -> bool:
    names = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(x).__mro__)
    return any(name.startswith("equinox.") and name.endswith("Module") for name in names)


def _number_places(tree: Any) -> frozenset[int]:
    """Return the places of leaves that are numbers inside of an Equinox module."""
    parts = jax.tree_util.tree_leaves(tree, is_leaf=lambda x: _is_leaf(x) or _is_module(x))
    places: set[int] = set()
    start = 0
    for part in parts:
        leaves = jax.tree_util.tree_leaves(part, is_leaf=_is_leaf) if _is_module(part) else [part]
        if _is_module(part):
            places |= {start + i for i, x in enumerate(leaves) if isinstance(x, _NUMBERS)}
        start += len(leaves)
    return frozenset(places)


# In trees of rlx


def _found_kind(x: Any) -> TreeKind | None:
    """Return how rlx takes an instance of a class of JAX's registry apart."""
    if isinstance(x, jax.Array) and is_key(x):
        return TreeKind(_split_keys, Key.join, _keys_label)
    if jax.tree_util.all_leaves([x]):
        return None
    return TreeKind(_split_foreign, _join_foreign, _foreign_labels)


def _split_keys(keys: Any) -> tuple[Sequence[Any], Hashable]:
    return [words_of_keys(keys)], str(keys.dtype._impl.name)


def _keys_label(_: Hashable, __: int) -> Sequence[str]:
    return ["key"]


def _split_foreign(x: Any) -> tuple[Sequence[Any], Hashable]:
    arrays, structure = split(x)
    return list(map(argument_array, arrays)), structure


def _join_foreign(structure: Any, children: list[Any]) -> Any:
    return structure.join(children)


def _foreign_labels(structure: Any, _: int) -> Sequence[str]:
    labels: list[str] = structure.names()
    return labels


register_foreign_trees(_found_kind)
JAX_ARRAY: Any = type(jax.numpy.zeros(0))
"""The class of JAX's arrays in memory."""
BUFFER_CLASSES[:] = [JAX_ARRAY]
register_foreign_array(JAX_ARRAY, argument_array)
register_pytree_node(Key, lambda k: ((k.words,), k.implementation), Key.join)

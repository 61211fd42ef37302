"""Trees under JAX's names: `rlx.tree_util.tree_map_with_path`, `register_pytree_node_class`, ...

What a tree is, and the functions that rlx itself uses, stand in `rlx.tracing.pytree`.
"""

from __future__ import annotations

import builtins
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from rlx.errors import InputError
from rlx.tracing.pytree import LEAF as _LEAF
from rlx.tracing.pytree import IsLeaf, kind_of, kind_of_class
from rlx.tracing.pytree import TreeDef as PyTreeDef
from rlx.tracing.pytree import register_dataclass as _register_dataclass
from rlx.tracing.pytree import register_pytree_node as register_pytree_node
from rlx.tracing.pytree import tree_flatten as tree_flatten
from rlx.tracing.pytree import tree_leaves as tree_leaves
from rlx.tracing.pytree import tree_map as tree_map
from rlx.tracing.pytree import tree_structure as tree_structure
from rlx.tracing.pytree import tree_unflatten as tree_unflatten

_Class = TypeVar("_Class", bound=type)


# Classes


def register_pytree_node_class(cls: _Class) -> _Class:
    """Make a class with methods `tree_flatten` and `tree_unflatten` a container."""

    def join(extra: Hashable, children: list[Any]) -> Any:
        return cls.tree_unflatten(extra, tuple(children))  # type: ignore[attr-defined]  # asked of it

    register_pytree_node(cls, lambda x: x.tree_flatten(), join)
    return cls


def register_dataclass(
    nodetype: _Class,
    data_fields: Iterable[str] | None = None,
    meta_fields: Iterable[str] = (),
    drop_fields: Iterable[str] = (),
) -> _Class:
    """Make a dataclass a container of its data fields; its meta fields belong to the structure."""
    del data_fields, drop_fields
    return _register_dataclass(nodetype, static=meta_fields)


def register_static(cls: _Class) -> _Class:
    """Make objects of a hashable class parts of the structure, without leaves."""
    register_pytree_node(cls, lambda x: ((), x), lambda x, _: x)
    return cls


class Partial(functools.partial[Any]):
    """`functools.partial` whose arguments are leaves; the function belongs to the structure."""


register_pytree_node(
    Partial,
    lambda x: ((x.args, x.keywords), x.func),
    lambda function, children: Partial(function, *children[0], **children[1]),  # type: ignore[arg-type]  # what was split
)


# Leaves


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """True if all leaves are."""
    return builtins.all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """True if each element is a leaf."""
    return builtins.all(tree_structure(each, is_leaf) == _LEAF for each in iterable)


_ABSENT = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _ABSENT,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves from the first to the last."""
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _ABSENT:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, tree: Any) -> Any:
    """Turn a tree of trees inside out."""
    parts = outer_treedef.flatten_up_to(tree)
    inner = tree_structure(parts[0]) if inner_treedef is None else inner_treedef
    rows = [inner.flatten_up_to(part) for part in parts]
    columns = zip(*rows, strict=True)
    return inner.unflatten([outer_treedef.unflatten(column) for column in columns])


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the parts."""
    return [*treedef.children]


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """True for the structure of a leaf."""
    return treedef == _LEAF


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees."""
    return PyTreeDef(tuple, None, tuple(treedefs))


# Paths


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class DictKey:
    """A key of a dict."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """A field of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """A place among the children of a container of another class."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
KeyPath = tuple[KeyEntry, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as the expression that reaches the leaf."""
    if simple:
        return separator.join(str(*vars(key).values()) for key in keys)
    return separator.join(map(str, keys))


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves with their paths, and the structure."""
    leaves, treedef = tree_flatten(tree, is_leaf)
    return [*zip(_paths(treedef), leaves, strict=True)], treedef


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves with their paths."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(
    function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` of a function that is given the path first."""
    leaves, treedef = tree_flatten(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten(map(function, _paths(treedef), leaves, *others))


def _paths(treedef: PyTreeDef) -> list[KeyPath]:
    if treedef == _LEAF:
        return [()]
    pairs = zip(_entries(treedef), treedef.children, strict=True)
    return [(entry, *path) for entry, child in pairs for path in _paths(child)]


def _entries(treedef: PyTreeDef) -> list[KeyEntry]:
    """Return the step to each child."""
    cls, extra = treedef.cls, treedef.extra
    if cls is None:
        raise InputError("a leaf has no children", remedy="ask for the children of a container")
    if cls in (tuple, list):
        return [SequenceKey(place) for place in range(len(treedef.children))]
    if cls in (dict, OrderedDict, defaultdict):
        keys: Any = extra if cls is not defaultdict else extra[1]  # type: ignore[index]  # its keys
        return [DictKey(key) for key in keys]
    labels = kind_of_class(cls).labels(extra, len(treedef.children))
    if [*labels] == [str(place) for place in range(len(labels))]:
        return [FlattenedIndexKey(place) for place in range(len(labels))]
    return [GetAttrKey(label) for label in labels]


def is_tree_node(x: Any) -> bool:
    """True for containers."""
    return kind_of(x) is not None

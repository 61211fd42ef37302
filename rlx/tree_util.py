"""Trees under JAX's names: `rlx.tree_util.tree_map_with_path`, `register_pytree_node_class`, ...

What a tree is, and the functions that rlx itself uses, are in `rlx.tracing.pytree`.
"""

from __future__ import annotations

import builtins
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.public_names import names_of as _names_of
from rlx.tracing.pytree import LEAF as _LEAF
from rlx.tracing.pytree import IsLeaf, broadcast_prefix, kind_of, kind_of_class
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
    """Make a dataclass a container of its data fields; its meta fields belong to the structure.

    These are named, or marked by `field(metadata={"static": True})`.
    """
    del drop_fields
    if data_fields is None:
        marked = (f.name for f in fields(nodetype) if f.metadata.get("static", False))
        meta_fields = (*meta_fields, *marked)
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
    if isinstance(extra, _Keyed):
        return [*extra.keys]
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


# Containers that name their children


@dataclass(frozen=True)
class _Keyed:
    """What rebuilds an object, and the keys of its children."""

    extra: Hashable
    keys: KeyPath


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], Any] | None = None,
) -> None:
    """Make a class a container whose children have keys, which occur in the paths of leaves."""
    del flatten_func

    def split(x: Any) -> tuple[list[Any], Hashable]:
        pairs, extra = flatten_with_keys(x)
        pairs = [*pairs]
        return [child for _, child in pairs], _Keyed(extra, tuple(key for key, _ in pairs))

    def join(keyed: Any, children: list[Any]) -> Any:
        return unflatten_func(keyed.extra, tuple(children))

    register_pytree_node(nodetype, split, join)


def register_pytree_with_keys_class(cls: _Class) -> _Class:
    """Do the same by the methods `tree_flatten_with_keys` and `tree_unflatten`."""
    unflatten: Any = cls.tree_unflatten  # type: ignore[attr-defined]  # asked of it
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), unflatten)
    return cls


# One level


def flatten_one_level(tree: Any) -> tuple[list[Any], Hashable]:
    """The children of a container, and what rebuilds it from them."""
    kind = kind_of(tree)
    if kind is None:
        raise InputError(f"{tree!r} is a leaf; it has no children", remedy="pass a container")
    children, extra = kind.split(tree)
    return [*children], extra.extra if isinstance(extra, _Keyed) else extra


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[KeyEntry, Any]], Hashable]:
    """The children of a container with their keys, and what rebuilds it from them."""
    children, extra = flatten_one_level(tree)
    level = tree_structure(tree, lambda x: x is not tree)
    return [*zip(_entries(level), children, strict=True)], extra


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree like `full_tree` in which a leaf of `prefix_tree` applies to all below it."""
    treedef = tree_structure(full_tree, is_leaf)
    return treedef.unflatten(broadcast_prefix(prefix_tree, treedef, "prefix_tree"))


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _ABSENT,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine neighboring leaves, then pairs of pairs: as many steps deep as their logarithm."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _ABSENT:
            raise InputError("the tree has no leaves", remedy="pass identity=")
        return identity
    while len(leaves) > 1:
        pairs = zip(leaves[::2], leaves[1::2], strict=False)
        leaves = [*(operation(*pair) for pair in pairs), *leaves[len(leaves) & ~1 :]]
    return leaves[0]


__dir__ = _names_of(__name__)

"""Pytrees: nested containers of arrays.

Tuples, lists, dicts (in the order of their sorted keys), `None`, named tuples and registered
dataclasses are containers; everything else is a leaf.

    leaves, tree = tree_flatten({"w": w, "layers": [(a, b), None]})
    tree_unflatten(tree, leaves)
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from rlx.dataclass import dataclass
from rlx.errors import InputError

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class TreeKind:
    """How one class of container comes apart and is put together again."""

    split: Callable[[Any], tuple[Sequence[Any], Hashable]]
    """Its children, and what else is needed to rebuild it."""
    join: Callable[[Hashable, list[Any]], Any]
    labels: Callable[[Hashable, int], Sequence[str]]
    """A name for each child, for messages and for the inputs of a graph."""


_DEEPEST_SHOWN = 32
"""Containers in containers that messages print."""


@dataclass(frozen=True, slots=True)
class TreeDef:
    """The structure of a tree: its containers without its leaves. Hashable."""

    cls: type | None
    """The class of the container; `None` for a leaf."""
    extra: Hashable = None
    children: tuple[TreeDef, ...] = ()

    @property
    def leaf_count(self) -> int:
        return 1 if self.cls is None else sum(child.leaf_count for child in self.children)

    @property
    def num_leaves(self) -> int:
        return self.leaf_count

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeDef):
            return NotImplemented
        try:
            own, theirs = (self.cls, self.extra), (other.cls, other.extra)
            return own == theirs and self.children == other.children
        except RecursionError:  # four calls of Python's stack for each level
            return _are_equal(self, other)

    def __hash__(self) -> int:
        try:
            return hash((self.cls, self.extra, self.children))
        except RecursionError:
            raise _too_deep() from None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this structure with `leaves`."""
        return tree_unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the parts of `tree` where this structure has leaves."""
        return flatten_up_to(self, tree, "flatten_up_to")

    def __str__(self) -> str:
        return self._text(_DEEPEST_SHOWN)

    def _text(self, room: int) -> str:
        if self.cls is None:
            return "*"
        inner = ", ".join([child._text(room - 1) for child in self.children]) if room else "..."
        extra = "" if self.extra is None else f"{self.extra!r}: "
        return f"{self.cls.__name__}({extra}{inner})"


def _are_equal(left: TreeDef, right: TreeDef) -> bool:
    """Compare trees that nest too deeply for recursion."""
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if a.cls is not b.cls or a.extra != b.extra or len(a.children) != len(b.children):
            return False
        pairs.extend(zip(a.children, b.children, strict=True))
    return True


LEAF = TreeDef(None)


def kind_of(tree: Any) -> TreeKind | None:
    """Return how the container `tree` is handled; `None` for a leaf."""
    cls = tree.__class__
    kind = _KINDS.get(cls)
    if kind is not None or cls in _LEAF_CLASSES:
        return kind
    kind = _named_tuple(cls) if issubclass(cls, tuple) else None
    for find in _FOREIGN_KINDS:
        kind = kind or find(tree)
    if kind is not None:
        _KINDS[cls] = kind
    elif len(_LEAF_CLASSES) < _MOST_LEAF_CLASSES:
        _LEAF_CLASSES.add(cls)
    return kind


def kind_of_class(cls: type) -> TreeKind:
    """Return how containers of class `cls`, which a `TreeDef` names, are handled."""
    return _KINDS[cls]


def register_foreign_trees(find: Callable[[Any], TreeKind | None]) -> None:
    """Let `find` say how instances of classes unknown here come apart; None for leaves."""
    _FOREIGN_KINDS.append(find)
    _LEAF_CLASSES.clear()


def register_foreign_array(cls: type, convert: Callable[[Any], Any]) -> None:
    """Take instances of another library's array class as leaves, which `convert` makes NumPy's."""
    _FOREIGN_ARRAYS[cls] = convert


def foreign_array_converter(cls: type) -> Callable[[Any], Any] | None:
    """Return what makes NumPy arrays of instances of a registered class; None for other classes."""
    return _FOREIGN_ARRAYS.get(cls)


def register_pytree_node(
    cls: type,
    split: Callable[[Any], tuple[Sequence[Any], Hashable]],
    join: Callable[[Hashable, list[Any]], Any],
) -> None:
    """Make `cls` a container: `split(x)` gives (children, extra), `join(extra, children)` x."""
    if cls in _KINDS:
        raise InputError(f"{cls.__name__} is a container already", remedy="register it once")
    _KINDS[cls] = TreeKind(split, join, _numbered)


def register_dataclass(cls: _Class, *, static: Iterable[str] = ()) -> _Class:
    """Make a dataclass a container, also as a decorator. `static` fields belong to the structure.

    Static fields must be hashable; a jitted function compiles anew for each of their values.
    """
    fixed = tuple(static)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    unknown = [name for name in fixed if name not in names]
    if unknown:
        raise InputError(
            f"{cls.__name__} has no field {', '.join(unknown)}",
            remedy="name fields of the dataclass only",
        )
    moving = tuple(name for name in names if name not in fixed)

    def split(x: Any) -> tuple[list[Any], Hashable]:
        return [getattr(x, n) for n in moving], tuple(getattr(x, n) for n in fixed)

    def join(extra: Any, children: list[Any]) -> Any:
        fields = dict(zip(moving, children, strict=True))
        return cls(**fields, **dict(zip(fixed, extra, strict=True)))

    def labels(_: Hashable, __: int) -> tuple[str, ...]:
        return moving

    if cls in _KINDS:
        raise InputError(f"{cls.__name__} is a container already", remedy="register it once")
    _KINDS[cls] = TreeKind(split, join, labels)
    return cls


IsLeaf = Callable[[Any], bool] | None
"""What else counts as a leaf, by its value."""


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves of `tree` in order, and its structure; `is_leaf` stops at containers."""
    leaves: list[Any] = []
    try:
        if is_leaf is None:
            return leaves, _flatten(tree, leaves)
        return leaves, _flatten_until(is_leaf, tree, leaves)
    except RecursionError:
        raise _too_deep() from None


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of structure `treedef` with `leaves`."""
    given = list(leaves)
    try:
        return _unflattened(treedef, given)
    except RecursionError:
        raise _too_deep() from None


def _unflattened(treedef: TreeDef, given: list[Any]) -> Any:
    if len(given) != treedef.leaf_count:
        raise InputError(
            f"{treedef} has {treedef.leaf_count} leaves and was given {len(given)}",
            remedy="give one leaf for each, in the order of rlx.tree_leaves",
        )
    return _build(treedef, iter(given))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    return tree_flatten(tree, is_leaf)[1]


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply `function` to the leaves of `tree`, and to what the others have in their places."""
    leaves, treedef = tree_flatten(tree, is_leaf)
    others = [flatten_up_to(treedef, other, "tree_map") for other in rest]
    return tree_unflatten(treedef, [function(*each) for each in zip(leaves, *others, strict=True)])


def flatten_like(treedef: TreeDef, tree: Any, what: str) -> list[Any]:
    """Return the leaves of `tree`, whose structure must be `treedef`."""
    leaves, own = tree_flatten(tree)
    if own != treedef:
        raise InputError(
            f"{what}: the trees differ: {own} is given where {treedef} is expected",
            remedy="give both trees the same containers and keys",
        )
    return leaves


def flatten_up_to(treedef: TreeDef, tree: Any, what: str) -> list[Any]:
    """Return the parts of `tree` where `treedef` has leaves; above them, both must agree."""
    if treedef.cls is None:
        return [tree]
    kind = kind_of(tree)
    children, extra = ((), None) if kind is None else kind.split(tree)
    if (
        tree.__class__ is not treedef.cls
        or extra != treedef.extra
        or (len(children) != len(treedef.children))
    ):
        own = tree_structure(tree)
        raise InputError(
            f"{what}: the trees differ: {own} is given where {treedef} is expected",
            remedy="give both trees the same containers and keys",
        )
    pairs = zip(treedef.children, children, strict=True)
    return [part for child, below in pairs for part in flatten_up_to(child, below, what)]


def broadcast_prefix(prefix: Any, treedef: TreeDef, what: str) -> list[Any]:
    """Return one entry per leaf of `treedef`; a leaf of `prefix` applies to all below it.

    `None` is a leaf here, as in `in_axes=(0, None)`.
    """
    kind = None if prefix is None else kind_of(prefix)
    if kind is None:
        return [prefix] * treedef.leaf_count
    children, _ = kind.split(prefix)
    alike = prefix.__class__ is treedef.cls or {prefix.__class__, treedef.cls} == {tuple, list}
    if not alike or len(children) != len(treedef.children):
        raise InputError(
            f"{what} is {prefix!r}; it must be a prefix of the tree {treedef}",
            remedy="give one entry for all, or one for each part of the tree",
        )
    pairs = zip(children, treedef.children, strict=True)
    return [entry for child, below in pairs for entry in broadcast_prefix(child, below, what)]


def leaf_names(treedef: TreeDef, name: str) -> list[str]:
    """Return an identifier-like name for each leaf: `params_layers_0_w`."""
    if treedef.cls is None:
        return [name]
    labels = _KINDS[treedef.cls].labels(treedef.extra, len(treedef.children))
    pairs = zip(labels, treedef.children, strict=True)
    return [
        leaf
        for label, child in pairs
        for leaf in leaf_names(child, f"{name}_{label}" if name else label)
    ]


def leaf_paths(treedef: TreeDef, name: str) -> list[str]:
    """Return each leaf as the expression that reaches it: `params['layers'][0].w`."""
    if treedef.cls is None:
        return [name]
    labels = _KINDS[treedef.cls].labels(treedef.extra, len(treedef.children))
    steps = [f".{label}" for label in labels]
    if treedef.cls is dict:
        steps = [f"[{key!r}]" for key in treedef.extra]  # type: ignore[attr-defined]  # its keys
    elif treedef.cls in (tuple, list):
        steps = [f"[{label}]" for label in labels]
    pairs = zip(steps, treedef.children, strict=True)
    return [path for step, child in pairs for path in leaf_paths(child, f"{name}{step}")]


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    kind = kind_of(tree)
    if kind is None:
        convert = _FOREIGN_ARRAYS.get(tree.__class__)
        leaves.append(tree if convert is None else convert(tree))
        return LEAF
    children, extra = kind.split(tree)
    return TreeDef(tree.__class__, extra, tuple([_flatten(child, leaves) for child in children]))


def _flatten_until(is_leaf: Callable[[Any], bool], tree: Any, leaves: list[Any]) -> TreeDef:
    kind = None if is_leaf(tree) else kind_of(tree)
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, extra = kind.split(tree)
    below = tuple([_flatten_until(is_leaf, child, leaves) for child in children])
    return TreeDef(tree.__class__, extra, below)


def _too_deep() -> InputError:
    return InputError(
        "a tree has containers in containers, deeper than Python's stack",
        remedy="check that no container holds itself; keep a long chain in a list instead",
    )


def _build(treedef: TreeDef, leaves: Any) -> Any:
    if treedef.cls is None:
        return next(leaves)
    children = [_build(child, leaves) for child in treedef.children]
    return _KINDS[treedef.cls].join(treedef.extra, children)


def _numbered(_: Hashable, count: int) -> list[str]:
    return [str(index) for index in range(count)]


def _split_dict(tree: dict[Any, Any]) -> tuple[list[Any], Hashable]:
    try:
        keys = tuple(sorted(tree))
    except TypeError:
        raise InputError(
            f"a dict has keys {list(tree)!r}, which have no order",
            remedy="use keys of one kind, as strings",
        ) from None
    return [tree[key] for key in keys], keys


def _named_tuple(cls: type) -> TreeKind | None:
    fields: tuple[str, ...] | None = getattr(cls, "_fields", None)
    if fields is None:
        return None
    names = fields
    return TreeKind(
        lambda x: (list(x), None), lambda _, children: cls(*children), lambda _, __: names
    )


def _keys(extra: Any) -> Any:
    """Return what a dict is rebuilt from besides its values."""
    return extra


def _join_dict(keys: Any, children: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, children, strict=True))


def _key_labels(keys: Any, _: int) -> list[str]:
    return [str(key) for key in keys]


_FOREIGN_KINDS: list[Callable[[Any], TreeKind | None]] = []
_FOREIGN_ARRAYS: dict[type, Callable[[Any], Any]] = {}
_LEAF_CLASSES: set[type] = set()
"""Classes that are known to be no containers."""
_MOST_LEAF_CLASSES = 256

_KINDS: dict[type, TreeKind] = {
    tuple: TreeKind(lambda x: (x, None), lambda _, children: tuple(children), _numbered),
    list: TreeKind(lambda x: (x, None), lambda _, children: children, _numbered),
    dict: TreeKind(_split_dict, _join_dict, _key_labels),
    OrderedDict: TreeKind(
        lambda x: (list(x.values()), tuple(x)),
        lambda keys, children: OrderedDict(zip(_keys(keys), children, strict=True)),
        _key_labels,
    ),
    defaultdict: TreeKind(
        lambda x: (_split_dict(x)[0], (x.default_factory, _split_dict(x)[1])),
        lambda extra, children: defaultdict(
            _keys(extra)[0], zip(_keys(extra)[1], children, strict=True)
        ),
        lambda extra, _: [str(key) for key in _keys(extra)[1]],
    ),
    type(None): TreeKind(lambda _: ((), None), lambda _, __: None, _numbered),
}

"""Flattening and unflattening of trees whose structure is known in advance.

    leaves = splitter(tree)(x)         # None if `x` has another structure
    joiner(tree)(leaves)               # the tree again

`tree_flatten` finds out what a tree is; these are functions written for one structure, and take
a tenth of its time. For `{"b": *, "w": [*, *]}` they are

    def split(x0):                                          def join(leaves):
      if x0.__class__ is not dict or len(x0) != 2: ...         y0 = [leaves[1], leaves[2]]
      x1 = x0['w']                                             y1 = {'b': leaves[0], 'w': y0}
      if x1.__class__ is not list or len(x1) != 2: ...         return y1
      return [x0['b'], x1[0], x1[1]]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rlx.tracing.pytree import TreeDef, kind_of_class

Split: TypeAlias = Callable[[Any], list[Any] | None]
Join: TypeAlias = Callable[[Sequence[Any]], Any]

_KEPT = 1024
_DISPLAYS: dict[type, tuple[str, str]] = {tuple: ("(", ")"), list: ("[", "]")}


@functools.lru_cache(_KEPT)
def splitter(tree: TreeDef) -> Split:
    """Return what takes trees of structure `tree` apart. Leaves may be anything."""
    writer = _SplitWriter()
    writer.visit(tree, "x")
    leaves = f"  return [{', '.join(writer.leaves)}]"
    split: Split = writer.define("split", "x", [*writer.lines, leaves])

    def checked(x: Any) -> list[Any] | None:
        try:
            return split(x)
        except KeyError:  # a dict of as many, but other keys
            return None

    return checked


@functools.lru_cache(_KEPT)
def joiner(tree: TreeDef) -> Join:
    """Return what makes trees of structure `tree`."""
    writer = _JoinWriter()
    result = writer.visit(tree)
    join: Join = writer.define("join", "leaves", [*writer.lines, f"  return {result}"])
    return join


class _Writer:
    """Lines of a function, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._objects: dict[str, Any] = {}

    def define(self, name: str, argument: str, lines: Sequence[str]) -> Any:
        source = "\n".join([f"def {name}({argument}):", *lines])
        exec(compile(source, f"<{name} a tree>", "exec"), self._objects)
        return self._objects[name]

    def constant(self, value: Any) -> str:
        """Return how to write a key, class or function."""
        if value.__class__ in (str, int):
            return repr(value)
        name = f"c{len(self._objects)}"
        self._objects[name] = value
        return name

    def fresh(self, letter: str) -> str:
        return f"{letter}{len(self.lines)}"


class _SplitWriter(_Writer):
    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[str] = []

    def visit(self, tree: TreeDef, place: str) -> None:
        """Write what looks at the container at `place`, an expression; note its leaves."""
        cls, count = tree.cls, len(tree.children)
        if cls is None:
            self.leaves.append(place)
            return
        name = self.fresh("x")
        self.lines.append(f"  {name} = {place}")
        if cls is dict or cls in _DISPLAYS:
            self._refuse(f"{name}.__class__ is not {cls.__name__} or len({name}) != {count}")
            keys: Any = tree.extra if cls is dict else range(count)
        else:
            name, keys = self._take_apart(tree, name), range(count)
        for key, child in zip(keys, tree.children, strict=True):
            self.visit(child, f"{name}[{self.constant(key)}]")

    def _take_apart(self, tree: TreeDef, name: str) -> str:
        """Write what opens another container, and return the name of its children."""
        assert tree.cls is not None, "a leaf is no container"
        split = self.constant(kind_of_class(tree.cls).split)
        self._refuse(f"{name}.__class__ is not {self.constant(tree.cls)}")
        parts = self.fresh("parts")
        self.lines.append(f"  {parts}, extra = {split}({name})")
        own = self.constant(tree.extra)
        self._refuse(f"len({parts}) != {len(tree.children)} or extra != {own}")
        return parts

    def _refuse(self, condition: str) -> None:
        self.lines.append(f"  if {condition}: return None")


class _JoinWriter(_Writer):
    def __init__(self) -> None:
        super().__init__()
        self._leaves = 0

    def visit(self, tree: TreeDef) -> str:
        """Write what makes the tree of the next leaves, and return its name."""
        if tree.cls is None:
            self._leaves += 1
            return f"leaves[{self._leaves - 1}]"
        children = [self.visit(child) for child in tree.children]
        name = self.fresh("y")
        self.lines.append(f"  {name} = {self._made(tree, children)}")
        return name

    def _made(self, tree: TreeDef, children: Sequence[str]) -> str:
        assert tree.cls is not None, "a leaf is no container"
        if tree.cls is dict:
            keys: Any = tree.extra
            pairs = zip(keys, children, strict=True)
            return f"{{{', '.join(f'{self.constant(key)}: {child}' for key, child in pairs)}}}"
        inner = "".join(f"{child}, " for child in children)
        if tree.cls in _DISPLAYS:
            opening, closing = _DISPLAYS[tree.cls]
            return f"{opening}{inner}{closing}"
        join = self.constant(kind_of_class(tree.cls).join)
        return f"{join}({self.constant(tree.extra)}, [{inner}])"

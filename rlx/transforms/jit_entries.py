"""Entries of compiled functions, and their fast paths for arguments of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlx.dataclass import dataclass
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Value
from rlx.ir.types import TensorType
from rlx.runtime.arrays import WeakArray, frozen
from rlx.tracing.executor import QuickCall, Run
from rlx.tracing.known_trees import Join, Split, joiner, splitter
from rlx.tracing.pytree import (
    LEAF,
    TreeDef,
    foreign_array_converter,
    tree_flatten,
    tree_unflatten,
)
from rlx.tracing.trace import concrete
from rlx.tracing.traced_function import (
    TracedFunction,
)

Key = tuple[Any, ...]
WEAK = (int, float, complex, WeakArray)


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled call: runs on leaves."""

    run: Run
    tree: TreeDef
    program: TracedFunction
    single: bool
    """The result is one array, without a container."""

    def results(self, leaves: Sequence[Any]) -> Any:
        weak = self.program.weak
        arrays = [frozen(x, w) for x, w in zip(self.run(*leaves), weak, strict=True)]
        return arrays[0] if self.single else tree_unflatten(self.tree, arrays)


def type_of_call(key: Key) -> Key:
    """Return the type on which a program depends, equal for a number and an array of its dtype."""
    narrow, tree, fixed, leaves = key
    return narrow, tree, fixed, tuple((dtype, shape) for dtype, shape, _ in leaves)


class _Bare(str):
    """A text that containers show without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def describe_key(key: Key) -> str:
    """Return what a call takes, as in `(f32[3], k=f32[])`."""
    _, tree, fixed, leaves = key
    types = [_Bare(TensorType(as_dtype(dtype), shape)) for dtype, shape, _ in leaves]
    given, named = tree_unflatten(tree, types)
    parts = [*map(repr, given), *(f"{name}={x!r}" for name, x in named.items())]
    parts += [f"{place}={value!r}" for place, _, value in fixed]
    return f"({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class FastPath:
    """To an entry, for arguments like those that it was made for."""

    entry: Entry
    attempt: QuickCall
    split: Split | None
    """None where every argument is an array."""
    join: Join | None
    """None where the result is an array."""
    converted: tuple[tuple[int, type, Callable[[Any], Any]], ...]
    """Which leaves are no arrays of NumPy, of which class, and what makes arrays of them."""

    @staticmethod
    def to(entry: Entry, attempt: QuickCall, args: tuple[Any, ...]) -> FastPath:
        _, tree = tree_flatten(args)
        classes = [leaf.__class__ for leaf in splitter(tree)(args) or ()]
        converters = [concrete if c in WEAK else foreign_array_converter(c) for c in classes]
        pairs = enumerate(zip(classes, converters, strict=True))
        converted = tuple((place, c, make) for place, (c, make) in pairs if make is not None)
        plain = not converted and all(child == LEAF for child in tree.children)
        return FastPath(
            entry,
            attempt,
            split=None if plain else splitter(tree),
            join=None if entry.single else joiner(entry.tree),
            converted=converted,
        )

    def leaves(self, args: tuple[Any, ...]) -> list[Any] | None:
        """Return the leaves of `args` as arrays; None if they are not alike."""
        found = None if self.split is None else self.split(args)
        if found is None:
            return None
        for place, cls, convert in self.converted:
            if found[place].__class__ is not cls:
                return None
            found[place] = convert(found[place])
        return found


def donate(program: TracedFunction, inputs: Sequence[Value]) -> None:
    """Let each input be replaced in place by the first free output of its type."""
    graph = program.graph
    free = dict(enumerate(graph.outputs))
    for value in inputs:
        fitting = [place for place, output in free.items() if output.type == value.type]
        if fitting:
            graph.donate(str(value.node.name), fitting[0])
            del free[fitting[0]]

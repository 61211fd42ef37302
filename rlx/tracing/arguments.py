"""Arguments of a function to be transformed: their positions, names and leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.source_lines import calling_source
from rlx.tracing.pytree import TreeDef, leaf_names, tree_flatten, tree_unflatten
from rlx.tracing.traced_function import Specification, specify


def positions(given: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """Return argument positions, negative ones counted from the end."""
    named = (given,) if isinstance(given, int) else tuple(given)
    for position in named:
        if not -count <= position < count:
            raise InputError(
                f"{what} names argument {position}, and the call has {count} positional",
                source=calling_source(),
                remedy="count positional arguments from 0",
            )
    return tuple(position % count for position in named)


@functools.lru_cache(maxsize=1024)
def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the positional parameters; none where they are unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds)


def argument_name(function: Callable[..., Any], position: int) -> str:
    names = parameter_names(function)
    return names[position] if position < len(names) else f"x{position}"


def call_names(function: Callable[..., Any], tree: TreeDef, places: Sequence[int]) -> list[str]:
    """Return a name for each leaf of `(args, kwargs)`; `places` are the positions of `args`."""
    positional, named = tree.children
    names: list[str] = []
    for place, child in zip(places, positional.children, strict=True):
        names += leaf_names(child, argument_name(function, place))
    return names + leaf_names(named, "")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some positional arguments of a call taken apart into leaves; the others stay as they are."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    positions: tuple[int, ...]
    trees: tuple[TreeDef, ...]
    leaves: list[Any]
    inputs: list[Specification]

    def call(self, leaves: Sequence[Any]) -> Any:
        """Call the function with other leaves in the chosen arguments."""
        args, rest = list(self.args), iter(leaves)
        for position, tree in zip(self.positions, self.trees, strict=True):
            args[position] = tree_unflatten(tree, [next(rest) for _ in range(tree.leaf_count)])
        return self.function(*args, **self.kwargs)

    def trees_of(self, leaves: Sequence[Any]) -> list[Any]:
        """Return `leaves` in the structures of the chosen arguments."""
        rest = iter(leaves)
        return [tree_unflatten(t, [next(rest) for _ in range(t.leaf_count)]) for t in self.trees]


def choose(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    chosen: tuple[int, ...],
) -> Chosen:
    """Take the arguments at positions `chosen` apart."""
    leaves: list[Any] = []
    trees: list[TreeDef] = []
    names: list[str] = []
    for position in chosen:
        own, tree = tree_flatten(args[position])
        leaves += own
        trees.append(tree)
        names += leaf_names(tree, argument_name(function, position))
    inputs = specify(names, leaves)
    return Chosen(function, args, kwargs, chosen, tuple(trees), leaves, inputs)

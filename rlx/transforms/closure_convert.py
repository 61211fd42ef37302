"""`closure_convert`: what a function reads from closures becomes arguments of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.tracing.arguments import call_names
from rlx.tracing.pytree import tree_flatten, tree_unflatten
from rlx.tracing.trace import source_names
from rlx.tracing.traced_function import specify, splice, trace


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return `fun` as a function of its arguments and of the traced arrays that it read, and those.

    `converted(*args, *read)` is `fun(*args)`, for arguments of the types of `example_args`.
    """
    leaves, tree = tree_flatten((example_args, {}))
    inputs = specify(call_names(fun, tree, range(len(example_args))), leaves)
    program = trace(
        lambda arrays: fun(*tree_unflatten(tree, arrays)[0]), source_names(fun, "function"), inputs
    )
    count = len(example_args)

    def converted(*args: Any) -> Any:
        given = tree_flatten((args[:count], {}))[0]
        results = splice(program.graph, [*given, *args[count:]], program.weak)
        return tree_unflatten(program.tree, results)

    return converted, list(program.captured)

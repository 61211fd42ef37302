"""Formulas that are traced once for arguments of some types, and copied where they occur again.

Tracing runs Python for each step of a formula, and takes ten times as long as copying its nodes.
Derivatives of special functions call the same formulas of the same types again and again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InternalError, Source
from rlx.ir.graph import Graph
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.tracing.arguments import argument_name
from rlx.tracing.pytree import TreeDef, tree_flatten, tree_unflatten
from rlx.tracing.trace import as_value, element_type, innermost, opened
from rlx.tracing.tracer import Tracer
from rlx.tracing.widths import width_rules

_MOST_KEPT = 128


@dataclass(frozen=True, slots=True)
class _Argument:
    """What a trace sees of an array, or an argument that is none."""

    type: TensorType | None
    weak: bool = False
    given: Any = None


@dataclass(frozen=True, slots=True)
class _Kept:
    graph: Graph
    tree: TreeDef
    weak: tuple[bool, ...]


def kept(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the traces of `formula`, which depends on its arguments alone: arrays and integers.

    It must call nothing with rules of its own: those depend on what is being differentiated.
    """

    @functools.wraps(formula)
    def call(*args: Any, **kwargs: Any) -> Any:
        others = [x for x in args if not isinstance(x, Tracer)]
        if kwargs or len(others) == len(args) or any(type(x) is not int for x in others):
            return formula(*args, **kwargs)  # numbers are constants of what is traced, if it is
        described = tuple(map(_described, args))
        found = _traced(formula, described, calling_source(), width_rules())
        trace = innermost()
        operands = [as_value(x) for x in args if isinstance(x, Tracer)]
        results = trace.graph.inline(found.graph, operands)
        pairs = zip(results, found.weak, strict=True)
        return tree_unflatten(found.tree, [Tracer(trace, value, weak) for value, weak in pairs])

    return call


def _described(x: Any) -> _Argument:
    return _Argument(x.value.type, x.weak) if isinstance(x, Tracer) else _Argument(None, given=x)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _traced(
    formula: Callable[..., Any],
    described: tuple[_Argument, ...],
    source: Source | None,  # the line that each node names
    widths: tuple[Any, ...],
) -> _Kept:
    del source, widths
    with opened(formula.__name__) as own:
        args: list[Any] = []
        for place, each in enumerate(described):
            if each.type is None:
                args.append(each.given)
            else:
                value = own.graph.input(
                    argument_name(formula, place), each.type.shape, each.type.dtype
                )
                args.append(Tracer(own, value, each.weak))
        leaves, tree = tree_flatten(formula(*args))
        own.graph.set_outputs([as_value(leaf) for leaf in leaves])
    if own.captured:
        raise InternalError(f"{formula.__name__} depends on more than its arguments")
    return _Kept(own.graph, tree, tuple(element_type(leaf).weak for leaf in leaves))

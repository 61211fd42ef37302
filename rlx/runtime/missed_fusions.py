"""Missed fusions of a program, for tests: what is stored between two kernels, and why.

rlx.assert_fusion_clean(step, params, batch, allow=[("softmax", "matmul")])
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from rlx.errors import InputError, MissedFusionError
from rlx.ir.graph import Graph
from rlx.ir.source_lines import calling_source
from rlx.passes.decisions import Decisions
from rlx.passes.fusion.reasons import MissedFusion
from rlx.passes.pipeline import pipeline
from rlx.passes.precision.mixed_precision import at_precision
from rlx.passes.precision.policy import Precision, target_at
from rlx.runtime.blas import has_lapack
from rlx.runtime.lower import claimed_ops
from rlx.runtime.tuned import with_schedules
from rlx.target import detect_target


@runtime_checkable
class Jitted(Protocol):
    """A function under `rlx.jit`."""

    def graph(self, *args: Any, **kwargs: Any) -> Graph: ...


def missed_fusions(
    graph_or_function: Graph | Jitted,
    *args: Any,
    precision: Precision = None,
    **kwargs: Any,
) -> tuple[MissedFusion, ...]:
    """Return each value that one kernel stores and another reads, elementwise work at one end.

    Of a graph, or of a function under `rlx.jit` called with `args` and `kwargs`, where an
    `rlx.ShapeDtypeStruct` may replace an array. Passes run as in `rlx.compile(...,
    precision=)` for this machine; nothing is compiled. Each has the nodes `producer` and
    `consumer` and an `obstacle`: a reason with its facts. `rlx inspect --why` prints them.
    """
    graph = _graph_of(graph_or_function, args, kwargs)
    target = target_at(with_schedules(detect_target(), None), precision)
    decisions, lapack = Decisions(), partial(has_lapack, target)
    passes = pipeline(claimed_ops(), target, lapack=lapack, decisions=decisions)
    passes.run(at_precision(graph, precision))
    return tuple(decisions.missed)


def assert_fusion_clean(
    graph_or_function: Graph | Jitted,
    *args: Any,
    allow: Iterable[tuple[str, str]] = (),
    precision: Precision = None,
    **kwargs: Any,
) -> None:
    """Raise `MissedFusionError`, an AssertionError, where `missed_fusions` finds any.

    Pairs in `allow`, names of the ops of producer and consumer, are no error.
    """
    found = missed_fusions(graph_or_function, *args, precision=precision, **kwargs)
    allowed = frozenset(allow)
    missed = [each for each in found if each.ops not in allowed]
    if missed:
        lines = "\n".join(f"  {each}" for each in missed)
        raise MissedFusionError(
            f"values stored by one kernel and read by another: {len(missed)}\n{lines}",
            missed=tuple(missed),
            source=calling_source(),
            remedy=f"change the program, or allow them: allow={sorted({m.ops for m in missed})}",
        )


def _graph_of(given: Graph | Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    if isinstance(given, Graph):
        if args or kwargs:
            raise InputError(
                "a graph has its types and takes no arguments",
                source=calling_source(),
                remedy="pass the graph alone, or a function under rlx.jit",
            )
        return given
    if not isinstance(given, Jitted):
        raise InputError(
            f"cannot find the fusions of a {type(given).__name__}",
            source=calling_source(),
            remedy="pass a Graph, or a function under rlx.jit with its arguments",
        )
    return given.graph(*args, **kwargs)

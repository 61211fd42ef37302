"""A function of one row, traced once and applied to all rows of an array together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.passes.vmap import vmap
from rlx.runtime.arrays import Array
from rlx.tracing.trace import source_names
from rlx.tracing.traced_function import at_shape, specification, splice, trace_body
from rlx.tracing.tracer import Tracer


def of_each_row(function: Callable[[Tracer], Any], rows: Array) -> Any:
    """Return what `function` makes of each `rows[i]`: one array, whose axis 0 counts the rows."""
    given = specification("row", rows)
    row = at_shape(given, given.type.shape[1:])
    name = source_names(function, "function")
    program = trace_body(lambda arrays: function(arrays[0]), name, [row])
    axes = [0, *[None] * len(program.captured)]
    graph = vmap(program.graph, axes, size=given.type.shape[0])
    (result,) = splice(graph, [rows, *program.captured], program.weak)
    return result

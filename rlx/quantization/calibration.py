"""Statistics of activations on a calibration set: one run of the graph for each batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import field
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, GraphError, InputError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import normalize_axis
from rlx.passes.rewrite import copy_node
from rlx.quantization.histogram import Histogram, Method
from rlx.quantization.requirements import require_batches, require_graph, require_progress
from rlx.runtime.compile import compile

Array = NDArray[Any]
Batch = Mapping[str, Any]
_BAR = 30
"""Characters of a full progress bar."""


@dataclass(slots=True)
class Activation:
    """What was seen of one value."""

    axis: int
    """Whose indices are channels."""
    histogram: Histogram = field(default_factory=Histogram)
    low: Array = field(default_factory=lambda: np.zeros(1, np.float32))
    """The least element of each channel, and no more than 0."""
    high: Array = field(default_factory=lambda: np.zeros(1, np.float32))
    """The greatest of each channel, and no less than 0."""
    first: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    """All of it on the first batch."""

    def add(self, x: Array) -> None:
        """Count what a batch gave."""
        self.histogram.add(x)
        if not self.first.size:
            self.first = np.array(x)
        rows = np.moveaxis(x, self.axis, -1).reshape(-1, x.shape[self.axis]) if x.ndim else x
        self.low = np.minimum(self.low, rows.min(axis=0, initial=0.0))
        self.high = np.maximum(self.high, rows.max(axis=0, initial=0.0))

    def scale(self, method: Method = "max", percentile: float = 99.99) -> float:
        """Return the scale that follows from the range."""
        return self.histogram.scale(method, percentile)


def calibrate(
    graph: Graph,
    taps: Sequence[Value],
    batches: Iterable[Any],
    *,
    params: Mapping[str, Any],
    axes: Sequence[int] | None = None,
    progress: TextIO | bool | None = None,
) -> dict[Value, Activation]:
    """Return what each of `taps`, values of `graph`, was over `batches` of inputs by name.

    `axes` says for each whose indices are channels, by default the last. `progress` is a stream
    for a bar, or True for the terminal's.
    """
    require_graph("calibrate", graph)
    for tap in taps:
        _require_tap(graph, tap)
    own = [-1] * len(taps) if axes is None else list(axes)
    if len(own) != len(taps):
        raise ShapeError(
            f"{len(own)} axes for {len(taps)} taps", remedy="give the axis of channels of each tap"
        )
    for tap, axis in zip(taps, own, strict=True):
        normalize_axis(axis, max(tap.rank, 1))
    run = compile(tapped(graph, taps), params=dict(params))
    return measured(taps, own, batches, run.run, progress=progress)


def measured(
    taps: Sequence[Value],
    axes: Sequence[int],
    batches: Iterable[Any],
    run: Callable[[Any], Sequence[Any]],
    *,
    progress: TextIO | bool | None,
) -> dict[Value, Activation]:
    """Return what each of `taps` was: `run` has the values of distinct taps for a batch."""
    require_batches(batches)
    found = {tap: Activation(axis) for tap, axis in zip(taps, axes, strict=True)}
    count = 0
    for batch in _shown(batches, progress):
        count += 1
        for (tap, activation), x in zip(found.items(), run(batch), strict=True):
            try:
                activation.add(x)
            except InputError as error:
                raise error.located(f"batch {count}: {tap.label}", tap.node.source) from None
    if found and not any(activation.first.size for activation in found.values()):
        raise InputError(
            "the calibration set has no element" if count else "the calibration set has no batch",
            remedy="give some inputs that are typical",
        )
    return found


def _require_tap(graph: Graph, tap: Any) -> None:
    if not isinstance(tap, Value) or tap.graph is not graph:
        shown = tap.label if isinstance(tap, Value) else repr(tap)
        raise GraphError(f"{shown} is not a value of this graph", remedy="tap values of this graph")
    if not tap.dtype.is_float:
        raise DTypeError(
            f"{tap.label} has dtype {tap.dtype} and is to be calibrated",
            remedy="tap float values of this graph",
        )


def tapped(graph: Graph, taps: Sequence[Value]) -> Graph:
    """Return a graph whose outputs are the distinct taps."""
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        copy_node(target, node, value_map)
    distinct = list(dict.fromkeys(taps))
    target.set_outputs([value_map[tap] for tap in distinct])
    return target


def _shown(batches: Iterable[Any], progress: TextIO | bool | None) -> Iterator[Any]:
    """Yield the batches; write a bar, or a count where the set does not know its length."""
    require_progress(progress)
    stream = sys.stderr if progress is True else progress
    if not stream:
        yield from batches
        return
    total = len(batches) if isinstance(batches, Sized) else 0
    for number, batch in enumerate(batches, start=1):
        yield batch
        full = _BAR * number // total if total else 0
        bar = f"[{'#' * full:<{_BAR}}] {number}/{total}" if total else f"{number} batches"
        stream.write(f"\rcalibrating {bar}")
        stream.flush()
    stream.write("\n")

"""What activations are on a calibration set: one run of the graph for each batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from rlx.errors import DTypeError, InputError
from rlx.ir.graph import Graph, Value
from rlx.passes.rewrite import copy_node
from rlx.quantization.histogram import Histogram, Method
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
    feed: Callable[[Any], Batch] | None = None,
) -> dict[Value, Activation]:
    """Return what each of `taps`, values of `graph`, was over `batches` of inputs by name.

    `axes` says for each whose indices are channels, by default the last. `progress` is a stream
    for a bar, or True for the terminal's. `feed` makes inputs by name of what `batches` has.
    """
    for tap in taps:
        if tap.graph is not graph or not tap.dtype.is_float:
            raise DTypeError(
                f"{tap.label} has dtype {tap.dtype} and is to be calibrated",
                remedy="tap float values of this graph",
            )
    found = {
        tap: Activation(axis) for tap, axis in zip(taps, axes or [-1] * len(taps), strict=True)
    }
    run = compile(_tapped(graph, taps), params=dict(params))
    count = 0
    for batch in _shown(batches, progress):
        for activation, x in zip(
            found.values(), run.run(feed(batch) if feed else batch), strict=True
        ):
            activation.add(x)
        count += 1
    if not count:
        raise InputError(
            "the calibration set has no batch", remedy="give some inputs that are typical"
        )
    return found


def _tapped(graph: Graph, taps: Sequence[Value]) -> Graph:
    """Return a graph whose outputs are the taps."""
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        copy_node(target, node, value_map)
    distinct = list(dict.fromkeys(taps))
    target.set_outputs([value_map[tap] for tap in distinct])
    return target


def _shown(batches: Iterable[Any], progress: TextIO | bool | None) -> Iterator[Any]:
    """Yield the batches; write a bar, or a count where the set does not know its length."""
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

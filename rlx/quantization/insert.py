"""Rounding of activations written into a graph: `quantize` and `dequantize` after tapped values.

entries = scales_of(calibrate(graph, taps, batches, params=params))
rounded = insert_q_dq(graph, entries)
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, GraphError, InputError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.quant import Integers, Scales
from rlx.passes.rewrite import copy_node, finish
from rlx.quantization.calibration import Activation
from rlx.quantization.histogram import Method
from rlx.quantization.requirements import require_graph


@dataclass(frozen=True, slots=True)
class CalibrationEntry:
    """How a value is rounded: the attributes of `quantize` and `dequantize`."""

    scales: Scales
    axis: int | None = None
    zero_points: Integers = ()

    @classmethod
    def per_tensor(cls, scale: float) -> CalibrationEntry:
        """One scale for the whole value."""
        return cls((scale,))

    @classmethod
    def per_channel(cls, axis: int, scales: Scales) -> CalibrationEntry:
        """A scale for each index of `axis`."""
        if not hasattr(scales, "__iter__"):
            raise InputError(
                f"scales is {scales!r}", remedy="give one for each index of the axis, or per_tensor"
            )
        return cls(tuple(scales), axis)


def scales_of(
    seen: Mapping[Value, Activation], method: Method = "max", percentile: float = 99.99
) -> dict[Value, CalibrationEntry]:
    """Return one scale for each calibrated value."""
    return {
        value: CalibrationEntry.per_tensor(activation.scale(method, percentile))
        for value, activation in seen.items()
    }


def insert_q_dq(graph: Graph, record: Mapping[Value, CalibrationEntry]) -> Graph:
    """Return `graph` with each value of `record` rounded: all that reads it reads the rounded one.

    A value that is followed by its own pair already stays as it is.
    """
    require_graph("insert_q_dq", graph)
    for tap, recorded in record.items():
        _require_tap(graph, tap)
        _require_entry(tap, recorded)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    users = graph.users()
    for node in graph.nodes:
        copy_node(target, node, value_map)
        for value in node.results:
            entry = record.get(value)
            alone = value not in graph.outputs
            if entry is not None and not (alone and _is_rounded(users[value], entry)):
                with target.attributed(node.source, node.scope):
                    value_map[value] = _pair(value_map[value], entry)
    finish(target, graph, value_map)
    return target


def _require_entry(tap: Value, entry: CalibrationEntry) -> None:
    if not isinstance(entry, CalibrationEntry):
        raise InputError(
            f"{tap.label} is recorded with a {type(entry).__name__}",
            remedy="record a CalibrationEntry, for example CalibrationEntry.per_tensor(0.1)",
        )


def _require_tap(graph: Graph, tap: Value) -> None:
    if not isinstance(tap, Value):
        raise GraphError(
            f"{tap!r} is not a value of the graph",
            remedy="tap values of the graph that is rewritten",
        )
    if tap.graph is not graph:
        raise GraphError(
            f"{tap.label} is a value of another graph",
            remedy="tap values of the graph that is rewritten",
        )
    if not tap.dtype.is_float:
        raise DTypeError(
            f"{tap.label} has dtype {tap.dtype} and cannot be rounded to eight bits",
            remedy="tap float values",
        )


def _pair(x: Value, entry: CalibrationEntry) -> Value:
    points = entry.zero_points or (0,) * len(entry.scales)
    codes = ops.quantize(x, scales=entry.scales, zero_points=points, axis=entry.axis)
    return ops.dequantize(codes, scales=entry.scales, zero_points=points, axis=entry.axis)


def _is_rounded(users: list[Node], entry: CalibrationEntry) -> bool:
    """True if all that reads a value is its own `quantize`."""
    points = entry.zero_points or (0,) * len(entry.scales)
    wanted = {"scales": tuple(entry.scales), "zero_points": points, "axis": entry.axis}
    return bool(users) and all(
        user.op is ops.quantize
        and {**user.attrs.as_dict(), "zero_points": user.attribute("zero_points") or points}
        == wanted
        for user in users
    )

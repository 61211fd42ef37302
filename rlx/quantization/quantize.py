"""Quantization after training: products with constant weights become integer products.

The input of each is measured on a calibration set and quantized with one scale, its weights with
one for each column or channel. Sums are exact in i32. What lies between stays in f32, and is
computed in the same kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.aot.state import inputs_as_params
from rlx.errors import GraphError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import copy_node, finish
from rlx.quantization.calibration import Activation, Batch, calibrate
from rlx.quantization.histogram import SMALLEST_SCALE, Method
from rlx.quantization.report import Layer, Report
from rlx.runtime.compile import compile

Array = NDArray[Any]
LONGEST_SUM = (2**31 - 1) // (255 * 127)
"""Products of an input by a weight that i32 can always add up."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A graph in eight bits, its params, and what became of each layer."""

    graph: Graph
    params: dict[str, Array]
    report: Report
    original: Graph
    """The graph in floats, with its weights as params."""


_LOPSIDED = 0.5
"""Share of the larger side of a range that the smaller one has where symmetric codes do."""
Scales = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Site:
    """A product of an activation by a param."""

    node: Node
    weights: str

    @property
    def activation(self) -> Value:
        return self.node.operands[0]

    @property
    def outputs_axis(self) -> int:
        """Which axis of the weights has a scale for each index."""
        return 1 if self.node.op is ops.matmul else 0

    @property
    def inputs_axis(self) -> int | None:
        """The axis of the weights that meets channels; None where groups have their own."""
        if self.node.op is ops.matmul:
            return 0
        return 1 if self.node.attribute("groups") == 1 else None

    @property
    def channels(self) -> int:
        """The axis of the activation whose indices are channels."""
        return self.activation.rank - 1 if self.node.op is ops.matmul else 1

    def scaled(self, w: Array, scales: Scales) -> Array:
        """Return the weights times the scales of the channels that they meet."""
        if self.inputs_axis is None or len(scales) == 1:
            return np.asarray(w * scales[0])
        scaled: Array = w * _along(scales, self.inputs_axis, w.ndim)
        return scaled


@dataclass(frozen=True, slots=True)
class _Choice:
    """What the caller wants."""

    method: Method
    percentile: float
    largest_error: float
    keep: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Rounding:
    """What becomes of a layer, and how its input is rounded."""

    layer: Layer
    input: _Steps


@dataclass(frozen=True, slots=True)
class _Steps:
    """The scales of an input, one or one for each channel, and its zero point."""

    scales: Scales
    zero: int = 0


def quantize(
    graph: Graph,
    calibration: Iterable[Batch],
    *,
    params: Mapping[str, Any],
    method: Method = "max",
    percentile: float = 99.99,
    largest_error: float = 0.1,
    keep: Sequence[str] = (),
    progress: TextIO | bool | None = None,
) -> Quantized:
    """Return `graph` with its products and convolutions by params in eight bits.

    `params` are the weights by name, whether the graph has them as params or as inputs;
    `calibration` gives the other inputs by name. `method` says how the range of an activation
    follows from what was seen: its maximum, a percentile, or the least divergence of
    distributions ("entropy"). Layers whose result is off by more than `largest_error` (of its norm,
    on the first batch), and those whose weights `keep` names, stay in floats; the report says
    which and why. `progress` is a stream for a bar, or True for the terminal's.
    """
    values = {name: np.asarray(array) for name, array in params.items()}
    graph = inputs_as_params(graph, values)
    sites = _sites(graph)
    if not sites:
        raise GraphError(
            f"graph {graph.name!r} has no product or convolution of an activation by a param",
            remedy="declare weights as params, and check that they are f32",
        )
    _require_known(keep, sites)
    inputs = {site.activation: site.channels for site in sites}
    seen = calibrate(
        graph, list(inputs), calibration, params=values, axes=list(inputs.values()),
        progress=progress,
    )  # fmt: skip
    choice = _Choice(method, percentile, largest_error, keep)
    roundings = [
        _rounding(site, seen[site.activation], values[site.weights], choice) for site in sites
    ]
    return _rewritten(graph, sites, roundings, values)


def _require_known(keep: Sequence[str], sites: Sequence[_Site]) -> None:
    known = [site.weights for site in sites]
    unknown = [name for name in keep if name not in known]
    if unknown:
        raise InputError(
            f"keep names {', '.join(unknown)}, which are weights of no product",
            remedy=f"name some of: {', '.join(known)}",
        )


def _sites(graph: Graph) -> list[_Site]:
    """Return the products whose second operand is an f32 param that nothing else reads."""
    readers: dict[Value, int] = {}
    for node in graph.nodes:
        for operand in node.operands:
            readers[operand] = readers.get(operand, 0) + 1
    found = []
    for node in graph.nodes:
        if node.op not in (ops.matmul, ops.conv):
            continue
        x, w = node.operands
        alone = w.op is ops.param and readers[w] == 1 and w not in graph.outputs
        fits = w.rank == 2 if node.op is ops.matmul else True
        if alone and fits and x.dtype is w.dtype is DType.F32:
            found.append(_Site(node, str(w.node.name)))
    return found


def _rounding(site: _Site, activation: Activation, w: Array, choice: _Choice) -> _Rounding:
    """Return how the input of a layer is rounded: the way that loses least."""
    scale = activation.histogram.scale(choice.method, choice.percentile)
    candidates = [_Steps(np.array([scale], np.float32))]
    if site.inputs_axis is not None:
        candidates.append(_equalized(activation, w, site.inputs_axis))
    errors = [_error(site, steps, activation.first, w) for steps in candidates]
    best = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    reason = "kept" if site.weights in choice.keep else ""
    if not reason and not errors[best] <= choice.largest_error:
        reason = f"error above {choice.largest_error:.0%}"
    if w.size // w.shape[site.outputs_axis] > LONGEST_SUM:
        reason = "its sums are beyond i32"
    kind, largest = site.node.op.name, float(candidates[best].scales.max())
    layer = Layer(site.weights, kind, largest, errors[best], w.nbytes, not reason, reason)
    return _Rounding(layer, candidates[best])


def _equalized(activation: Activation, w: Array, axis: int) -> _Steps:
    """Return a scale for each input channel, by the root of what inputs and weights have there.

    Weights are multiplied by the same before they are rounded, so that channels of outliers do not
    set the scale of all. Xiao et al., SmoothQuant (2023). What is mostly of one sign gets a zero
    point, and so all 256 codes.
    """
    others = tuple(other for other in range(w.ndim) if other != axis)
    weights = np.abs(w).max(axis=others, initial=0.0)
    channels = np.maximum(activation.high, -activation.low)
    known = (weights > 0) & (channels > 0)
    ratio = np.sqrt(np.where(known, channels, 1.0) / np.where(known, weights, 1.0))
    low = float(np.where(known, activation.low / ratio, 0.0).min(initial=0.0))
    high = float(np.where(known, activation.high / ratio, 0.0).max(initial=0.0))
    lopsided = min(high, -low) < _LOPSIDED * max(high, -low)
    step = (high - low) / 255.0 if lopsided else max(high, -low) / 127.0
    scales = np.maximum(ratio * step, SMALLEST_SCALE).astype(np.float32)
    return _Steps(scales, round(-128 - low / step) if lopsided else 0)


def _error(site: _Site, steps: _Steps, x: Array, w: Array) -> float:
    """Return how far the layer's result moves when input and weights are rounded."""
    exact = _result(site, x, w)
    scales, zero = steps.scales, steps.zero
    codes, factors = quantized_weights(site.scaled(w, scales), site.outputs_axis)
    step = _along(scales, site.channels, x.ndim) if len(scales) > 1 else scales[0]
    centered = np.clip(_round_away(x / step) + zero, -128, 127) - zero
    rounded = _result(site, centered, codes)
    factors = _along(factors, 1, x.ndim) if site.node.op is ops.conv else factors
    norm = float(np.linalg.norm(exact))
    return float(np.linalg.norm(rounded * factors - exact)) / norm if norm else 0.0


def _along(vector: Scales, axis: int, rank: int) -> Scales:
    """Return a vector in the shape that broadcasts along `axis`."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def _result(site: _Site, x: Array, w: Array) -> Array:
    graph = Graph("layer")
    given = [np.asarray(array, np.float32) for array in (x, w)]
    inputs = [graph.input(name, a.shape, "f32") for name, a in zip("xw", given, strict=True)]
    graph.set_outputs(graph.append(site.node.op, inputs, site.node.attrs))
    return np.asarray(compile(graph).run(dict(zip("xw", given, strict=True)))[0])


def quantized_weights(w: Array, axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes and one scale for each index of `axis`: symmetric, without -128."""
    others = tuple(other for other in range(w.ndim) if other != axis)
    largest = np.abs(w).max(axis=others, initial=0.0)
    if not np.isfinite(largest).all():
        raise InputError("weights are not finite", remedy="quantize a network that was trained")
    scales = np.where(largest > 0, largest / 127.0, 1.0).astype(np.float32)
    shape = [1] * w.ndim
    shape[axis] = -1
    codes = np.clip(_round_away(w / scales.reshape(shape)), -127, 127)
    return codes.astype(np.int8), scales


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    rounded: Array = whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0.0)
    return rounded


def _rewritten(
    graph: Graph,
    sites: Sequence[_Site],
    roundings: Sequence[_Rounding],
    values: Mapping[str, Array],
) -> Quantized:
    """Return the graph with integer products in place of those that are quantized."""
    pairs = [pair for pair in zip(sites, roundings, strict=True) if pair[1].layer.is_quantized]
    chosen = {site.node: (site, rounding.input) for site, rounding in pairs}
    names = {site.weights for site, _ in pairs}
    target, value_map = Graph(f"{graph.name}_int8"), dict[Value, Value]()
    params = dict(values)
    for node in graph.nodes:
        if node.op is ops.param and node.name in names:
            codes = target.param(str(node.name), node.result.shape, DType.I8)
            value_map[node.result] = codes
        elif node in chosen:
            site, steps = chosen[node]
            scaled = site.scaled(values[site.weights], steps.scales)
            params[site.weights], factors = quantized_weights(scaled, site.outputs_axis)
            with target.attributed(node.source, node.scope):
                x, w = (value_map[operand] for operand in node.operands)
                value_map[node.result] = _product(site, x, w, steps, factors)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    report = Report(tuple(rounding.layer for rounding in roundings))
    return Quantized(target, params, report, graph)


def _product(site: _Site, x: Value, w: Value, steps: _Steps, factors: Scales) -> Value:
    """Append `quantize(x) * w` in i32, scaled back to f32."""
    graph, node = x.graph, site.node
    scales, zero = tuple(steps.scales.tolist()), steps.zero
    axis = site.channels if len(scales) > 1 else None
    codes = ops.quantize(x, scales=scales, zero_points=(zero,) * len(scales), axis=axis)
    wide, weights = (ops.cast(operand, to=DType.I32) for operand in (codes, w))
    (total,) = graph.append(node.op, (wide - zero if zero else wide, weights), node.attrs)
    column = _along(factors, 1, x.rank) if node.op is ops.conv else factors
    result: Value = ops.cast(total, to=DType.F32) * graph.constant(column)
    return result

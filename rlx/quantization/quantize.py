"""Quantization after training: products with constant weights become integer products.

The input of each is measured on a calibration set and quantized with one scale, its weights with
one for each column or channel. Sums are exact in i32. What lies between stays in f32, and is
computed in the same kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.aot.state import inputs_as_params
from rlx.errors import GraphError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import copy_node, finish
from rlx.quantization.histogram import Histogram, Method
from rlx.quantization.report import Layer, Report
from rlx.runtime.compile import compile

Array = NDArray[Any]
Batch = Mapping[str, Any]
LONGEST_SUM = (2**31 - 1) // (128 * 127)
"""Products of an input by a weight that i32 can always add up."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A graph in eight bits, its params, and what became of each layer."""

    graph: Graph
    params: dict[str, Array]
    report: Report
    original: Graph
    """The graph in floats, with its weights as params."""


@dataclass(frozen=True, slots=True)
class _Site:
    """A product of an activation by a param."""

    node: Node
    weights: str
    axis: int
    """Which axis of the weights has a scale for each index."""

    @property
    def activation(self) -> Value:
        return self.node.operands[0]


def quantize(
    graph: Graph,
    calibration: Iterable[Batch],
    *,
    params: Mapping[str, Any],
    method: Method = "max",
    percentile: float = 99.99,
    largest_error: float = 0.1,
    keep: Sequence[str] = (),
) -> Quantized:
    """Return `graph` with its products and convolutions by params in eight bits.

    `params` are the weights by name, whether the graph has them as params or as inputs;
    `calibration` gives the other inputs by name. `method` says how the range of an activation
    follows from what was seen: its maximum, a percentile, or the least divergence of
    distributions ("entropy"). Layers whose result is off by more than `largest_error` (of its norm,
    on the first batch), and those whose weights `keep` names, stay in floats; the report says
    which and why.
    """
    values = {name: np.asarray(array) for name, array in params.items()}
    graph = inputs_as_params(graph, values)
    sites = _sites(graph)
    if not sites:
        raise GraphError(
            f"graph {graph.name!r} has no product or convolution of an activation by a param",
            remedy="declare weights as params, and check that they are f32",
        )
    unknown = [name for name in keep if name not in {site.weights for site in sites}]
    if unknown:
        raise InputError(
            f"keep names {', '.join(unknown)}, which are weights of no product",
            remedy=f"name some of: {', '.join(site.weights for site in sites)}",
        )
    histograms, first = _measure(graph, sites, calibration, values)
    layers = [
        _layer(site, histogram.scale(method, percentile), x, values[site.weights], keep,
               largest_error)
        for site, histogram, x in zip(sites, histograms, first, strict=True)
    ]  # fmt: skip
    return _rewritten(graph, sites, layers, values)


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
            axis = 1 if node.op is ops.matmul else 0
            found.append(_Site(node, str(w.node.name), axis))
    return found


def _measure(
    graph: Graph, sites: Sequence[_Site], calibration: Iterable[Batch], values: Mapping[str, Array]
) -> tuple[list[Histogram], list[Array]]:
    """Run the graph over the set; return what each site's input was, and it for the first batch."""
    tapped, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        copy_node(tapped, node, value_map)
    tapped.set_outputs([value_map[site.activation] for site in sites])
    run = compile(tapped, params=values)
    histograms, first = [Histogram() for _ in sites], list[Array]()
    for batch in calibration:
        seen = run.run(batch)
        first = first or [np.array(x) for x in seen]
        for histogram, x in zip(histograms, seen, strict=True):
            histogram.add(x)
    if not first:
        raise InputError(
            "the calibration set has no batch", remedy="give some inputs that are typical"
        )
    return histograms, first


def _layer(
    site: _Site, scale: float, x: Array, w: Array, keep: Sequence[str], largest_error: float
) -> Layer:
    error = _error(site, scale, x, w)
    reason = "kept" if site.weights in keep else ""
    if w.size // w.shape[site.axis] > LONGEST_SUM:
        reason = "its sums are beyond i32"
    if not reason and not error <= largest_error:
        reason = f"error above {largest_error:.0%}"
    kind = site.node.op.name
    return Layer(site.weights, kind, scale, error, w.nbytes, not reason, reason)


def _error(site: _Site, scale: float, x: Array, w: Array) -> float:
    """Return how far the layer's result moves when input and weights are rounded."""
    exact = _result(site, x, w)
    codes, scales = quantized_weights(w, site.axis)
    shape = [1] * w.ndim
    shape[site.axis] = -1
    rounded = _result(
        site, np.clip(_round_away(x / scale), -128, 127) * scale, codes * scales.reshape(shape)
    )
    norm = float(np.linalg.norm(exact))
    return float(np.linalg.norm(rounded - exact)) / norm if norm else 0.0


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
    graph: Graph, sites: Sequence[_Site], layers: Sequence[Layer], values: Mapping[str, Array]
) -> Quantized:
    """Return the graph with integer products in place of those of `layers` that are quantized."""
    chosen = {
        site.node: (site, layer)
        for site, layer in zip(sites, layers, strict=True)
        if layer.is_quantized
    }
    names = {site.weights for site, _ in chosen.values()}
    target, value_map = Graph(f"{graph.name}_int8"), dict[Value, Value]()
    params = dict(values)
    for node in graph.nodes:
        if node.op is ops.param and node.name in names:
            codes = target.param(str(node.name), node.result.shape, DType.I8)
            value_map[node.result] = codes
        elif node in chosen:
            site, layer = chosen[node]
            codes_of, scales = quantized_weights(values[site.weights], site.axis)
            params[site.weights] = codes_of
            with target.attributed(node.source, node.scope):
                x, w = (value_map[operand] for operand in node.operands)
                value_map[node.result] = _product(node, x, w, layer.scale, scales)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Quantized(target, params, Report(tuple(layers)), graph)


def _product(
    node: Node, x: Value, w: Value, scale: float, weight_scales: NDArray[np.float32]
) -> Value:
    """Append `quantize(x) * w` in i32, scaled back to f32."""
    graph = x.graph
    codes = ops.cast(ops.quantize(x, scales=(scale,)), to=DType.I32)
    (total,) = graph.append(node.op, (codes, ops.cast(w, to=DType.I32)), node.attrs)
    factors = (np.float32(scale) * weight_scales).astype(np.float32)
    trailing = x.rank - 2 if node.op is ops.conv else 0
    column = factors.reshape(-1, *(1,) * trailing)
    result: Value = ops.cast(total, to=DType.F32) * graph.constant(column)
    return result

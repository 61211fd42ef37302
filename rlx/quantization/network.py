"""A graph whose products have their weights as params, and the same in eight bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rlx.codegen.aot.state import inputs_as_params
from rlx.dataclass import dataclass
from rlx.errors import GraphError, InputError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.passes.rewrite import copy_node, finish
from rlx.passes.rewrites.fold_batch_norm import fold_batch_norm
from rlx.quantization.calibration import Activation, tapped
from rlx.quantization.nonfinite import flag_of
from rlx.quantization.report import Layer, Report
from rlx.quantization.requirements import require_params
from rlx.quantization.rounding import Choice, Rounding, quantized_weights, roundings_of
from rlx.quantization.sites import Scales, Site, along, declared_weights, sites_of
from rlx.runtime.compile import compile

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Network:
    """A graph with its products, in floats."""

    original: Graph
    """With its weights as params."""
    given: dict[str, Array]
    """What these params are."""
    graph: Graph
    """With a param for the weights of each product, as it reads them."""
    values: dict[str, Array]
    sites: list[Site]
    others: list[Layer]
    """Products that have no weights."""

    @classmethod
    def of(cls, graph: Graph, params: Mapping[str, Any]) -> Self:
        """Find the products of `graph`; an error if none has weights.

        Frozen batch norms are part of the weights before them, and are rounded with these.
        """
        require_params(params)
        given = {name: np.asarray(array) for name, array in params.items()}
        original = inputs_as_params(graph, given)
        declared, values = declared_weights(fold_batch_norm(original), given)
        sites, others = sites_of(declared)
        if not sites:
            raise GraphError(
                f"graph {graph.name!r} has no product or convolution of an activation by weights",
                remedy="give the weights in `params`, and check that they are f32",
            )
        return cls(original, given, declared, values, sites, others)

    @property
    def taps(self) -> dict[Value, int]:
        """What products read, and the axis of its channels."""
        return {site.activation: site.channels for site in self.sites}

    def tapped(self) -> Any:
        """Return the compiled graph of what products read."""
        return compile(tapped(self.graph, list(self.taps)), params=self.values)

    def roundings(self, seen: Mapping[Value, Activation], choice: Choice) -> list[Rounding]:
        """Return how each product is rounded, for what was seen of its input.

        Products that read one input share its codes: it is rounded once.
        """
        groups: dict[tuple[Value, int, bool], list[Site]] = {}
        for site in self.sites:
            key = site.activation, site.channels, site.inputs_axis is None
            groups.setdefault(key, []).append(site)
        found = dict[Site, Rounding]()
        for (activation, *_), sites in groups.items():
            weights = [self.values[site.weights] for site in sites]
            found |= zip(sites, roundings_of(sites, seen[activation], weights, choice), strict=True)
        return [found[site] for site in self.sites]

    def require_known(self, names: Sequence[str]) -> None:
        """Raise InputError for a name that is of no product's weights."""
        known = [site.weights for site in self.sites]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError(
                f"keep names {', '.join(unknown)}, which are weights of no product",
                remedy=f"name some of: {', '.join(known)}",
            )

    def report(self, roundings: Sequence[Rounding]) -> Report:
        """Return what becomes of all products."""
        return Report((*(rounding.layer for rounding in roundings), *self.others))

    def rewritten(self, roundings: Sequence[Rounding]) -> tuple[Graph, dict[str, Array]]:
        """Return the graph with integer products in place of those that are quantized."""
        pairs = zip(self.sites, roundings, strict=True)
        chosen = {site.node: (site, r) for site, r in pairs if r.layer.is_quantized}
        names = {site.weights for site, _ in chosen.values()}
        graph = self.graph
        target, value_map = Graph(f"{graph.name}_int8"), dict[Value, Value]()
        params = dict(self.values)
        for node in graph.nodes:
            if node.op is ops.param and node.name in names:
                codes = target.param(str(node.name), node.result.shape, DType.I8)
                value_map[node.result] = codes
            elif node in chosen:
                site, rounding = chosen[node]
                scaled = site.scaled(self.values[site.weights], rounding.input.scales)
                params[site.weights], factors = quantized_weights(scaled, site.outputs_axis)
                with target.attributed(node.source, node.scope):
                    x, w = (value_map[operand] for operand in node.operands)
                    value_map[node.result] = _product(site, x, w, rounding, factors)
            else:
                copy_node(target, node, value_map)
        finish(target, graph, value_map)
        target.output_names = self.original.output_names
        return target, params


def _product(site: Site, x: Value, w: Value, rounding: Rounding, factors: Scales) -> Value:
    """Append `quantize(x) * w` in i32, scaled back to f32; NaN where it reads NaN or infinity."""
    graph, node = x.graph, site.node
    scales, zero = tuple(rounding.input.scales.tolist()), rounding.input.zero
    axis = site.channels if len(scales) > 1 else None
    codes = ops.quantize(x, scales=scales, zero_points=(zero,) * len(scales), axis=axis)
    wide, weights = (ops.cast(operand, to=DType.I32) for operand in (codes, w))
    (total,) = graph.append(node.op, (wide - zero if zero else wide, weights), node.attrs)
    column = along(factors, 1, x.rank) if node.op is ops.conv else factors
    result = ops.cast(total, to=DType.F32) * graph.constant(column)
    return result + flag_of(site, x) if rounding.propagates else result

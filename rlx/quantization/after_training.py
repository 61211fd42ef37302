"""Quantization after training: products with constant weights become integer products.

The input of each is measured on a calibration set and quantized with one scale, its weights with
one for each column or channel. Sums are exact in i32. What is between stays in f32, and is
computed in the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.rewrite import copy_node, finish
from rlx.quantization.calibration import measured
from rlx.quantization.histogram import Method
from rlx.quantization.network import Network
from rlx.quantization.report import Report
from rlx.quantization.requirements import require_batches, require_progress
from rlx.quantization.rounding import Choice, Rounding
from rlx.runtime.arrays import frozen
from rlx.runtime.compile import compile
from rlx.tracing.pytree import TreeDef, tree_flatten, tree_unflatten
from rlx.tracing.trace import TracedArray, concrete
from rlx.tracing.traced_function import splice
from rlx.transforms.abstract import eval_shape
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import jvp
from rlx.transforms.jit import JittedFunction, jit

Array = NDArray[Any]
_PROGRAMS_KEPT = 256
"""Of a quantized function, one for each kind of inputs: as many as `jit` keeps."""


@dataclass(frozen=True, eq=False)
class Quantized:
    """A graph in eight bits, its params, and what became of each layer.

    Called with its inputs, in their order or by name, it returns its outputs.
    """

    graph: Graph
    params: dict[str, Array]
    report: Report
    original: Graph
    """The graph in floats, with its weights as params."""
    original_params: dict[str, Array]

    @cached_property
    def executable(self) -> Any:
        """The graph, compiled with its params."""
        return compile(self.graph, params=self.params)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        given = _by_name(_input_names(self.graph), inputs)
        if twice := sorted(given.keys() & named.keys()):
            raise InputError(
                f"{', '.join(twice)} was given in order and by name", remedy="give each input once"
            )
        return self.executable.run(given | named)


@dataclass(frozen=True, eq=False)
class QuantizedFunction(Quantized):
    """A function in eight bits: called with its inputs, it returns what the function returns.

    `graph` is that of the calibration set's shapes; others are traced again when they come, with
    the same scales. It may be called in `jit`, `vmap` and `grad`; derivatives are those of the
    function in floats, as if nothing were rounded (straight through).
    """

    _call: _Call
    _roundings: list[Rounding]
    _programs: dict[Any, tuple[Any, TreeDef]] = field(default_factory=dict)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if named:
            raise InputError(
                f"a quantized function was given {', '.join(named)} by name",
                remedy="pass its inputs in their order",
            )
        if any(isinstance(leaf, TracedArray) for leaf in tree_flatten(inputs)[0]):
            return self._traced(inputs)
        arrays, key = _kind(inputs)
        if key not in self._programs:
            if len(self._programs) >= _PROGRAMS_KEPT:
                self._programs.pop(next(iter(self._programs)))
            graph, params = self._call.network(inputs).rewritten(self._roundings)
            self._programs[key] = compile(graph, params=params), self._call.structure(inputs)
        run, structure = self._programs[key]
        return tree_unflatten(structure, [frozen(output) for output in run(*arrays)])

    def _traced(self, inputs: tuple[Any, ...]) -> Any:
        """Append the program to what is being traced; its derivative is that in floats."""

        @custom_jvp
        def rounded(*inputs: Any) -> Any:
            graph, params = self._call.network(inputs).rewritten(self._roundings)
            leaves = tree_flatten(inputs)[0]
            results = splice(_bound(graph, params), leaves, [False] * len(graph.outputs))
            return tree_unflatten(self._call.structure(inputs), results)

        @rounded.defjvp
        def straight_through(primals: Any, tangents: Any) -> Any:
            return rounded(*primals), jvp(self._call.in_floats, primals, tangents)[1]

        del straight_through
        return rounded(*inputs)


def _bound(graph: Graph, params: dict[str, Array]) -> Graph:
    """Return the graph with its params as constants."""
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        if node.op is ops.param:
            value_map[node.result] = target.constant(params[str(node.name)], node.result.dtype)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return target


def _kind(inputs: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """Return the arrays of a call, and what programs are kept by."""
    leaves, tree = tree_flatten(inputs)
    arrays = [concrete(leaf) for leaf in leaves]
    return arrays, (tree, tuple((x.shape, x.dtype) for x in arrays))


@dataclass(frozen=True, slots=True)
class _Call:
    """A function of params and inputs, or of inputs alone."""

    function: JittedFunction
    leading: tuple[Any, ...]
    """The params, if there are any."""

    def feed(self, inputs: tuple[Any, ...]) -> dict[str, Array]:
        """Return the inputs by the names that they have in the graph."""
        return self._arrays(inputs, slice(len(self.leading), None))

    def network(self, inputs: tuple[Any, ...]) -> Network:
        """Return the graph of a call, with its products."""
        graph = self.function.graph(*self.leading, *inputs)
        return Network.of(graph, self._arrays(inputs, slice(len(self.leading))))

    def in_floats(self, *inputs: Any) -> Any:
        return self.function(*self.leading, *inputs)

    def structure(self, inputs: tuple[Any, ...]) -> TreeDef:
        """Return the structure of the result."""
        return tree_flatten(eval_shape(self.function, *self.leading, *inputs))[1]

    def _arrays(self, inputs: tuple[Any, ...], chosen: slice) -> dict[str, Array]:
        given = self.function.argument_arrays(*self.leading, *inputs)[chosen]
        return {name: np.asarray(x) for arrays in given for name, x in arrays.items()}


def quantize(
    function_or_graph: Graph | Callable[..., Any],
    calibration: Iterable[Any],
    *,
    params: Any = None,
    method: Method = "max",
    percentile: float = 99.99,
    largest_error: float = 0.1,
    keep: Sequence[str] = (),
    propagate_nonfinite: bool = True,
    progress: TextIO | bool | None = None,
) -> Quantized:
    """Return a function or graph with its products and convolutions by weights in eight bits.

    A function is called as `function(params, *inputs)`, or `function(*inputs)` without `params`;
    `calibration` has a tuple of inputs for each call, or the only one, of any sizes. For a graph,
    from `rlx.onnx.load` say, `params` are its weights by name (by default those that it came with),
    whether it has them as params or as inputs, and `calibration` gives the other inputs by name
    or in their order. Weights that are constants count as params.

    `method` says how the range of an activation follows from what was seen: its maximum, a
    percentile, or the least divergence of distributions ("entropy"). Layers whose result is off by
    more than `largest_error` (of its norm, on the first batch), and those whose weights `keep`
    names, stay in floats; the report says which and why. A row of a product, or a pixel and group
    of a convolution, that reads NaN or an infinity is NaN; with `propagate_nonfinite=False` the
    nearest codes are computed with, as if inputs were finite. `progress` is a stream for a bar, or
    True for the terminal's. The result is called with inputs; its `graph` and `params` are for
    `rlx.compile` and `rlx.aot`.
    """
    require_batches(calibration)
    require_progress(progress)
    known = isinstance(function_or_graph, Graph) or callable(function_or_graph)
    if not known or isinstance(function_or_graph, Quantized):
        raise InputError(
            f"quantize takes a function or a graph and was given a "
            f"{type(function_or_graph).__name__}",
            remedy="pass what was written in floats; rlx.onnx.load makes a graph of a file",
        )
    kept = (keep,) if isinstance(keep, str) else keep
    kept = tuple(kept) if isinstance(kept, Iterator) else kept  # which is read once only
    choice = Choice(method, percentile, largest_error, kept, propagate_nonfinite)
    if isinstance(function_or_graph, Graph):
        graph = function_or_graph
        values = graph.param_values if params is None else params
        return _of_graph(graph, values, calibration, choice, progress)
    return _of_function(function_or_graph, params, calibration, choice, progress)


def _of_graph(
    graph: Graph,
    params: Mapping[str, Any],
    batches: Iterable[Any],
    choice: Choice,
    progress: TextIO | bool | None,
) -> Quantized:
    network = Network.of(graph, params)
    names, program = _input_names(network.original), network.tapped()

    def run(batch: Any) -> Any:
        return program.run(_by_name(names, _arguments(batch)))

    roundings = _measured(network, batches, run, choice, progress)
    return Quantized(**_parts(network, roundings))


def _of_function(
    function: Callable[..., Any],
    params: Any,
    batches: Iterable[Any],
    choice: Choice,
    progress: TextIO | bool | None,
) -> QuantizedFunction:
    jitted = function if isinstance(function, JittedFunction) else jit(function)
    call = _Call(jitted, () if params is None else (params,))
    first, batches = _first_of(batches)
    if len(tree_flatten(_arguments(first))[0]) != len(call.feed(_arguments(first))):
        raise InputError(
            "the function has static arguments",
            remedy="give a function of arrays alone: lambda params, x: f(params, x, static)",
        )
    network = call.network(_arguments(first))
    programs = dict[Any, Any]()

    def run(batch: Any) -> Any:
        _, key = _kind(_arguments(batch))
        if key not in programs:  # the last batch of a set is often shorter
            programs[key] = call.network(_arguments(batch)).tapped()
        return programs[key].run(call.feed(_arguments(batch)))

    roundings = _measured(network, batches, run, choice, progress)
    return QuantizedFunction(**_parts(network, roundings), _call=call, _roundings=roundings)


def _parts(network: Network, roundings: Sequence[Rounding]) -> dict[str, Any]:
    """Return what every result says of itself."""
    graph, params = network.rewritten(roundings)
    return {
        "graph": graph,
        "params": params,
        "report": network.report(roundings),
        "original": network.original,
        "original_params": network.given,
    }


def _measured(
    network: Network,
    batches: Iterable[Any],
    run: Callable[[Any], Sequence[Any]],
    choice: Choice,
    progress: TextIO | bool | None,
) -> list[Rounding]:
    """Return how the products are rounded, for what their inputs are on the calibration set."""
    network.require_known(choice.keep)
    axes = list(network.taps.values())
    seen = measured(list(network.taps), axes, batches, run, progress=progress)
    return network.roundings(seen, choice)


def _first_of(batches: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """Return the first batch, and all of them."""
    iterator = iter(batches)
    for first in iterator:
        return first, chain([first], iterator) if iterator is batches else batches
    raise InputError("the calibration set has no batch", remedy="give some inputs that are typical")


def _arguments(batch: Any) -> tuple[Any, ...]:
    return batch if isinstance(batch, tuple) else (batch,)


def _input_names(graph: Graph) -> list[str]:
    return [str(value.node.name) for value in graph.inputs]


def _by_name(names: Sequence[str], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Return inputs by name, given in their order, or as one mapping."""
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return dict(inputs[0])
    if len(inputs) > len(names):
        raise InputError(
            f"the graph was given {len(inputs)} inputs and takes {len(names)}",
            remedy=f"it takes: {', '.join(names)}",
        )
    return dict(zip(names, inputs, strict=False))

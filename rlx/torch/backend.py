"""`torch.compile(model, backend="rlx")`: the graphs that Dynamo and AOTAutograd make.

PyTorch finds the backend by the package's entry point; nothing needs to be imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from rlx.errors import InputError
from rlx.garbage import collecting_rarely
from rlx.torch.calls import by_operators, direct_call, is_batch, refuse_tangents
from rlx.torch.decompositions import decompositions, write_out_flex_attention
from rlx.torch.partition import partition
from rlx.torch.program import CompiledGraph, Options
from rlx.torch.types import resolved

_MODES = {
    "default": 0.0, "reduce-overhead": 0.0, "max-autotune": 20.0,
    "max-autotune-no-cudagraphs": 20.0,
}  # fmt: skip
"""PyTorch's modes, and the option `tune` of each."""


def compile_module(
    module: GraphModule,
    example_inputs: list[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile what Dynamo traced; the function that `torch.compile` calls.

    `options` are the fields of `Options`. The modes "max-autotune" and "max-autotune-no-cudagraphs"
    measure schedules before they compile; the others of PyTorch compile alike, since there are no
    launches whose overhead could be reduced. Unknown ones raise InputError.
    """
    mode = mode or "default"
    if mode not in _MODES:
        raise InputError(f"mode is {mode!r}", remedy=f"use one of: {', '.join(_MODES)}")
    given = {"threads": torch.get_num_threads(), "tune": _MODES[mode], **(options or {})}
    graphs = _Graphs(checked_options(given))
    write_out_flex_attention(module)
    with collecting_rarely():
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=functools.partial(graphs.compiler, "forward"),
            bw_compiler=functools.partial(graphs.compiler, "backward"),
            inference_compiler=functools.partial(graphs.compiler, "inference"),
            decompositions=decompositions(),
            partition_fn=partition,
        )(module, example_inputs)
    return direct_call(graphs.made, graphs.metadata, example_inputs, compiled)


def register() -> None:
    """Make "rlx" a backend of `torch.compile`, as the entry point of an installed rlx does.

    A program in a checkout that is not installed calls it; where "rlx" is known it does nothing.
    """
    if "rlx" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(compile_module, name="rlx")


def checked_options(given: Mapping[str, Any]) -> Options:
    """Return options by name; unknown ones raise InputError."""
    known = [each.name for each in fields(Options)]
    for name in given:
        if name not in known:
            raise InputError(
                f"torch.compile(backend='rlx') has no option {name!r}",
                remedy=f"use one of: {', '.join(known)}",
            )
    if given.get("random", "torch") not in ("torch", "rlx"):
        raise InputError(
            f"option random is {given['random']!r}",
            remedy='use "torch", the numbers of eager mode, or "rlx", drawn in compiled code',
        )
    seconds = given.get("tune", 0.0)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        raise InputError(
            f"option tune is {seconds!r}", remedy="give seconds for which schedules are measured"
        )
    return Options(**given)


class _Graphs:
    """The graphs that AOTAutograd has compiled for one graph of Dynamo."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.made: dict[str, CompiledGraph] = {}
        self.metadata: Any = None
        """What AOTAutograd found out about inputs and results."""

    def compiler(self, name: str, module: GraphModule, example_inputs: Any) -> Callable[..., Any]:
        del example_inputs
        context = torch._guards.TracingContext.try_get()
        meta = None if context is None else context.fw_metadata
        self.metadata = self.metadata or meta
        graph = CompiledGraph(
            module, self.options, name, restride=_visible(name, meta),
            static=_static(name, meta, self.options),
        )  # fmt: skip
        self.made[name] = graph
        return boxed(graph)


def boxed(graph: CompiledGraph) -> Callable[..., Any]:
    """Return a function of one list of tensors, as AOTAutograd calls it."""

    def call(args: list[Any]) -> Sequence[Any]:
        refuse_tangents(args)
        if any(is_batch(args[place]) for place in graph.cotangents):
            return by_operators(graph, args)
        for place in graph.cotangents:
            args[place] = resolved(args[place])
        results = graph(args)
        args.clear()  # the caller's references are released before results are used
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _static(name: str, meta: Any, options: Options) -> frozenset[int]:
    """Return the places of params and buffers that a graph for inference only reads."""
    if name != "inference" or meta is None or not options.resident:
        return frozenset()
    return frozenset(meta.static_input_indices) - frozenset(meta.mutated_inp_runtime_indices)


def _visible(name: str, meta: Any) -> int:
    """Return how many of a graph's first results the user's program sees."""
    if name == "inference":
        return 1 << 30
    return 0 if name == "backward" or meta is None else meta.num_forward_returns

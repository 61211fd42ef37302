"""A graph run by the reference interpreter: no compiler, the same checks and the same interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.signature import Array, Signature, checked, named_params


class ReferenceExecutable:
    """Runs a graph with NumPy, op by op. Make it with `rlx.compile(backend="reference")`."""

    def __init__(self, graph: Graph, params: Mapping[str, Any] | None = None) -> None:
        self.signature = Signature.of(graph)
        self._graph = graph
        self._params: dict[str, Array] = {}
        for name, value in named_params(params).items():
            self.set_param(name, value)

    def __call__(self, *inputs: Any, **named: Any) -> tuple[Array, ...]:
        """Run on inputs by position or by name; results come in output order."""
        values = self.signature.arrange(inputs, named)
        arrays = [
            checked(argument, value)
            for argument, value in zip(self.signature.inputs, values, strict=True)
        ]
        self.signature.bind(arrays)
        unset = [a.name for a in self.signature.params if a.name not in self._params]
        if unset:
            raise InputError(
                f"{self.signature.name}: params not set: {', '.join(unset)}",
                remedy="pass params= to rlx.compile, or call set_param(name, array)",
            )
        names = [argument.name for argument in self.signature.inputs]
        feeds = {**self._params, **dict(zip(names, arrays, strict=True))}
        # No result shares memory with an input, a param, or another: it is the caller's alone.
        results = tuple(np.array(result) for result in evaluate(self._graph, feeds))
        self._donate(results)
        return results

    def run(self, feeds: Mapping[str, Any]) -> tuple[Array, ...]:
        """Run on inputs by name."""
        return self(**feeds)

    def set_param(self, name: str, value: Any) -> None:
        self._params[name] = checked(self.signature.param(name), value, what="param").copy()

    @property
    def params(self) -> dict[str, Array]:
        """Copies of the params that are set."""
        return {name: value.copy() for name, value in self._params.items()}

    def clone(self) -> ReferenceExecutable:
        return ReferenceExecutable(self._graph, self._params)

    def _donate(self, results: tuple[Array, ...]) -> None:
        """Outputs that replace params become their values for the next run."""
        for name, position in self._graph.donations.items():
            if name in self._params:
                self._params[name] = results[position].copy()

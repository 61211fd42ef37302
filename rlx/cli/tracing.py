"""A function of arrays becomes a graph whose inputs are named after its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlx.errors import InputError
from rlx.frontend.pytree import tree_flatten
from rlx.frontend.trace import as_value, opened
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.numpy import Tracer


def trace(function: Callable[..., Any], types: Mapping[str, TensorType]) -> Graph:
    """Return the graph of a function of arrays."""
    plain = inspect.unwrap(function)
    names = [
        name for name, p in inspect.signature(plain).parameters.items() if p.default is p.empty
    ]
    missing = [name for name in names if name not in types]
    if missing:
        raise InputError(
            f"{plain.__name__} takes the argument {missing[0]!r}, whose type is not known",
            remedy=f"pass --shape {missing[0]}=f32[8,128], or --input {missing[0]}=FILE.npy",
        )
    with opened(plain.__name__) as tracing:
        arguments = {
            name: Tracer(tracing, tracing.graph.input(name, types[name].shape, types[name].dtype))
            for name in names
        }
        results, _ = tree_flatten(plain(**arguments))
        tracing.graph.set_outputs([as_value(result) for result in results])
    return tracing.graph

"""A function of arrays becomes a graph whose inputs are named after its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.types import TensorType
from rlx.transforms.jit import JittedFunction, jit


def trace(function: Callable[..., Any], types: Mapping[str, TensorType]) -> Graph:
    """Return the graph of `function`, jitted or plain, at arguments of `types`."""
    parameters = inspect.signature(function).parameters
    needed = [name for name, p in parameters.items() if p.default is p.empty]
    missing = [name for name in needed if name not in types]
    if missing:
        raise InputError(
            f"{inspect.unwrap(function).__name__} takes the argument {missing[0]!r}, whose type "
            "is not known",
            remedy=f"pass --shape {missing[0]}=f32[8,128], or --input {missing[0]}=FILE.npy",
        )
    jitted = function if isinstance(function, JittedFunction) else jit(function)
    graph: Graph = jitted.graph(*(types[name] for name in needed))
    return graph

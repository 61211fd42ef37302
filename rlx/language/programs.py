"""The two programs of a decoder: for a step and for prompts, over one arena if that can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.compile import compile_beside
from rlx.runtime.executable import Executable

Array: TypeAlias = np.ndarray[Any, Any]


def step_and_prompt(
    step: Graph, prompt: Graph, weights: Mapping[str, Array], **options: Any
) -> tuple[Executable, Executable]:
    """Compile both, with a state of zeros.

    Matrices of floats are laid out for so many rows, and then arenas are two.
    """
    zero = np.float32(0)
    empty = {n: np.broadcast_to(zero, step.leaf(n).type.static_shape) for n in step.donations}
    options["params"] = {**weights, **empty}
    try:
        first, second = compile_beside([step, prompt], **options)
    except UnsupportedError:
        first, second = (compile_graph(graph, **options) for graph in (step, prompt))
    return first, second

"""The two programs of a decoder: for a step and for prompts, over one arena if that can be."""

from __future__ import annotations

from typing import Any

from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.compile import compile_beside
from rlx.runtime.executable import Executable


def step_and_prompt(step: Graph, prompt: Graph, **options: Any) -> tuple[Executable, Executable]:
    """Compile both; matrices of floats are laid out for so many rows, and then arenas are two."""
    try:
        first, second = compile_beside([step, prompt], **options)
    except UnsupportedError:
        first, second = (compile_graph(graph, **options) for graph in (step, prompt))
    return first, second

"""The programs of a decoder: for a step, for prompts and so on, over one arena if that can be.

Programs are found in the cache by a name: a digest of the files' heads, which say all that a graph
is made of but for numbers, and of the options. Graphs are built where none is found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.language.config import ROPE_FACTORS
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.compile import compile_together
from rlx.runtime.executable import Executable
from rlx.runtime.interface import NamedGraph

Array: TypeAlias = np.ndarray[Any, Any]
ValueOf: TypeAlias = Callable[[str], Array]
"""Gives what a param that is no state holds."""


def compiled_over_one_state(
    graphs: Sequence[Graph | NamedGraph], value_of: ValueOf, **options: Any
) -> tuple[Executable, ...]:
    """Compile graphs of the same params, with a state of zeros.

    Where the programs keep other values, each has an arena.
    """
    try:
        programs = compile_together(graphs, **options)
    except UnsupportedError:
        programs = tuple(compile_graph(_built(graph), **options) for graph in graphs)
    for program in {each.arena: each for each in programs}.values():
        _set_params(program, value_of)
    return programs


def graph_name(kind: str, file: ModelFile, adapters: Adapters | None, *options: object) -> str:
    """Return the name of a graph that `kind` makes of a file, of adapters of their types."""
    digest = hashlib.sha256(file.digest.encode())
    for name in ROPE_FACTORS:
        if name in file.tensors:
            digest.update(file.tensor_bytes(name).tobytes())
    if adapters is not None:
        types = sorted((n, v.shape, str(v.dtype)) for n, v in adapters.values.items())
        options = (*options, adapters.lora, types)
    digest.update(repr(options).encode())
    return f"{kind} {digest.hexdigest()}"


def _built(graph: Graph | NamedGraph) -> Graph:
    return graph.build() if isinstance(graph, NamedGraph) else graph


def _set_params(program: Executable, value_of: ValueOf) -> None:
    state = set(program.donated_params)
    for name, type in ((param.name, param.type) for param in program.signature.params):
        empty = np.broadcast_to(np.zeros((), type.dtype.numpy), type.static_shape)
        program.set_param(name, empty if name in state else value_of(name))

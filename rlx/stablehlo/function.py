"""`from_stablehlo`: a module as a function of arrays, and as a graph."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxlib.mlir import ir

import rlx.stablehlo.control
import rlx.stablehlo.custom_calls
import rlx.stablehlo.elementwise
import rlx.stablehlo.folds
import rlx.stablehlo.indexing
import rlx.stablehlo.products
import rlx.stablehlo.shapes  # noqa: F401  registers rules
from rlx.errors import DTypeError, InputError, ShapeError
from rlx.files import read_file
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent, format_shape
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.limits import LoadLimits, loading
from rlx.signal_safe_lock import reentrant_lock
from rlx.stablehlo.interpret import run_main
from rlx.stablehlo.module import ParsedModule, parse
from rlx.stablehlo.types import dtype_of, shape_of_type
from rlx.tracing.apply import as_tracer
from rlx.tracing.trace import TracedArray, as_value, current_trace, opened, shape_of
from rlx.tracing.tracer import Tracer
from rlx.transforms.jit import jit

_WRAPPED = "_wrapped_jax_export_main"
"""What JAX calls the function that it exports with symbolic extents."""


def made(source: Any, limits: LoadLimits | None) -> StablehloFunction:
    """Return a function of text, bytes or a file; see `from_stablehlo`."""
    name = "from_stablehlo"
    with loading(limits, name) as budget:
        if _is_path(source):
            name = str(source)
            content: Any = read_file(Path(source), budget)
        elif isinstance(source, (str, bytes, bytearray, memoryview)):
            content = source if isinstance(source, str) else bytes(source)
        else:
            raise InputError(
                f"from_stablehlo is given a {type(source).__name__}",
                source=calling_source(),
                remedy="pass text, bytes or a path: exported.mlir_module_serialized",
            )
        return StablehloFunction(parse(content, name, budget), limits)


def _is_path(source: Any) -> bool:
    if isinstance(source, os.PathLike):
        return True
    return isinstance(source, str) and "{" not in source


def load(
    path: str | os.PathLike[str], dims: Mapping[str, Any] | None, limits: LoadLimits | None
) -> Graph:
    """Return the graph of a file; see `rlx.stablehlo.load`."""
    with loading(limits, str(path)) as budget:
        program = parse(read_file(Path(path), budget), str(path), budget)
        return StablehloFunction(program, limits).graph(dims)


class StablehloFunction:
    """A module of StableHLO as a function of arrays. Make it with `from_stablehlo`."""

    def __init__(self, program: ParsedModule, limits: LoadLimits | None) -> None:
        self.program = program
        self._limits = limits
        self._lock = reentrant_lock()
        self._types = [value.type for value in program.main.regions[0].blocks[0].arguments]
        self.__name__ = _identifier(_module_name(program), "stablehlo_function")
        self.names = _names(program, len(self._types))
        self.__signature__ = self._signature()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Trace the module into the open trace of rlx, or run it compiled."""
        trees = self.program.trees
        given = [_host(x) for x in self._flat(args, kwargs)]
        if len(given) != len(self._types):
            raise InputError(
                f"{self.__name__} takes {len(self._types)} arrays and is given {len(given)}",
                source=calling_source(),
                remedy=f"pass {', '.join(self.names) or 'none'}",
            )
        run = self._compiled if current_trace() is None else self._traced
        found = run(*given)
        if trees is not None:
            return trees.results.unflatten(found)
        return found[0] if len(found) == 1 else tuple(found)

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        trees = self.program.trees
        if trees is None:
            if kwargs:
                raise InputError(
                    f"{self.__name__} has no arguments by name",
                    source=calling_source(),
                    remedy=f"pass {', '.join(self.names)} by position",
                )
            return args
        from jax.tree_util import tree_flatten

        leaves, tree = tree_flatten((args, kwargs))
        if tree != trees.arguments:
            raise InputError(
                f"{self.__name__} takes arguments of the structure {trees.arguments} and is given "
                f"{tree}",
                source=calling_source(),
                remedy="pass arguments in the containers that were exported",
            )
        return [leaves[place] for place in trees.kept]

    @cached_property
    def _compiled(self) -> Any:
        def flat(*arrays: Any) -> list[Any]:
            return self._traced(*arrays)

        flat.__name__ = self.__name__
        return jit(flat)

    def _traced(self, *arrays: Any) -> list[Any]:
        """Return the results, arrays of the open trace."""
        places = zip(self.names, arrays, self._types, strict=True)
        given = [_as_type(name, x, type) for name, x, type in places]
        with self._lock, loading(self._limits, self.program.name):
            return [as_tracer(x) for x in run_main(self.program, given)]

    # As a graph

    def types(self, dims: Mapping[str, Any] | None = None) -> dict[str, TensorType]:
        """Return the types of the inputs; `dims` gives shapes to those with symbolic extents."""
        given, found = dims or {}, {}
        for name, type in zip(self.names, self._types, strict=True):
            shape = shape_of_type(type)
            if None in shape and name not in given:
                open_axes = ", ".join(str(i) for i, extent in enumerate(shape) if extent is None)
                raise InputError(
                    f"{self.program.name}: the input {name} has open extents (axes {open_axes})",
                    remedy=f"give its shape: dims={{{name!r}: (...)}}, --shape {name}=f32[...]",
                )
            extents = tuple(map(_positive, given.get(name, shape)))
            found[name] = TensorType(dtype_of(type), extents)
        return found

    def graph(self, dims: Mapping[str, Any] | None = None) -> Graph:
        """Return the graph of a call."""
        types = self.types(dims)
        with opened(self.__name__) as trace:
            inputs = [
                Tracer(trace, trace.graph.input(name, type.shape, type.dtype))
                for name, type in types.items()
            ]
            trace.graph.set_outputs([as_value(x) for x in self._traced(*inputs)])
        return trace.graph

    def _signature(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        trees = self.program.trees
        if trees is not None:
            return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.names])


def _positive(extent: Extent) -> Extent:
    """Return a symbol that is at least 1, as exports demand of theirs; anything else as it is."""
    if not isinstance(extent, Dim) or len(extent.symbols) != 1:
        return extent
    (symbol,) = extent.symbols
    is_alone = extent == Dim(symbol.name, max=symbol.max, min=symbol.min)
    return Dim(symbol.name, max=symbol.max, min=max(1, symbol.min)) if is_alone else extent


def _as_type(name: str, x: Any, type: Any) -> Any:
    """Return an argument as an array of the open trace; its type must be that of the module."""
    dtype, shape = dtype_of(type), shape_of_type(type)
    traced = as_tracer(x) if isinstance(x, TracedArray) else as_tracer(np.asarray(x))
    given = tuple(shape_of(traced))
    fits = len(given) == len(shape) and all(
        n is None or n == m for n, m in zip(shape, given, strict=True)
    )
    if not fits:
        wanted = ", ".join("?" if n is None else str(n) for n in shape)
        raise ShapeError(
            f"{name} has shape {format_shape(given)}; the module takes ({wanted})",
            source=calling_source(),
            remedy="pass the shape that was exported, or export with symbolic extents",
        )
    if traced.value.dtype is not dtype:
        raise DTypeError(
            f"{name} has dtype {traced.value.dtype.value}; the module takes {dtype.value}",
            source=calling_source(),
            remedy=f"cast it: {name}.astype({dtype.numpy.name!r})",
        )
    return traced


def _host(x: Any) -> Any:
    return x if isinstance(x, (TracedArray, np.ndarray)) else np.asarray(x)


def _module_name(program: ParsedModule) -> str:
    attributes = program.module.operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""


def _names(program: ParsedModule, count: int) -> list[str]:
    """Return names of the arguments of main: those of their locations, each once.

    With symbolic extents `main` calls the function, which takes numbers for them first.
    """
    found: list[str] = []
    function = program.functions.get(_WRAPPED, program.main)
    arguments = list(function.regions[0].blocks[0].arguments)
    for place, value in enumerate(arguments[len(arguments) - count :]):
        name = _identifier(getattr(value.location, "name_str", ""), f"x{place}")
        found.append(name if name not in found else f"{name}_{place}")
    return found if len(set(found)) == count else [f"x{place}" for place in range(count)]


def _identifier(name: str, otherwise: str) -> str:
    """Return an identifier of Python like `name`."""
    found = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:64]
    return found if found.isidentifier() else otherwise

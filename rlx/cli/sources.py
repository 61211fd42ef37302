"""Loading of SRC: a graph file, a model file, or an object of a Python module.

model.onnx                    a model of ONNX; --shape gives extents that it leaves open
model.stablehlo               text or bytecode of StableHLO, or an export of JAX
model.rlx                     written by `rlx.ir.serialize.save`, or the text form
package.module:build          a function that returns a Graph, or (Graph, params)
path/to/file.py:graph         a Graph
package.module:predict        a function of arrays, traced with the types given; with --jax, by JAX
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rlx.cli.arguments import NamedShape, SymbolicExtent
from rlx.cli.arrays import read_arrays
from rlx.dataclass import dataclass
from rlx.errors import FormatError, InputError, RlxError, Source
from rlx.files import read_file
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.parser import parse_graph
from rlx.ir.serialize import loads
from rlx.ir.shape import Dim, Extent
from rlx.ir.types import TensorType
from rlx.ir.verify import verify
from rlx.jaxpr.from_jax import from_jax
from rlx.limits import loading
from rlx.runtime.model_files import is_model_file, load_model_file
from rlx.runtime.signature import Array

_BINARY = b"rlx-graph "
_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph, with the params that came with it."""

    graph: Graph
    params: Mapping[str, Array] = field(default_factory=dict)


def load_program(
    source: str,
    *,
    shapes: Sequence[NamedShape] = (),
    examples: Mapping[str, Array] | None = None,
    is_jax: bool = False,
) -> LoadedGraph:
    """Return what `source` names; `shapes` and `examples` type the arguments of a function.

    With `is_jax` the function is written for JAX, which traces it.
    """
    if Path(source).is_file() and is_model_file(source):
        return _load_model(Path(source), shapes, examples or {})
    if Path(source).is_file() and not source.endswith(".py"):
        return LoadedGraph(read_graph(Path(source)))
    if ":" not in source:
        raise InputError(
            f"{source!r} is neither a file nor module:function",
            remedy="name a graph file, or a function as package.module:name or file.py:name",
        )
    found = look_up(source)
    if callable(found) and not isinstance(found, Graph):
        types = {shape.name: tensor_type(shape) for shape in shapes}
        types |= {
            name: TensorType(as_dtype(array.dtype), array.shape)
            for name, array in (examples or {}).items()
            if name not in types
        }
        with users_code(source):
            if is_jax:
                found = _trace(from_jax(found), types)
            else:
                found = found() if _takes_nothing(found) else _trace(found, types)
    return _as_program(found, source)


def _load_model(
    path: Path, shapes: Sequence[NamedShape], examples: Mapping[str, Array]
) -> LoadedGraph:
    """Load a model file; `shapes` and `examples` give extents to what it leaves open."""
    dims: dict[str, Any] = {name: array.shape for name, array in examples.items()}
    dims |= {shape.name: tensor_type(shape).shape for shape in shapes}
    graph = load_model_file(path, dims)
    verify(graph)
    return LoadedGraph(graph, graph.param_values)


def read_graph(path: Path) -> Graph:
    """Read a graph file of either form, and verify it."""
    with loading(None, str(path)) as budget:
        content = read_file(path, budget)
        if content.startswith(_BINARY):
            graph = loads(content)
        else:
            graph = parse_graph(_text(content, path), file=str(path))
        verify(graph)
        return graph


def read_params(sources: Sequence[str]) -> dict[str, Array]:
    """Read params from files or from functions that return them; later ones win."""
    params: dict[str, Array] = {}
    for source in sources:
        if ":" in source and not Path(source).exists():
            found = look_up(source)
            params.update(found() if callable(found) else found)
        else:
            params.update(read_arrays(Path(source)))
    return params


def look_up(source: str) -> Any:
    """Return the object that `module:name` or `file.py:name` names."""
    place, _, name = source.rpartition(":")
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    found: Any = module
    for part in name.split("."):
        if part not in dir(found):
            raise InputError(f"{place} has no {part!r}", remedy=f"it has: {_public(found)}")
        found = getattr(found, part)
    return found


@contextmanager
def users_code(source: str, *, missing: str | None = None) -> Iterator[None]:
    """Turn whatever the user's code raises into one error at the user's line.

    That the module `missing` itself is not there is left as it is.
    """
    try:
        yield
    except (RlxError, OSError):
        raise
    except SystemExit as stop:
        code = "" if stop.code is None else repr(stop.code)
        raise InputError(
            f"{source} ended the process with sys.exit({code})",
            source=_users_line(stop),
            remedy="guard what a script does with if __name__ == '__main__'",
        ) from stop
    except Exception as error:  # a program that we only run may raise anything
        if _is_missing(error, missing):
            raise
        raise InputError(
            f"{source} raised {type(error).__name__}: {error}",
            source=_users_line(error),
            remedy="--traceback shows the calls that led there",
        ) from error


def _is_missing(error: Exception, name: str | None) -> bool:
    """True if `error` says that module `name`, or a package that it is in, does not exist."""
    if name is None or not isinstance(error, ModuleNotFoundError) or error.name is None:
        return False
    return f"{name}.".startswith(f"{error.name}.")


def _users_line(error: BaseException) -> Source | None:
    """Return the innermost line outside rlx that `error` passed through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_PACKAGE) and not frame.filename.startswith("<frozen")
    ]
    if not frames:
        return None
    return Source(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name)


def _trace(function: Callable[..., Any], types: Mapping[str, TensorType]) -> Graph:
    from rlx.cli.tracing import trace  # the front end is needed for functions of arrays alone

    return trace(function, types)


def tensor_type(shape: NamedShape) -> TensorType:
    """Return the type that `--shape` describes."""
    return TensorType(as_dtype(shape.dtype), tuple(map(_extent, shape.extents)))


def _extent(extent: int | SymbolicExtent) -> Extent:
    return extent if isinstance(extent, int) else Dim(extent.name, max=extent.max)


def _as_program(found: Any, source: str) -> LoadedGraph:
    graph, params = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
    if not isinstance(graph, Graph):
        raise InputError(
            f"{source} gave a {type(graph).__name__}; it must give a Graph, or a Graph and params",
            remedy="return the graph that rlx.trace or rlx.Graph made",
        )
    verify(graph)
    return LoadedGraph(graph, {name: np.asarray(value) for name, value in params.items()})


def _takes_nothing(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in variadic for p in parameters)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"there is no file {path}", remedy="check the path")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FormatError(
            f"{path} is not a Python file",
            remedy="give FILE.py:FUNCTION, a .onnx model or a graph file",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    with users_code(str(path)):
        spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    """Import a module; those of the current directory count, as with `python -m`."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        with users_code(name, missing=name):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot import {name}: {error}",
            remedy="name a module as Python imports it, or a file as path/to/file.py:name",
        ) from error


def _public(found: object) -> str:
    return ", ".join(name for name in dir(found) if not name.startswith("_"))


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: neither a graph file nor the text form of a graph",
            remedy="write one with rlx.save, or give FILE.py:FUNCTION",
        ) from error

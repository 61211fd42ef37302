"""`from_torch`: what `torch.export` traces, as a function of params and arrays.

f = rlx.from_torch(model, (x,))
y = f(f.params, x)
step = rlx.jit(rlx.value_and_grad(lambda params, x: loss(f(params, x))))
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_flatten, tree_unflatten

from rlx.errors import FormatError, InputError, ShapeError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.limits import LoadLimits, loading
from rlx.torch.decompositions import decompositions
from rlx.torch.interpreter import GraphFunction, constant, size_of_draw
from rlx.torch.rules.random import from_key
from rlx.torch.types import Extents, as_array, dtype_of
from rlx.tracing.pytree import register_foreign_array
from rlx.tracing.trace import TracedArray, as_value, current_trace, opened, shape_of
from rlx.tracing.tracer import Tracer
from rlx.transforms.jit import jit

Array = np.ndarray[Any, Any]

for _class in (torch.Tensor, torch.nn.Parameter):
    register_foreign_array(_class, as_array)  # `rlx.jit`, `rlx.grad` and others read them in place


def from_torch(
    program: Any,
    example_inputs: Any = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> TorchFunction:
    """Return a PyTorch module, or an exported program, as a function `f(params, *inputs)`.

    A module is traced by `torch.export` at `example_inputs`, a tuple of tensors, in the mode that
    it is in (`model.eval()` for inference). `dynamic_shapes` are those of `torch.export`; an
    `rlx.Dim` with a bound may replace its `Dim`.
    """
    if isinstance(program, ExportedProgram):
        return TorchFunction(program, names_of(program, dynamic_shapes))
    if not isinstance(program, torch.nn.Module):
        raise InputError(
            f"from_torch is given a {type(program).__name__}",
            source=calling_source(),
            remedy="pass a torch.nn.Module with example inputs, or what torch.export returned",
        )
    if not isinstance(example_inputs, (tuple, list)):
        raise InputError(
            "from_torch needs example inputs to trace a module",
            source=calling_source(),
            remedy="pass a tuple of tensors, as in rlx.from_torch(model, (x,))",
        )
    shapes = _as_torch(dynamic_shapes, {})
    exported = torch.export.export(
        program, tuple(example_inputs), dict(example_kwargs or {}), dynamic_shapes=shapes
    )
    return TorchFunction(exported, names_of(exported, dynamic_shapes))


def load(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, Any] | None = None,
    limits: LoadLimits | None = None,
) -> Graph:
    """Return the graph of a file that `torch.export.save` wrote."""
    with loading(limits, str(path)) as budget:
        budget.charge_bytes(os.path.getsize(path))
        try:
            program = torch.export.load(path)
        except Exception as error:  # whatever its reader of archives raises
            raise FormatError(
                f"{path}: torch.export cannot load it: {error}",
                remedy="write it with torch.export.save, with this version of PyTorch",
            ) from error
        function = TorchFunction(program, {})
        budget.charge_nodes(len(function.program.graph.nodes))
        return function.graph(dims)


class TorchFunction:
    """A PyTorch program as a function of params and arrays.

    `f(params, *inputs)` returns what the module returns: arrays in the same containers, those of
    classes that are no tuples, lists or dicts as dicts. It can be given to `jit`, `grad`, `vmap`
    and `aot`. `params` and `buffers` are the module's, by name, as arrays of their own.
    """

    def __init__(self, program: ExportedProgram, names: Mapping[str, str]) -> None:
        program = program.run_decompositions(decompositions())
        self.program = program
        self._names = dict(names)
        signature = program.graph_signature
        state = {**program.state_dict, **program.constants}
        self._inputs = signature.input_specs
        self._outputs = signature.output_specs
        self.params: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        self._constants: dict[str, Array] = {}
        for spec in self._inputs:
            if spec.kind is InputKind.PARAMETER:
                self.params[str(spec.target)] = constant(state[spec.target])
            elif spec.kind is InputKind.BUFFER:
                self.buffers[str(spec.target)] = constant(state[spec.target])
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                self._constants[str(spec.target)] = constant(state[spec.target])
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        self._metas = [n.meta.get("val") for n in nodes]
        self._users = [
            (node.name, meta)
            for node, meta, spec in zip(nodes, self._metas, self._inputs, strict=True)
            if spec.kind is InputKind.USER_INPUT
        ]
        self.draws = GraphFunction(program.graph_module).draws  # raises for missing rules
        self.__name__ = _identifier(type(program.graph_module).__name__, "torch_function")
        self.__signature__ = self._signature()

    @property
    def mutates(self) -> tuple[str, ...]:
        """The names of the buffers that a call replaces, as batch normalization in training."""
        kinds = (OutputKind.BUFFER_MUTATION,)
        return tuple(str(spec.target) for spec in self._outputs if spec.kind in kinds)

    def __call__(
        self, params: Mapping[str, Any], *inputs: Any, key: Any = None, **named: Any
    ) -> Any:
        """Return what the module returns; buffers have the values that they had when traced.

        A program that draws random numbers needs a `key` of `rlx.random`.
        """
        return self.with_buffers(params, self.buffers, *inputs, key=key, **named)[0]

    def with_buffers(
        self,
        params: Mapping[str, Any],
        buffers: Mapping[str, Any],
        *inputs: Any,
        key: Any = None,
        **named: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Return what the module returns, and the buffers after the call."""
        if not isinstance(params, Mapping):
            raise InputError(
                f"params are a {type(params).__name__}, and not arrays by name",
                source=calling_source(),
                remedy="pass the params first, as in f(f.params, x)",
            )
        if current_trace() is None:
            found: tuple[Any, dict[str, Any]] = self._compiled(
                dict(params), dict(buffers), list(inputs), key, dict(named)
            )
            return found
        return self._traced(params, buffers, inputs, key, named)

    @cached_property
    def _compiled(self) -> Any:
        def run(params: Any, buffers: Any, inputs: Any, key: Any, named: Any) -> Any:
            return self._traced(params, buffers, inputs, key, named)

        return jit(run)

    def _traced(
        self, params: Mapping[str, Any], buffers: Mapping[str, Any], inputs: Any, key: Any,
        named: Mapping[str, Any],
    ) -> tuple[Any, dict[str, Any]]:  # fmt: skip
        users = self._flat(inputs, named)
        extents = Extents(self._bound(users))
        values = self._values(params, buffers, users)
        function = GraphFunction(self.program.graph_module, extents)
        results = function(*values, draws=self._drawn(key, extents))
        return self._returned(results, buffers, users)

    def _values(
        self, params: Mapping[str, Any], buffers: Mapping[str, Any], users: Sequence[Any]
    ) -> list[Any]:
        given = iter(users)
        values: list[Any] = []
        for spec in self._inputs:
            name = str(spec.target)
            if spec.kind is InputKind.USER_INPUT:
                values.append(_as_tracer(next(given)))
            elif spec.kind is InputKind.PARAMETER:
                values.append(_as_tracer(_named(params, name, "param")))
            elif spec.kind is InputKind.BUFFER:
                values.append(_as_tracer(_named(buffers, name, "buffer")))
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                values.append(_as_tracer(self._constants[name]))
            elif spec.kind is InputKind.TOKEN:
                values.append(None)  # which orders effects, and is no array
            else:
                raise InputError(
                    f"the program takes {spec.kind.name}, which has no form as an array",
                    remedy="export a program of tensors",
                )
        return values

    def _returned(
        self, results: Sequence[Any], buffers: Mapping[str, Any], users: Sequence[Any]
    ) -> tuple[Any, dict[str, Any]]:
        after = dict(buffers)
        found = []
        for spec, value in zip(self._outputs, results, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                found.append(value)
            elif spec.kind is OutputKind.BUFFER_MUTATION:
                after[str(spec.target)] = value
            elif spec.kind is not OutputKind.TOKEN:
                raise InputError(
                    f"the program writes {spec.target!r}, an argument, in place",
                    remedy="return the new value, and change nothing in place",
                )
        del users
        spec_of_result = self.program.call_spec.out_spec
        assert spec_of_result is not None  # of every exported program
        return plain(tree_unflatten(found, spec_of_result)), after

    def _flat(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the leaves of the arguments, in the order of the program's inputs."""
        spec = self.program.call_spec.in_spec
        assert spec is not None  # of every exported program
        order = list(_example(spec)[1])
        if set(order) != set(named):
            raise InputError(
                f"the program takes the named arguments {list(order)} and is given {list(named)}",
                source=calling_source(),
                remedy="pass the arguments that were in the example",
            )
        leaves: list[Any] = tree_flatten((tuple(inputs), {name: named[name] for name in order}))[0]
        if len(leaves) != len(self._users):
            raise InputError(
                f"the program takes {len(self._users)} arrays and is given {len(leaves)}",
                source=calling_source(),
                remedy="pass arguments in the containers of the example inputs",
            )
        return leaves

    def _bound(self, users: Sequence[Any]) -> dict[str, Extent]:
        """Return the extents of dynamic dimensions, from the shapes of arguments."""
        symbols: dict[str, Extent] = {}
        for (name, meta), given in zip(self._users, users, strict=True):
            if not isinstance(meta, torch.Tensor):
                continue
            shape = shape_of(_as_numpy(given))
            if len(shape) != meta.dim():
                raise _wrong_shape(name, meta, shape)
            for size, extent in zip(meta.shape, shape, strict=True):
                if not isinstance(size, torch.SymInt):
                    if size != extent:
                        raise _wrong_shape(name, meta, shape)
                elif size.node.expr.is_Symbol:
                    symbols.setdefault(size.node.expr.name, extent)
        return symbols

    def _drawn(self, key: Any, extents: Extents) -> list[Any]:
        from rlx import random

        if not self.draws:
            return []
        if key is None:
            raise InputError(
                "the program draws random numbers",
                source=calling_source(),
                remedy="pass key=rlx.random.key(0), or export the module in eval mode",
            )
        found = []
        for number, (node, draw) in enumerate(self.draws.items()):
            shape = tuple(map(extents.extent, size_of_draw(node, draw)))
            found.append(from_key(draw, random.fold_in(key, number), shape))
        return found

    # As a graph

    def types(self, dims: Mapping[str, Any] | None = None) -> dict[str, TensorType]:
        """Return the types of the inputs, dynamic dimensions as `Dim`s within their bounds.

        `dims` gives other extents to dimensions, by name, or shapes to inputs.
        """
        given = dict(dims or {})
        symbols = {
            str(symbol): given.get(self._names.get(str(symbol), str(symbol)), self._dim(symbol))
            for symbol in self.program.range_constraints
            if symbol.is_Symbol
        }
        extents = Extents(symbols)
        found = {}
        for name, meta in self._users:
            if isinstance(meta, torch.Tensor):
                shape = given.get(name) or tuple(map(extents.extent, meta.shape))
                found[name] = TensorType(dtype_of(meta.dtype), tuple(shape))
        return found

    def _dim(self, symbol: Any) -> Dim:
        bounds = self.program.range_constraints[symbol]
        low, high = int(bounds.lower), bounds.upper
        name = self._names.get(str(symbol), str(symbol))
        known = high.is_Integer and int(high) < 1 << 48
        return Dim(name, min=low, max=int(high) if known else None)

    def graph(self, dims: Mapping[str, Any] | None = None) -> Graph:
        """Return the graph of a call, whose params are the module's params and buffers.

        `graph.param_values` has their arrays: `rlx.compile`, `rlx.aot` and `rlx.quantize` take
        both. Buffers that a call replaces become outputs, which donate the params.
        """
        with opened(self.__name__) as trace:
            params = {
                name: Tracer(trace, trace.graph.param(name, x.shape, _dtype(x)))
                for name, x in {**self.params, **self.buffers}.items()
            }
            inputs = {
                name: Tracer(trace, trace.graph.input(name, type.shape, type.dtype))
                for name, type in self.types(dims).items()
            }
            users = [
                inputs[name] if isinstance(meta, torch.Tensor) else meta
                for name, meta in self._users
            ]
            extents = Extents(self._bound(users))
            function = GraphFunction(self.program.graph_module, extents)
            values = self._values(params, params, users)
            if self.draws:
                key = Tracer(trace, trace.graph.input("key", (2,), "u32"))
                results = function(*values, draws=self._drawn(key, extents))
            else:
                results = function(*values)
            found, after = self._returned(
                results, {name: params[name] for name in self.buffers}, users
            )
            leaves, names = _leaves_of(found)
            trace.graph.set_outputs(
                [as_value(x) for x in (*leaves, *(after[name] for name in self.mutates))]
            )
        graph = trace.graph
        for place, name in enumerate(self.mutates):
            graph.donate(name, len(leaves) + place)
        graph.param_values.update({**self.params, **self.buffers})
        graph.output_names = (*names, *(f"{name}_after" for name in self.mutates))
        return graph

    def _signature(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ["params"]
        spec = self.program.call_spec.in_spec
        positional = 0 if spec is None else len(tree_flatten(_example(spec)[0])[0])
        for name, _ in self._users[:positional]:
            names.append(name if name.isidentifier() and name not in names else f"x{len(names)}")
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])


def plain(found: Any) -> Any:
    """Return containers as tuples, lists and dicts."""
    if isinstance(found, Mapping):
        return {str(name): plain(x) for name, x in found.items() if x is not None}
    if isinstance(found, (tuple, list)):
        return [plain(x) for x in found] if isinstance(found, list) else tuple(map(plain, found))
    if is_dataclass(found) and not isinstance(found, type):
        return {name: plain(x) for name, x in vars(found).items() if x is not None}
    return found


def _leaves_of(found: Any) -> tuple[list[Any], list[str]]:
    """Return arrays, and their names by where they are."""
    leaves: list[Any] = []
    names: list[str] = []

    def visit(x: Any, name: str) -> None:
        if isinstance(x, dict):
            for each, part in x.items():
                visit(part, f"{name}_{each}" if name else each)
        elif isinstance(x, (tuple, list)):
            for i, part in enumerate(x):
                visit(part, f"{name}_{i}" if name else f"y{i}")
        elif x is not None:
            leaves.append(x)
            names.append(name or "y")

    visit(found, "")
    return leaves, names


def names_of(program: ExportedProgram, dynamic_shapes: Any) -> dict[str, str]:
    """Return the user's names of dynamic dimensions by those of PyTorch's symbols."""
    found: dict[str, str] = {}
    if not dynamic_shapes:
        return found
    shapes = dynamic_shapes.values() if isinstance(dynamic_shapes, Mapping) else dynamic_shapes
    named = [
        node.meta.get("val")
        for node, spec in zip(
            (n for n in program.graph.nodes if n.op == "placeholder"),
            program.graph_signature.input_specs,
            strict=True,
        )
        if spec.kind is InputKind.USER_INPUT
    ]
    for meta, axes in zip(named, shapes, strict=False):
        if not isinstance(meta, torch.Tensor) or axes is None:
            continue
        pairs = axes.items() if isinstance(axes, Mapping) else enumerate(axes)
        for axis, dim in pairs:
            name = str(dim) if isinstance(dim, Dim) else getattr(dim, "__name__", None)
            size = meta.shape[axis]
            if name is not None and isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(size.node.expr.name, name)
    return found


def _as_torch(shapes: Any, made: dict[str, Any]) -> Any:
    """Return dynamic shapes with PyTorch's dimensions in place of ours."""
    if isinstance(shapes, Dim):
        (symbol,) = shapes.symbols
        name = symbol.name
        if name not in made:
            made[name] = torch.export.Dim(name, min=symbol.min, max=symbol.max)
        return made[name]
    if isinstance(shapes, Mapping):
        return {each: _as_torch(part, made) for each, part in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)(_as_torch(part, made) for part in shapes)
    return shapes


def _as_numpy(x: Any) -> Any:
    return as_array(x) if isinstance(x, torch.Tensor) else x


def _as_tracer(x: Any) -> Any:
    if isinstance(x, (TracedArray, bool, int, float, str, type(None))):
        return x
    import rlx.numpy as rnp

    return rnp.asarray(_as_numpy(x))


def _dtype(x: Array) -> Any:
    from rlx.ir.dtype import as_dtype

    return as_dtype(x.dtype)


def _named(arrays: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in arrays:
        raise InputError(
            f"the {what} {name!r} is missing",
            source=calling_source(),
            remedy=f"pass all {what}s, as in f.{what}s",
        )
    return arrays[name]


def _example(spec: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of a program, positional and named, with numbers as leaves."""
    args, named = tree_unflatten(range(spec.num_leaves), spec)
    return args, named


def _wrong_shape(name: str, meta: Any, shape: Any) -> ShapeError:
    return ShapeError(
        f"input {name} has shape {tuple(shape)}; the program was exported for {tuple(meta.shape)}",
        source=calling_source(),
        remedy="pass arrays of that shape, or export it with dynamic_shapes",
    )


def _identifier(name: str, fallback: str) -> str:
    return name if name.isidentifier() and name.isascii() else fallback

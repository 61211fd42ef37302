"""An FX graph compiled: tensors in, tensors out, without copies where memory is dense.

Symbolic sizes are extents: a program is compiled for a range of sizes up to a power of two, and
for exact sizes where an operator needs numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from rlx.dataclass import dataclass
from rlx.errors import ShapeError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent, evaluate
from rlx.ir.types import TensorType
from rlx.passes.rewrites.inline_calls import inline_calls
from rlx.runtime.compile import compile
from rlx.torch.draws import by_torch
from rlx.torch.interpreter import GraphFunction
from rlx.torch.rules.random import Draw, from_key
from rlx.torch.types import Extents, as_array, as_tensor, dtype_of
from rlx.tracing.traced_function import Specification, trace

_KEY = TensorType(DType.U32, (2,))
_KEY_DRAW = Draw("key", (), DType.U32)


@dataclass(frozen=True)
class Options:
    """How graphs are compiled: those of `rlx.compile`, and where random numbers come from."""

    backend: str = "auto"
    threads: int | None = None
    precision: Any = None
    random: str = "torch"
    """"torch": drawn by PyTorch's generator, as in eager mode; "rlx": in compiled code, by a key
    that PyTorch's generator draws at each call."""


@dataclass
class _Variant:
    """A program for sizes within bounds."""

    run: Callable[..., Any]
    outputs: list[Any]
    """What is returned: ("tensor", i), ("input", i), ("extent", e), ("number", n) or None."""
    draws: list[Any]
    """What PyTorch draws: pairs of a draw and its shape."""


@dataclass
class CompiledGraph:
    """A graph module, compiled at its first call for arguments of new sizes."""

    module: GraphModule
    options: Options
    name: str = "torch_graph"
    restride: int = 0
    """How many of the first results get the strides that PyTorch gave them."""
    _variants: dict[Any, _Variant] = field(default_factory=dict)
    _is_exact: bool = False
    """Some operator needs numbers: programs are compiled for exact sizes."""

    def __post_init__(self) -> None:
        nodes = list(self.module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.metas = [node.meta.get("val") for node in self.inputs]
        self._places = [i for i, x in enumerate(self.metas) if isinstance(x, torch.Tensor)]
        self.results = next(node for node in nodes if node.op == "output").args[0]
        self.symbols = sorted({s.name for meta in self.metas for s in _symbols(meta)})
        GraphFunction(self.module)  # raises for operators without rules
        self._only: _Variant | None = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run on tensors and sizes; compile if their sizes are new."""
        variant = self._only
        binding: dict[str, int] = {}
        if variant is None:
            binding = self._binding(args)
            variant = self._variant(binding)
            if not self.symbols:
                self._only = variant
        arrays = [self._array(args, place) for place in self._places]
        if variant.draws:
            arrays += [
                as_array(by_torch(draw, tuple(evaluate(n, binding) for n in shape)))
                for draw, shape in variant.draws
            ]
        found = variant.run(*arrays)
        results: list[Any] = []
        for place, output in enumerate(variant.outputs):
            if output is None:
                results.append(None)
                continue
            kind, what = output
            if kind == "tensor":
                results.append(self._strided(as_tensor(found[what]), place))
            elif kind == "input":
                results.append(args[what])
            else:
                results.append(evaluate(what, binding) if kind == "extent" else what)
        return results

    def _array(self, args: Sequence[Any], place: int) -> Any:
        """Return an argument as an array; a token of effects, which is None, as an empty one."""
        if args[place] is None:
            return np.zeros(self.metas[place].shape, dtype_of(self.metas[place].dtype).numpy)
        return as_array(args[place])

    def _strided(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        """Return a result with PyTorch's strides where its caller can see them."""
        if place >= self.restride:
            return tensor
        meta = self.results[place].meta.get("val")
        if not isinstance(meta, torch.Tensor) or meta.dim() < 2:
            return tensor
        stride = meta.stride()
        if not all(isinstance(n, int) for n in stride) or tensor.stride() == stride:
            return tensor
        if meta.is_contiguous() or 0 in stride:
            return tensor
        return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype).copy_(tensor)

    # Sizes

    def _binding(self, args: Sequence[Any]) -> dict[str, int]:
        """Return the numbers of the symbols in a call."""
        found: dict[str, int] = {}
        for meta, given in zip(self.metas, args, strict=True):
            if isinstance(meta, torch.SymInt):
                if meta.node.expr.is_Symbol:
                    found[meta.node.expr.name] = int(given)
            elif isinstance(meta, torch.Tensor) and given is not None:
                for size, extent in zip(meta.shape, given.shape, strict=True):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        found[size.node.expr.name] = int(extent)
        missing = [name for name in self.symbols if name not in found]
        if missing:
            raise UnsupportedError(
                f"the size {missing[0]} is given by no argument",
                remedy="compile it for fixed sizes, with dynamic=False",
            )
        return found

    def _variant(self, binding: dict[str, int]) -> _Variant:
        if not self.symbols:
            return self._compiled({})
        if not self._is_exact:
            bounds = {name: _bounds(n) for name, n in binding.items()}
            own = self._shaped()
            key = tuple(
                (name, bounds[name] if name in own else n) for name, n in sorted(binding.items())
            )
            if key in self._variants:
                return self._variants[key]
            symbols: dict[str, Extent] = {
                name: Dim(name, min=low, max=high) if name in own else binding[name]
                for name, (low, high) in bounds.items()
            }
            try:
                variant = self._variants[key] = self._compiled(symbols)
                return variant
            except (ShapeError, UnsupportedError, TypeError):
                self._is_exact = True
        exact = tuple(sorted(binding.items()))
        if exact not in self._variants:
            self._variants[exact] = self._compiled(dict(binding))
        return self._variants[exact]

    def _shaped(self) -> set[str]:
        """Return the symbols that are an axis of an argument by themselves."""
        return {
            size.node.expr.name
            for meta in self.metas
            if isinstance(meta, torch.Tensor)
            for size in meta.shape
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol
        }

    # Compiling

    def _compiled(self, symbols: dict[str, Extent]) -> _Variant:
        extents = Extents(symbols)
        function = GraphFunction(self.module, extents)
        places = self._places
        types = [_type(self.metas[i], extents) for i in places]
        draws = [
            (draw, tuple(map(extents.extent, _first(node).shape)))
            for node, draw in function.draws.items()
        ]
        is_own = self.options.random == "rlx"
        names = [_name(self.inputs[i], i) for i in places]
        inputs = [Specification(n, t) for n, t in zip(names, types, strict=True)]
        if not is_own:
            inputs += [
                Specification(f"draw_{i}", TensorType(draw.dtype, shape))
                for i, (draw, shape) in enumerate(draws)
            ]
        elif draws:
            inputs.append(Specification("key", _KEY))
        outputs: list[Any] = []

        def call(arrays: list[Any]) -> Any:
            outputs.clear()
            given = iter(arrays[: len(places)])
            values = [
                next(given) if isinstance(meta, torch.Tensor) else _number(meta, extents)
                for meta in self.metas
            ]
            drawn = arrays[len(places) :]
            if is_own and draws:
                drawn = _by_key(draws, arrays[-1])
            found = function(*values, draws=drawn)
            kept: list[Any] = []
            for node, value in zip(self.results, found, strict=True):
                if value is None:
                    outputs.append(None)
                elif isinstance(node, Node) and node.op == "placeholder":
                    outputs.append(("input", self.inputs.index(node)))
                elif isinstance(value, Dim):
                    outputs.append(("extent", value))
                elif isinstance(value, (int, float, bool)):
                    outputs.append(("number", value))
                else:
                    outputs.append(("tensor", len(kept)))
                    kept.append(value)
            return kept

        program = trace(call, self.name, inputs)
        drawn_first = [(_KEY_DRAW, (2,))] if is_own and draws else draws
        if not program.graph.outputs:
            return _Variant(lambda *_: (), outputs, [])
        run = compile(
            inline_calls(program.graph), backend=self.options.backend,
            threads=self.options.threads, precision=self.options.precision,
        )  # fmt: skip
        return _Variant(run, outputs, drawn_first)


def _bounds(size: int) -> tuple[int, int]:
    """Return the range of sizes that share a program: up to a power of two, from 2 on."""
    high = 1 << max(size - 1, 1).bit_length()
    return (0 if size < 2 else max(high // 2 + 1, 2) if size > 2 else 2), high


def _symbols(meta: Any) -> set[Any]:
    sizes = meta.shape if isinstance(meta, torch.Tensor) else [meta]
    return {
        symbol
        for size in sizes
        if isinstance(size, torch.SymInt)
        for symbol in size.node.expr.free_symbols
    }


def _type(meta: Any, extents: Extents) -> TensorType:
    return TensorType(dtype_of(meta.dtype), tuple(map(extents.extent, meta.shape)))


def _first(node: Node) -> Any:
    meta = node.meta["val"]
    return meta[0] if isinstance(meta, (tuple, list)) else meta


def _number(meta: Any, extents: Extents) -> Any:
    return extents.extent(meta) if isinstance(meta, torch.SymInt) else meta


def _name(node: Node, place: int) -> str:
    text = str(node.target)
    return text if text.isidentifier() and text.isascii() else f"x{place}"


def _by_key(draws: Sequence[Any], key: Any) -> list[Any]:
    from rlx import random

    return [from_key(draw, random.fold_in(key, i), shape) for i, (draw, shape) in enumerate(draws)]

"""An FX graph compiled: tensors in, tensors out, without copies where memory is dense.

Symbolic sizes are extents: a program is compiled for a range of sizes up to a power of two, and
for exact sizes where an operator needs numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import torch
from torch.fx import GraphModule, Node

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import ShapeError, SymbolicExtentError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent
from rlx.ir.types import TensorType
from rlx.passes.fusion.reroll_reductions import reroll_reductions
from rlx.passes.rewrites.inline_calls import inline_calls
from rlx.runtime.compile import compile
from rlx.runtime.tune import tune
from rlx.torch.interpreter import GraphFunction, size_of_draw
from rlx.torch.layouts import Order, dense_order, inverse, rows
from rlx.torch.registry import name_of
from rlx.torch.rules.random import Draw, from_key
from rlx.torch.types import Extents, dtype_of
from rlx.torch.variant import TensorArgument, Variant, nothing_done
from rlx.tracing.trace import Trace, as_value, opened
from rlx.tracing.tracer import Tracer

_KEY = TensorType(DType.U32, (2,))
_KEY_DRAW = Draw("key", (), DType.U32)
_CHANGES = 3
"""Calls in a row at which a param has changed, after which it is no resident any more."""
_TABLE_READS = frozenset(
    {"embedding", "index_select", "index.Tensor", "gather", "_unsafe_index.Tensor"}
)
"""Operators that read some rows of a tensor: it is read in place."""


@dataclass(frozen=True)
class Options:
    """How graphs are compiled: those of `rlx.compile`, and where random numbers come from."""

    backend: str = "auto"
    threads: int | None = None
    precision: Any = None
    resident: bool = False
    """What depends on params alone is computed once for each version of them, in inference: not
    the default, since a write past PyTorch's count of changes may not be seen."""
    tune: float = 0.0
    """Seconds for which schedules of a graph are measured before it is compiled (`rlx.tune`)."""
    random: str = "torch"
    """"torch": drawn by PyTorch's generator, as in eager mode; "rlx": in compiled code, by a key
    that PyTorch's generator draws at each call."""


@dataclass
class CompiledGraph:
    """A graph module, compiled at its first call for arguments of new sizes."""

    module: GraphModule
    options: Options
    name: str = "torch_graph"
    restride: int = 0
    """How many of the first results get the strides that PyTorch gave them."""
    static: frozenset[int] = frozenset()
    """The places of params and buffers, which are the same at most calls."""
    _variants: dict[Any, Variant] = field(default_factory=dict)
    _is_exact: bool = False
    _shares_dims: bool = False
    """True where symbols of the same size are one extent of a program."""
    """Some operator needs numbers: programs are compiled for exact sizes."""

    def __post_init__(self) -> None:
        nodes = list(self.module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.metas = [node.meta.get("val") for node in self.inputs]
        self._places = [i for i, x in enumerate(self.metas) if isinstance(x, torch.Tensor)]
        self.cotangents = [i for i in self._places if str(self.inputs[i].target)[:8] == "tangents"]
        """The places of the gradients that AOTAutograd gives a backward graph."""
        self.results = next(node for node in nodes if node.op == "output").args[0]
        self.symbols = sorted({s.name for meta in self.metas for s in _symbols(meta)})
        GraphFunction(self.module)  # raises for operators without rules
        self._residents = {i for i in self.static if self._may_reside(i)}
        self._only: Variant | None = None
        self.fast: Callable[..., list[Any] | None] = nothing_done
        """Runs on tensors that are exactly right; returns None, and does nothing, for others."""

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run on tensors and sizes; compile if their sizes are new."""
        found = self.fast(*args)
        return self.slow(args) if found is None else found

    def slow(self, args: list[Any]) -> list[Any]:
        """Run on what `fast` does not take."""
        variant = self._only
        binding: dict[str, int] = {}
        if variant is None:
            binding = self._binding(args)
            variant = self._variant(binding, args)
            if not self.symbols:
                self._only = variant
        results = variant(args, binding)
        if variant is self._only:
            self.fast = variant.direct
        if variant.changed and max(variant.changed.values()) >= _CHANGES:
            self._let_go(variant)
        return results

    def _may_reside(self, place: int) -> bool:
        """True for a param from which more is computed than rows of a table are read."""
        users = [name_of(user.target) for user in self.inputs[place].users]
        return isinstance(self.metas[place], torch.Tensor) and any(
            name not in _TABLE_READS for name in users
        )

    def _let_go(self, variant: Variant) -> None:
        """Compile again, with what changes at every call as inputs."""
        self._residents -= {place for place, n in variant.changed.items() if n >= _CHANGES}
        self._variants.clear()
        self._only = None
        self.fast = nothing_done

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

    def _variant(self, binding: dict[str, int], args: list[Any]) -> Variant:
        if not self.symbols:
            return self._compiled({}, args)
        if not self._is_exact:
            symbols = self._dims(binding)
            key = tuple(
                (name, extent.terms if isinstance(extent, Dim) else extent)
                for name, extent in symbols.items()
            )
            if key in self._variants:
                return self._variants[key]
            try:
                variant = self._variants[key] = self._compiled(symbols, args)
                return variant
            except SymbolicExtentError:
                self._is_exact = True
            except ShapeError:
                if self._shares_dims:
                    raise
                self._shares_dims = True  # PyTorch's rules compare fewer sizes than ours
                return self._variant(binding, args)
        exact = tuple(sorted(binding.items()))
        if exact not in self._variants:
            self._variants[exact] = self._compiled(dict(binding), args)
        return self._variants[exact]

    def _dims(self, binding: dict[str, int]) -> dict[str, Extent]:
        """Return the extents of a program for sizes near those of a call."""
        own, first = self._shaped(), dict[int, str]()
        found: dict[str, Extent] = {}
        for name, size in sorted(binding.items()):
            if name not in own:
                found[name] = size
                continue
            low, high = _bounds(size)
            shared = first.setdefault(size, name) if self._shares_dims else name
            found[name] = Dim(shared, min=low, max=high)
        return found

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

    def _compiled(self, symbols: dict[str, Extent], args: list[Any]) -> Variant:
        extents = Extents(symbols)
        function = GraphFunction(self.module, extents)
        arguments = [self._argument(place, extents, args[place]) for place in self._places]
        residents = self._residents_at(args)
        draws = [
            (draw, tuple(map(extents.extent, size_of_draw(node, draw))))
            for node, draw in function.draws.items()
        ]
        outputs: list[Any] = []
        orders: list[Order] = []
        with opened(self.name) as trace:
            values = {
                each.place: rnp.transpose(
                    _leaf(trace, each, is_param=each.place in residents), inverse(each.order)
                )
                for each in arguments
            }
            drawn, drawn_first = self._drawn(trace, draws, args)
            found = function(
                *(values.get(i, _number(x, extents)) for i, x in enumerate(self.metas)),
                draws=drawn,
            )
            made: list[Any] = []
            for place, (node, value) in enumerate(zip(self.results, found, strict=True)):
                output = self._output(node, value, len(made))
                outputs.append(output)
                if output is not None and output[0] == "tensor":
                    orders.append(self._order_of_result(place, value))
                    made.append(as_value(rnp.transpose(value, orders[-1])))
            trace.graph.set_outputs(made)
        inputs = [each for each in arguments if each.place not in residents]
        inputs += drawn_first[1]
        variant = Variant(
            run=_nothing, inputs=inputs, outputs=outputs, orders=orders, draws=drawn_first[0],
            residents=[each for each in arguments if each.place in residents],
            arguments=len(self.metas), is_plain=not symbols and self._is_plain(args),
        )  # fmt: skip
        if made:
            graph = inline_calls(reroll_reductions.rewrite(trace.graph).graph)
            if self.options.tune and self.options.backend != "reference":
                tune(
                    graph, seconds=self.options.tune, backend=self.options.backend,
                    threads=self.options.threads,
                )  # fmt: skip
            variant.run = compile(
                graph, backend=self.options.backend, threads=self.options.threads,
                precision=self.options.precision,
            )  # fmt: skip
        return variant

    def _argument(self, place: int, extents: Extents, given: Any) -> TensorArgument:
        meta = self.metas[place]
        shape = tuple(map(extents.extent, meta.shape))
        order = rows(len(shape))
        if isinstance(given, torch.Tensor):
            order = dense_order(given.shape, given.stride()) or order
        type = TensorType(dtype_of(meta.dtype), tuple(shape[axis] for axis in order))
        return TensorArgument(place, _name(self.inputs[place], place), type, order)

    def _residents_at(self, args: list[Any]) -> set[int]:
        """Return the places of residents whose changes PyTorch counts."""
        if self.options.backend == "reference":
            return set()
        return {i for i in self._residents if not args[i].is_inference()}

    def _is_plain(self, args: list[Any]) -> bool:
        return all(
            isinstance(args[i], torch.Tensor) and not (args[i].is_conj() or args[i].is_neg())
            for i in self._places
        )

    def _drawn(self, trace: Trace, draws: list[Any], args: list[Any]) -> Any:
        """Return the drawn arrays of a call, and what PyTorch draws for them: pairs, arguments."""
        if self.options.random == "rlx" and draws:
            key = TensorArgument(len(args), "key", _KEY, (0,))
            drawn = _by_key(draws, _leaf(trace, key, is_param=False))
            return drawn, ([(_KEY_DRAW, (2,))], [key])
        arguments = [
            TensorArgument(
                len(args) + i, f"draw_{i}", TensorType(draw.dtype, shape), rows(len(shape))
            )
            for i, (draw, shape) in enumerate(draws)
        ]
        return [_leaf(trace, each, is_param=False) for each in arguments], (draws, arguments)

    def _output(self, node: Any, value: Any, count: int) -> Any:
        if value is None:
            return None
        if isinstance(node, Node) and node.op == "placeholder":
            return "input", self.inputs.index(node)
        if isinstance(value, Dim):
            return "extent", value
        return ("number", value) if isinstance(value, (int, float, bool)) else ("tensor", count)

    def _order_of_result(self, place: int, value: Any) -> Order:
        """Return PyTorch's order of axes where the program's caller can see it."""
        meta = self.results[place].meta.get("val")
        if place >= self.restride or not isinstance(meta, torch.Tensor):
            return rows(len(value.shape))
        return dense_order(meta.shape, meta.stride()) or rows(len(value.shape))


def _leaf(trace: Trace, each: TensorArgument, *, is_param: bool) -> Tracer:
    declare = trace.graph.param if is_param else trace.graph.input
    return Tracer(trace, declare(each.name, each.type.shape, each.type.dtype))


def _nothing(*_: Any) -> tuple[()]:
    return ()


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


def _number(meta: Any, extents: Extents) -> Any:
    return extents.extent(meta) if isinstance(meta, torch.SymInt) else meta


def _name(node: Node, place: int) -> str:
    text = str(node.target)
    return text if text.isidentifier() and text.isascii() else f"x{place}"


def _by_key(draws: Sequence[Any], key: Any) -> list[Any]:
    from rlx import random

    return [from_key(draw, random.fold_in(key, i), shape) for i, (draw, shape) in enumerate(draws)]

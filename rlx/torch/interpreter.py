"""FX graphs of ATen operators as functions of arrays: one rule a node, under the user's lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import GraphModule, Node

import rlx.numpy as rnp
from rlx.errors import InternalError, NoRuleError, RlxError, Source, UnsupportedError, blamed
from rlx.ir.dtype import DType
from rlx.torch import rules as rules  # fills the table
from rlx.torch.registry import Entry, Memory, entry_of, name_of
from rlx.torch.rules.random import Draw, draw_of, is_random
from rlx.torch.types import Extents, as_array, dtype_of, type_of
from rlx.tracing.apply import graph as open_graph
from rlx.tracing.trace import TracedArray

_DROPPED = frozenset(
    {"layout", "device", "pin_memory", "memory_format", "non_blocking", "requires_grad"}
)
_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


class GraphFunction:
    """A function of arrays that computes what an FX graph computes.

    Operators without a rule raise NoRuleError here, with the line of the user's program.
    """

    def __init__(self, module: GraphModule, extents: Extents | None = None) -> None:
        self.module = module
        self.extents = extents or Extents({})
        self.nodes = list(module.graph.nodes)
        require_rules(module)
        self.draws = {node: draw for node in self.nodes if (draw := _draw_of(node)) is not None}
        """What is drawn for which nodes, in their order."""

    def __call__(self, *inputs: Any, draws: Sequence[Any] = ()) -> Any:
        """Return what the graph's output node names, for a value per placeholder and draw."""
        values: dict[Node, Any] = {}
        drawn = dict(zip(self.draws, draws, strict=True))
        given = iter(inputs)
        for node in self.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self._attribute(node)
            elif node.op == "output":
                return _bound(node.args[0], values)
            else:
                values[node] = self._call(node, values, drawn)
        raise AssertionError("a graph ends with its output node")

    def _attribute(self, node: Node) -> Any:
        found: Any = self.module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, GraphModule):
            return GraphFunction(found, self.extents)
        return constant(found) if isinstance(found, torch.Tensor) else found

    def _call(self, node: Node, values: dict[Node, Any], drawn: dict[Node, Any]) -> Any:
        entry = entry_of(node.target)
        if entry is None and _is_constant(node):
            return constant(node.target(*node.args, **node.kwargs))
        assert entry is not None  # as `require_rules` found
        source = users_line(node)
        args, kwargs = _bound(node.args, values), _bound(node.kwargs, values)
        if is_random(node.target):
            args = [drawn.get(node), *args]
            kwargs = {name: x for name, x in kwargs.items() if name != "generator"}
        try:
            with open_graph().attributed(source), blamed(name_of(node.target), source):
                return self._apply(entry, node, args, kwargs)
        except RlxError as error:
            name = name_of(node.target)
            if error.message.startswith(f"{name}: "):
                raise
            where = source or error.source
            raise error.rewritten(f"{name}: {error.message}", where) from error

    def _apply(self, entry: Entry, node: Node, args: Any, kwargs: Any) -> Any:
        args = tuple(_argument(x) for x in args)
        kwargs = {k: _argument(x) for k, x in kwargs.items() if k not in _DROPPED}
        meta = node.meta.get("val")
        if entry.reads_strides:
            kwargs["memory"] = self._memory(node.args[0].meta["val"])
        if entry.promotion is not None:
            return self._elementwise(entry, node, meta, args, kwargs)
        if entry.is_typed:
            return self._finished(entry.apply(self._type(meta), *args, **kwargs), meta)
        return self._finished(entry.apply(*args, **kwargs), meta)

    def _memory(self, tensor: Any) -> Memory:
        known = self.extents.extent
        return Memory(tuple(map(known, tensor.stride())), known(tensor.storage_offset()))

    def _type(self, meta: Any) -> Any:
        if isinstance(meta, (tuple, list)):
            return [self._type(each) for each in meta]
        return None if meta is None else type_of(meta, self.extents)

    def _elementwise(self, entry: Entry, node: Node, meta: Any, args: Any, kwargs: Any) -> Any:
        """Apply a rule in one dtype; f16 and bf16 are computed in f32, and rounded once."""
        if entry.promotion == "result":
            dtype = dtype_of(meta.dtype)
        else:
            dtype = dtype_of(_common_dtype(node))
        if dtype.is_low_precision:
            dtype = DType.F32
        args = [_as(x, dtype) for x in args]
        kwargs = {name: _as(x, dtype) for name, x in kwargs.items()}
        return self._finished(entry.apply(*args, **kwargs), meta)

    def _finished(self, result: Any, meta: Any) -> Any:
        """Return a result in the dtype that PyTorch gives it; its shape must be PyTorch's."""
        if isinstance(meta, (tuple, list)):
            return [
                None if each is None else self._finished(each, part)
                for each, part in zip(result, meta, strict=True)
            ]
        if not isinstance(meta, torch.Tensor) or result is None:
            return result
        if not isinstance(result, TracedArray):
            result = rnp.asarray(result)
        dtype = dtype_of(meta.dtype)
        if result.value.dtype is not dtype or result.weak:
            result = result.astype(dtype)
        if len(result.shape) != meta.dim() or any(
            isinstance(own, int) and isinstance(size, int) and own != size
            for own, size in zip(result.shape, meta.shape, strict=True)
        ):
            raise InternalError(f"the rule gives shape {result.shape}, PyTorch {tuple(meta.shape)}")
        return result


def _draw_of(node: Node) -> Draw | None:
    if node.op != "call_function" or not is_random(node.target):
        return None
    if node.kwargs.get("generator") is not None:
        raise UnsupportedError(
            f"{name_of(node.target)} draws from a generator of its own",
            source=users_line(node),
            remedy="use the default generator, with torch.manual_seed",
        )
    meta = node.meta["val"]
    first = meta[0] if isinstance(meta, (tuple, list)) else meta
    return draw_of(node.target, node.args, node.kwargs, dtype_of(first.dtype))


def size_of_draw(node: Node, draw: Draw) -> Any:
    """Return the shape of what is drawn for a node, in PyTorch's sizes."""
    of = node if draw.operand is None else node.args[draw.operand]
    assert isinstance(of, Node)  # an operand that is a tensor
    meta = of.meta["val"]
    return (meta[0] if isinstance(meta, (tuple, list)) else meta).shape


def constant(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor of the graph module as an array of its own."""
    with torch._C._DisableTorchDispatch():
        return np.array(as_array(tensor.detach()), order="C")


def require_rules(module: GraphModule) -> None:
    """Raise NoRuleError that names every operator of a graph that has no rule, and one line."""
    missing = list(_missing(module))
    if not missing:
        return
    names = ", ".join(dict.fromkeys(name_of(node.target) for node in missing))
    raise NoRuleError(
        f"no rule for {names}, which the PyTorch program uses",
        source=users_line(missing[0]),
        remedy="write it with other operators, or leave it outside with torch.compiler.disable; "
        "docs/from_torch.md lists what is not supported",
    )


def _missing(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        has_rule = node.op != "call_function" or entry_of(node.target) is not None
        if not has_rule and not _is_constant(node):
            yield node


def _is_constant(node: Node) -> bool:
    """True for an operator that makes the same tensor of no other, such as a window."""
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return is_operator and not node.all_input_nodes and not is_random(node.target)


def users_line(node: Node) -> Source | None:
    """Return the innermost line outside of PyTorch that made a node."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if "/torch/" not in frame[0].replace("\\", "/")]
    if not (own or frames):
        return None
    file, line, function = (own or frames)[-1]
    return Source(file, int(line), function)


def _bound(found: Any, values: dict[Node, Any]) -> Any:
    """Return arguments of a node with the values of other nodes."""
    if isinstance(found, Node):
        return values[found]
    if isinstance(found, (tuple, list)):
        return [_bound(each, values) for each in found]
    if isinstance(found, dict):
        return {name: _bound(each, values) for name, each in found.items()}
    if isinstance(found, slice):
        return slice(*(_bound(each, values) for each in (found.start, found.stop, found.step)))
    return found


def _argument(found: Any) -> Any:
    """Return an argument as rules take it: dtypes are rlx's."""
    return dtype_of(found) if isinstance(found, torch.dtype) else found


def _common_dtype(node: Node) -> torch.dtype:
    """Return the dtype in which PyTorch compares operands."""
    given = [x.meta["val"] if isinstance(x, Node) else x for x in node.args]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    operands = [x for x in given if isinstance(x, (torch.Tensor, int, float, complex))]
    dtype: torch.dtype = elementwise_dtypes(*operands, type_promotion_kind=kind)[0]
    return dtype


def _as(x: Any, dtype: DType) -> Any:
    """Return an array in `dtype`; a number as it is."""
    if isinstance(x, TracedArray):
        return x if x.value.dtype is dtype else x.astype(dtype)
    return rnp.asarray(x).astype(dtype) if isinstance(x, np.ndarray) else x


def each_of(change: Callable[[Any], Any], found: Sequence[Any]) -> list[Any]:
    """Return `change` of each."""
    return [change(x) for x in found]

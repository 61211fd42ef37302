"""Derived rules as graphs: requests, construction, and insertion into a graph.

A rule that an op does not state itself (`sweep` derives it) becomes a graph from (operands,
results, given derivatives) to derivatives. It is made once per request and grafted, without
its dead nodes, wherever a node matches the request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs, OpDef
from rlx.ir.types import TensorType
from rlx.passes.autodiff.directions import are_many
from rlx.passes.rewrite import ancestors

Mask: TypeAlias = tuple[bool, ...]
Sparse: TypeAlias = tuple[Value | None, ...]
"""Derivatives by position; `None` is zero."""


class Decline(enum.Enum):
    """Returned by a rule to fall back to the op's formula."""

    BY_FORMULA = "by formula"


Derivatives: TypeAlias = Value | Sequence[Value | None] | Decline | None
"""What a rule gives: one derivative per operand (or result), a single one, or none."""


@dataclass(frozen=True, slots=True)
class Request:
    """Which derivative of which op: the key under which a derived rule is kept."""

    op: OpDef
    attrs: Attrs
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    active: Mask
    """The operands that need a cotangent (reverse) or have a tangent (forward)."""
    flowing: Mask
    """The results that have a cotangent (reverse) or may have a tangent (forward)."""
    many: bool
    """Whether it is taken in many directions (`directions`)."""

    @classmethod
    def of(cls, node: Node, active: Mask, flowing: Mask) -> Request:
        operands = tuple(operand.type for operand in node.operands)
        results = tuple(result.type for result in node.results)
        return cls(node.op, node.attrs, operands, results, active, flowing, are_many())


@dataclass(frozen=True, slots=True)
class Scratch:
    """The graph of a derived rule while it is built."""

    graph: Graph
    operands: tuple[Value, ...]
    results: tuple[Value, ...]

    @classmethod
    def open(cls, request: Request, name: str) -> Scratch:
        graph = Graph(f"{request.op.name}_{name}")
        operands = _declare(graph, "operand", request.operands)
        return cls(graph, operands, _declare(graph, "result", request.results))

    def derivatives(self, prefix: str, types: Sequence[TensorType], mask: Mask) -> Sparse:
        """Declare one more input for each type in `mask`."""
        return tuple(
            self.graph.input(f"{prefix}{index}", type.shape, _derivative_dtype(type))
            if has
            else None
            for index, (type, has) in enumerate(zip(types, mask, strict=True))
        )

    def close(self, produced: Sequence[Value | None]) -> Derived:
        self.graph.set_outputs(present(produced))
        return Derived(self.graph, tuple(value is not None for value in produced))


@dataclass(frozen=True, slots=True)
class Derived:
    """A finished rule; `produced` says which derivatives its outputs are."""

    body: Graph
    produced: Mask

    def graft(self, node: Node, given: Iterable[Value | None]) -> Sparse:
        """Append the rule for `node`, with the derivatives `given`, to the node's graph."""
        operands = (*node.operands, *node.results, *present(given))
        outputs = iter(graft(node.results[0].graph, self.body, operands))
        return tuple(next(outputs) if has else None for has in self.produced)


def graft(
    graph: Graph,
    body: Graph,
    operands: Sequence[Value],
    known: Mapping[Value, Value] = MappingProxyType({}),
) -> tuple[Value, ...]:
    """Append the nodes that `body`'s outputs need, its first inputs bound to `operands`.

    Values of `body` in `known` are not computed: they are the values of `graph` named there.
    """
    value_map: dict[Value, Value] = dict(zip(body.inputs, operands, strict=False)) | dict(known)
    needed = ancestors(body.outputs, known)
    for node in body.nodes:
        if node.op.name != "input" and any(r in needed and r not in known for r in node.results):
            moved = [value_map[operand] for operand in node.operands]
            made = graph.append(node.op, moved, node.attrs)
            value_map |= dict(zip(node.results, made, strict=True)) | dict(known)
    return tuple(value_map[output] for output in body.outputs)


def derivative_type(type: TensorType) -> TensorType | None:
    """Return the type of a cotangent or tangent of `type`; `None` where there is none.

    i8 tensors have derivatives in the straight-through quantization chain, in f32.
    """
    if type.dtype.is_differentiable:
        return type
    return type.with_dtype(DType.F32) if type.dtype is DType.I8 else None


def present(values: Iterable[Value | None]) -> tuple[Value, ...]:
    return tuple(value for value in values if value is not None)


def place(values: Iterable[Value | None], mask: Mask) -> Sparse:
    """Scatter `values` to the positions that `mask` marks; None elsewhere."""
    remaining = iter(values)
    return tuple(next(remaining) if has else None for has in mask)


def spread(derivatives: Derivatives, count: int) -> Sparse:
    """Return what a rule gave as `count` derivatives; missing trailing ones are zero."""
    if isinstance(derivatives, Decline):
        raise InternalError("autodiff: a rule leaves its case to a formula that the op lacks")
    if derivatives is None or isinstance(derivatives, Value):
        derivatives = (derivatives,)
    if len(derivatives) > count:
        raise InternalError(f"autodiff: a rule gave {len(derivatives)} derivatives for {count}")
    return (*derivatives, *(None,) * (count - len(derivatives)))


def _declare(graph: Graph, prefix: str, types: Sequence[TensorType]) -> tuple[Value, ...]:
    return tuple(graph.input(f"{prefix}{i}", t.shape, t.dtype) for i, t in enumerate(types))


def _derivative_dtype(type: TensorType) -> DType:
    return DType.F32 if type.dtype is DType.I8 else type.dtype

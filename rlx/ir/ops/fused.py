"""The `fused` op: one kernel for an anchor with the elementwise work before and after it.

**The contract of bodies.** A body is a `Graph` without params, donations, control flow or
`fused` nodes. Its inputs bind to the operands in order and are named after their part in the
work (`a`, `bias`, `scale`); every input is read. Its nodes are, in topological order:

- *constants* of exactly one element;
- *pointwise* nodes: ops with the trait ELEMENTWISE (their operands broadcast to the result as
  NumPy does), `expand`, and `reshape`s that only insert or remove axes of extent 1. The
  result at an index reads each operand at that index, with axes of extent 1 held at 0: no
  other index is ever read;
- *movement*: ops with an index map (`rlx.ir.index_maps`) that read elsewhere: `narrow`, `pad`,
  `concat`, `reverse`, `slice`. They read inputs, or cheap pointwise values of any shape that are
  computed wherever they are read (`rlx.passes.fusion.recompute`), never another output;
- at most one *anchor*: a node that is none of these (`reduce_*`, `softmax`, `log_softmax`,
  `layer_norm`, `rms_norm`, `matmul`, `gather`, ...). It has one result. Several anchors are
  *siblings*: `reduce_*` over the same axes of operands of one shape, none of which depends on
  another, that fold all of them in one pass (a multi-output fusion).

Let S be the anchor's result shape, or the shape of all outputs if there is no anchor.

- *Prologue*: the pointwise nodes that the anchor depends on. An anchor that takes a prologue
  takes it at its operand 0 only; its other operands are inputs of the body. An anchor with the
  trait READS_SLICES (attention, rope) takes none, but any operand may be a slice of an input:
  a `narrow`, and a `reshape` of it that keeps its rows. Attention of few queries also takes a
  `cast` to f32 of keys and values of 16 bits.
- *Epilogue*: the pointwise nodes that depend on the anchor. They also read inputs, constants
  and, where the anchor keeps its operand's shape, prologue values; all of them broadcast to S.
- *Outputs*: one or more, distinct, each of shape S: epilogue values, the anchor's result, or
  prologue values of shape S (the sum in residual + layer_norm). Constants and inputs are not
  outputs.

Every pointwise value whose shape is not S (or, before the anchor, not the shape of its operand
0) is read through movement, or comes from inputs and constants through `expand` and `reshape`
alone. The meaning is that of the nodes one by one; a kernel may keep f16 and bf16 intermediates
in f32 until they are stored. An input may share the memory of a result only as the memory
planner says (`aliased` of the thunk): an input of the result's shape, not read through
movement, in a body without anchor, or one that only the epilogue reads where the anchor is a
`matmul` or a `reduce_*`. Their kernels therefore read such an input at an index before they
store the result there, and store each element once, when it is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlx.errors import GraphError
from rlx.ir import index_maps  # by its name alone: it may wait for this package
from rlx.ir.declaration import op
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.ops.reduction import reduced_axes
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType


def _inline(*operands: Value, body: Graph) -> tuple[Value, ...]:
    """The nodes of the body, one by one."""
    return operands[0].graph.inline(body, operands)


@op("fused", Trait.FUSED, decompose=_inline)
def fused(*operands: TensorType, body: Graph) -> tuple[TensorType, ...]:
    """Apply `body` to the operands as one kernel; made by fusion passes only."""
    expected = tuple(value.type for value in body.inputs)
    if operands != expected:
        raise GraphError(
            f"operands of types {_listed(operands)} do not fit "
            f"body {body.name!r}, which takes {_listed(expected)}",
            remedy="cast or reshape the operands, or build the body for their types",
        )
    return tuple(output.type for output in body.outputs)


@op("fused", Trait.FUSED, decompose=_inline)
def scalar_region(*operands: TensorType, body: Graph) -> tuple[TensorType, ...]:
    """Apply `body`, all of whose values are small, as one function of scalars.

    Made by a pass only. Each element is a local of straight-line code, equal ones are one, and what
    is known while compiling is not computed. No result shares memory with an operand.
    """
    return fused.infer(*operands, body=body)


@op("fused", Trait.FUSED, decompose=_inline)
def row_region(*operands: TensorType, body: Graph) -> tuple[TensorType, ...]:
    """Apply `body`, which passes over the same rows several times, one row after another.

    Made by a pass only. The body holds reductions along one axis of one shape, and pointwise nodes
    of that shape and of the reductions' shape, which read what is made there at their own row, or
    column, alone. A result of the last pass may share the memory of an operand of its type.
    """
    return fused.infer(*operands, body=body)


def row_passes(body: Graph) -> dict[Value, int]:
    """Return the pass over a row, from 0, in which each value of a row region is computed.

    What follows from a reduction is computed after the pass that folds it.
    """
    found: dict[Value, int] = {}
    for node in body.nodes:
        before = max((found[operand] for operand in node.operands), default=0)
        found[node.results[0]] = before + node.op.has(Trait.REDUCTION)
    return found


def last_row_pass(body: Graph) -> int:
    """Return the last pass over a row of a row region: it folds, or computes results."""
    passes, rows = row_passes(body), row_shape(body)
    folds = (passes[node.result] - 1 for node in body.nodes if node.op.has(Trait.REDUCTION))
    results = (passes[output] for output in body.outputs if output.shape == rows)
    return max(*folds, *results, 0)


def is_of_last_row_pass(body: Graph, index: int) -> bool:
    """True if the last pass of a row region stores the elements of that result.

    A number of a row is stored before the passes that follow from it, which read operands again.
    """
    output = body.outputs[index]
    is_last = row_passes(body)[output] == last_row_pass(body)
    return is_last and output.shape == row_shape(body)


def row_shape(body: Graph) -> Shape:
    """Return the shape whose rows, or columns, a row region passes over."""
    return _first_reduction(body).operands[0].shape


def folded_axes(body: Graph) -> tuple[int, ...]:
    """Return the axes along which the reductions of a body fold, without those of one element."""
    axes, shape = reduced_axes(_first_reduction(body)), row_shape(body)
    return tuple(axis for axis in axes if shape[axis] != 1) or axes[-1:]


def _first_reduction(body: Graph) -> Node:
    return next(node for node in body.nodes if node.op.has(Trait.REDUCTION))


def operand_name(name: str, type: TensorType) -> str:
    """Return the name of a body's input: the op's parameter name, marked if packed."""
    return name if type.layout is None else f"packed_{name}"


_AROUND = frozenset((Trait.LEAF, Trait.GENERATED, Trait.ELEMENTWISE, Trait.MOVEMENT))


def is_anchor(node: Node) -> bool:
    """True for nodes that are neither elementwise nor movement: anchors of fused bodies."""
    return node.op.traits.isdisjoint(_AROUND)


def anchors_of(body: Graph) -> tuple[Node, ...]:
    """Return the anchors of `body`: none, one, or sibling reductions."""
    return tuple(node for node in body.nodes if is_anchor(node))


def anchor_of(body: Graph) -> Node | None:
    """Return the first anchor of `body`, if it has one."""
    return next((node for node in body.nodes if is_anchor(node)), None)


def sibling_key(node: Node) -> tuple[Shape, tuple[int, ...], Shape] | None:
    """Return a key that is equal for reductions that can share a pass; None for other ops."""
    if not (node.op.has(Trait.REDUCTION) and node.op.has(Trait.PROLOGUE)):
        return None
    return node.operands[0].shape, reduced_axes(node), node.result.shape


def are_siblings(nodes: Sequence[Node]) -> bool:
    """True for reductions over the same axes of one shape, by their types."""
    keys = {sibling_key(node) for node in nodes}
    return len(keys) == 1 and None not in keys


def is_pointwise(node: Node) -> bool:
    """True if each result element reads the operands at its own (broadcast) index only."""
    return node.op.has(Trait.ELEMENTWISE) or index_maps.is_aligned(node)


def moved(body: Graph) -> set[Node]:
    """Return the nodes of `body` of which something is read at another index than its own."""
    maps, is_aligned = index_maps.maps, index_maps.is_aligned
    return needed_by(node for node in body.nodes if node.op in maps and not is_aligned(node))


def needed_by(nodes: Iterable[Node]) -> set[Node]:
    """Return all nodes that `nodes` are computed from."""
    found: set[Node] = set()
    waiting = list(nodes)
    while waiting:
        for operand in waiting.pop().operands:
            if operand.node not in found:
                found.add(operand.node)
                waiting.append(operand.node)
    return found


def _listed(types: tuple[TensorType, ...]) -> str:
    return ", ".join(str(type) for type in types)

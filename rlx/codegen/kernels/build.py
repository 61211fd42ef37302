"""From a thunk to its kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.elementwise import region
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.grouped import Body, is_split
from rlx.codegen.kernels.registry import (
    KERNELS,
    LOWERED,
    SCRATCH,
    SCRATCH_ELEMENTS,
    Scope,
    has_builder,
    invoke_builder,
    lowered_key,
)
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.nodes import Buffer, Kernel, storage
from rlx.codegen.loops.passes.known_loads import known_loads
from rlx.codegen.loops.passes.pair_sines import pair_sines
from rlx.codegen.loops.passes.pipeline import CLEANUP, run_passes
from rlx.codegen.loops.passes.target_passes import target_passes
from rlx.codegen.schedule import Thunk
from rlx.codegen.text import as_identifier
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Lowering
from rlx.ir.op import OPS, Attrs, OpDef, Trait
from rlx.ir.types import TensorType
from rlx.passes.rewrites.decompose import expand_pointwise
from rlx.target import Target, named_target

WIDEST = named_target("x86-64-v4")
"""What a kernel is built for where nothing else is said: everything that a target may have."""


def build_kernel(
    thunk: Thunk,
    name: str,
    doc: Sequence[str] = (),
    arguments: Mapping[int, str] | None = None,
    *,
    target: Target = WIDEST,
) -> Kernel:
    """Build the kernel of `thunk`; `arguments` renames operands, then results, by position.

    Arguments: a pointer per operand, per result and for scratch, in this order; then one i64
    per symbol of the types, in the order of `thunk.symbols`. A result without elements has
    an argument too.
    """
    graph = thunk_body(thunk)
    k = KernelBuilder(name)
    inputs, outputs = _declare_arguments(k, thunk, graph, arguments or {})
    scratch = None if thunk.scratch is None else _declare_scratch(k, graph)
    extents = Extents({symbol.name: k.scalar(symbol.name) for symbol in thunk.symbols})
    body = Body(graph, find_anchors(graph), k, extents, inputs, outputs, is_split(graph))
    is_large = None if thunk.opened is None else thunk.opened.is_large
    scope = Scope(k, extents, body, scratch, target, is_large)
    if computes_nothing(thunk):
        return k.build(doc)
    if body.anchor is None:
        region(scope)
    else:
        _build_anchored(scope, body.anchor)
    _check_stored(body)
    known = known_loads({k.buffer_at(at).name: number for at, number in thunk.known})
    single = not target.has_doubles and target.multiplies_and_adds(4)
    early = (pair_sines(single=single),) if target.is_small else ()
    passes = (known, *early, *scope.passes, *CLEANUP, *target_passes(target))
    return run_passes(k.build(doc), passes)


def computes_nothing(thunk: Thunk) -> bool:
    """True if every result is empty and no index has to be checked either.

    Loops over empty axes would divide by their extents.
    """
    definition = OPS[thunk.kind]
    checks = definition.has(Trait.INDEXED_WRITE) and definition.has(Trait.MAY_FAULT)
    return not checks and all(type.elements == 0 for type in thunk.result_types)


def kernel_name(thunk: Thunk) -> str:
    """Return a readable name, such as `softmax_16x384` or `matmul_gelu_64`; not yet unique."""
    kinds = [thunk.kind]
    if OPS[thunk.kind].has(Trait.FUSED) and thunk.kind != "scalar_region":
        kinds = telling_ops(thunk.attrs["body"])
    shape = thunk.results[0].type.shape if thunk.results and thunk.opened is None else ()
    first = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
    extents = [re.sub(r"\W+", "_", str(extent)).strip("_") for extent in shape[first:]]
    in_place = ["in_place"] if thunk.aliased else []
    size = [] if thunk.opened is not None else ["x".join(extents) or "scalar"]
    return "_".join([*kinds, *size, *in_place])


_NAMED_OPS = 3
_PLAIN = frozenset(("add", "sub", "mul", "div", "neg", "cast", "where", "eq", "ne", "lt", "gt"))
"""Ops that say little about a kernel that does more."""


def telling_ops(body: Graph) -> list[str]:
    """Return the ops in the name of a fused kernel: its anchors and math functions."""
    nodes = [node for node in body.nodes if not node.op.has(Trait.LEAF)]
    computing = [node for node in nodes if not node.op.has(Trait.MOVEMENT)] or nodes
    anchors = ops.anchors_of(body)
    names = list(dict.fromkeys(node.op.name for node in computing if node not in anchors))
    functions = [name for name in names if name not in _PLAIN] or names[-1:]
    if anchors:
        return [*dict.fromkeys(anchor.op.name for anchor in anchors), *functions[-1:]]
    return functions if len(functions) <= _NAMED_OPS else [*functions[:2], functions[-1]]


def has_kernel(definition: OpDef) -> bool:
    """True if a node of this op can become a thunk without being decomposed."""
    by_traits = (Trait.FUSED, Trait.CONTROL, Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.GENERATED)
    return definition.name in KERNELS or any(map(definition.has, by_traits))


def has_lowered_kernel(definition: OpDef) -> bool:
    """True if a node of this op can become a thunk once it has some lowering record."""
    return any(key.partition("/")[0] == definition.name for key in LOWERED.names())


def scratch_bytes(node: Node) -> int:
    """Return the bytes of scratch that the kernel of `node` needs."""
    graph = node.attribute("body") if node.op is ops.fused else None
    anchors = (node,) if graph is None else find_anchors(graph)
    return sum(map(_anchor_scratch, anchors))


def _anchor_scratch(anchor: Node) -> int:
    kind = None if anchor.lowering is None else type(anchor.lowering)
    rule = SCRATCH.get(lowered_key(anchor.op.name, kind))
    if rule is None:
        return 0
    operands = [operand.type for operand in anchor.operands]
    results = [result.type for result in anchor.results]
    chosen = {} if anchor.lowering is None else {"lowering": anchor.lowering}
    return rule(*operands, results=results, **chosen, **anchor.attrs.as_dict())


def thunk_body(thunk: Thunk) -> Graph:
    """Return the graph that `thunk` computes, its composite elementwise ops spelled out."""
    if thunk.kind == "fused":
        graph: Graph = thunk.attrs["body"]
        return expand_pointwise(graph)
    definition = OPS.get(thunk.kind)
    if definition is None:
        raise InternalError(f"thunk kind {thunk.kind!r} names no op")
    body = single_node_body(definition, thunk.operand_types, thunk.attrs, thunk.lowering)
    return expand_pointwise(body)


def single_node_body(
    definition: OpDef,
    operands: Sequence[TensorType],
    attrs: Attrs,
    lowering: Lowering | None = None,
) -> Graph:
    """Return a body of one node whose inputs are named as the op names its operands."""
    graph = Graph("body")
    names = list(definition.operands)
    body = attrs.get("body")
    if isinstance(body, Graph) and len(body.inputs) == len(operands):
        names = [str(value.node.name) for value in body.inputs]
    elif definition.variadic:
        names[-1:] = [f"{names[-1]}_{i}" for i in range(len(operands) - len(names) + 1)]
    inputs = [
        graph.input_of(ops.operand_name(name, type), type)
        for name, type in zip(names, operands, strict=False)
    ]
    graph.set_outputs(graph.append(definition, inputs, attrs, lowering=lowering))
    return graph


def find_anchors(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes that a kernel is built for: the anchors of its body, or the only node."""
    nodes = [node for node in graph.nodes if not node.op.has(Trait.LEAF)]
    if len(nodes) == 1 and has_builder(nodes[0].op.name, nodes[0].lowering):
        return (nodes[0],)
    anchors = ops.anchors_of(graph)
    if len(anchors) > 1 and not ops.are_siblings(anchors):
        names = ", ".join(node.op.name for node in anchors)
        raise InternalError(f"a fused body has anchors that share no pass: {names}")
    return anchors


def find_anchor(graph: Graph) -> Node | None:
    """Return the first node that a kernel is built for, if there is one."""
    anchors = find_anchors(graph)
    return anchors[0] if anchors else None


def _declare_arguments(
    k: KernelBuilder, thunk: Thunk, graph: Graph, renamed: Mapping[int, str]
) -> tuple[Mapping[Value, Buffer], tuple[tuple[Value, Buffer], ...]]:
    shared_operands = {operand for operand, _ in thunk.aliased}
    shared_results = {result for _, result in thunk.aliased}
    inputs: dict[Value, Buffer] = {}
    for number, (value, type) in enumerate(zip(graph.inputs, thunk.operand_types, strict=True)):
        name = as_identifier(renamed.get(number) or value.node.attribute("name"))
        inputs[value] = k.argument(name, storage(type.dtype), may_alias=number in shared_operands)
    result = "out" if any(buffer.name == "y" for buffer in inputs.values()) else "y"
    outputs = []
    for number, (value, type) in enumerate(zip(graph.outputs, thunk.result_types, strict=True)):
        plain = result if len(thunk.results) == 1 else f"{result}_{number}"
        name = as_identifier(renamed.get(len(thunk.operands) + number, plain))
        buffer = k.argument(
            name, storage(type.dtype), writable=True, may_alias=number in shared_results
        )
        outputs.append((value, buffer))
    return inputs, tuple(outputs)


def _declare_scratch(k: KernelBuilder, graph: Graph) -> Buffer:
    """Scratch holds what the anchor's kind asks for, else elements of its compute type."""
    anchor = find_anchor(graph)
    if anchor is None:
        raise InternalError(f"kernel {k.name} has scratch and no anchor that uses it")
    elements = SCRATCH_ELEMENTS.get(anchor.op.name, compute_prim)
    return k.argument("scratch", elements(anchor.operands[0].dtype), writable=True)


def _build_anchored(scope: Scope, anchor: Node) -> None:
    names = anchor.op.operands
    readers = [
        Reader(scope.body, operand, names[min(i, len(names) - 1)])
        for i, operand in enumerate(anchor.operands)
    ]
    writers = [Writer(scope.body, result, f"y{result.index}") for result in anchor.results]
    attributes = anchor.attrs.as_dict()
    invoke_builder(anchor.op.name, scope, readers, writers, attributes, anchor.lowering)


def _check_stored(body: Body) -> None:
    missing = [i for i in range(len(body.outputs)) if i not in body.stored]
    if missing:
        raise InternalError(f"kernel {body.k.name} does not store outputs {missing} of its body")

"""Functions from outside: `vmap_method` says how they are applied to a batch, as in JAX.

sequential            to one example after the other, in a loop
sequential_unrolled   the same without a loop
expand_dims           once; operands that are shared get a leading axis of extent 1
broadcast_all         once; all operands have the leading batch axis
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx.errors import NoRuleError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.passes.vmap.batching import Batching, MaybeBatched, reshape_to
from rlx.passes.vmap.registry import BY_FORMULA, Batched, batch


@batch(ops.ffi_call)
def ffi_call_batch(
    at: Batching,
    *operands: Value,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...],
    vmap_method: str | None,
) -> Batched:
    if vmap_method is None:
        raise NoRuleError(
            f"{target} has no rule for vmap: vmap_method is None",
            source=calling_source(),
            remedy="pass vmap_method='sequential', or 'broadcast_all' for a function of batches",
        )
    attrs = {"target": target, "attributes": attributes, "vmap_method": vmap_method}
    if vmap_method == "sequential":
        return _sequential(at, ops.ffi_call, operands, {**attrs, "result_types": result_types})
    if vmap_method == "sequential_unrolled":
        return BY_FORMULA  # it has none: then examples are unrolled
    spread = tuple(type.with_shape((at.size, *type.shape)) for type in result_types)
    given = at.lifted(operands) if vmap_method == "broadcast_all" else _expanded(at, operands)
    return _applied(at.graph, ops.ffi_call, given, {**attrs, "result_types": spread})


@batch(ops.effect_call)
def effect_call_batch(
    at: Batching,
    *operands: Value,
    target: str,
    result_types: tuple[TensorType, ...],
    attributes: tuple[int, ...],
    vmap_method: str | None,
) -> Batched:
    if vmap_method is None:
        raise NoRuleError(
            f"{target} is an ordered effect, which examples of a batch would share",
            source=calling_source(),
            remedy="call it outside of vmap, or pass ordered=False",
        )
    attrs = {"target": target, "attributes": attributes, "vmap_method": vmap_method}
    return _sequential(at, ops.effect_call, operands, {**attrs, "result_types": result_types})


def _expanded(at: Batching, operands: tuple[Value, ...]) -> list[Value]:
    pairs = zip(operands, at.batched, strict=True)
    return [x if batched else reshape_to(x, (1, *x.shape)) for x, batched in pairs]


def _sequential(
    at: Batching, definition: OpDef, operands: tuple[Value, ...], attrs: dict[str, Any]
) -> Batched:
    """Scan over the examples; what they share is an operand of every step."""
    body = Graph(definition.name)
    kinds = list(zip(operands, at.operands, at.batched, strict=True))
    shared = [(x, type) for x, type, batched in kinds if not batched]
    rows = [(x, type) for x, type, batched in kinds if batched]
    given = [body.input_of(f"shared_{i}", type) for i, (_, type) in enumerate(shared)]
    examples = [body.input_of(f"example_{i}", type) for i, (_, type) in enumerate(rows)]
    consts, steps = iter(given), iter(examples)
    arguments = [next(steps) if batched else next(consts) for batched in at.batched]
    body.set_outputs(_applied(body, definition, arguments, attrs))
    loop = {"body": body, "length": at.size, "num_carries": 0, "num_consts": len(shared)}
    outer = [x for x, _ in (*shared, *rows)]
    stacked = _applied(at.graph, ops.scan, outer, loop)
    return [MaybeBatched(row, batched=True) for row in stacked]


def _applied(
    graph: Graph, definition: OpDef, operands: Sequence[Value], attrs: dict[str, Any]
) -> tuple[Value, ...]:
    results = graph.apply(definition, operands, **attrs)
    assert isinstance(results, tuple)  # these ops have several, or one in a tuple
    return results

"""Batching rules of ops, for operands with a leading batch axis.

    shift_axes(ops.softmax)            # attributes `axis` and `axes` move by one
    leading(ops.topk)                  # leading axes are examples already
    broadcasting(ops.matmul, 2, 2)     # leading axes of the operands broadcast
    @batch(ops.gather)                 # any other op
    unrolled(ops.x, because="...")     # one example after the other

What an op does not say follows from what it is (`kind_of`): elementwise ops align their
operands, reductions shift their axes, windowed ops treat leading axes alike, composites are batched
through their formula.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rlx.ir.graph import Value
from rlx.ir.op import OpDef, Trait
from rlx.ir.registry import Registry
from rlx.ir.shape import normalize_axis
from rlx.passes.vmap.batching import Batching, MaybeBatched
from rlx.passes.vmap.errors import UnknownRuleError


class Decline(enum.Enum):
    """Returned by a rule to fall back to the op's formula."""

    BY_FORMULA = "by formula"


BY_FORMULA = Decline.BY_FORMULA

Batched: TypeAlias = Value | MaybeBatched | Sequence[Value | MaybeBatched] | Decline
"""What a rule gives: its results, batched unless they are `MaybeBatched` and say otherwise."""
BatchRule: TypeAlias = Callable[..., Batched]
"""`(at: Batching, *operands, **attributes) -> results`."""

batch: Registry[BatchRule] = Registry("vmap")
"""Rules; a declared absence means that the op is unrolled."""

STATED: dict[str, BatchRule] = {}
"""Rules of calls that a user stated, by the name that is the call's attribute `batching`."""


def stated_rule(name: str) -> BatchRule:
    """Return the rule that a user stated under a name."""
    if name not in STATED:
        raise UnknownRuleError(
            f"the batching rule {name!r} is not known in this process",
            remedy="trace the function here, instead of loading its graph",
        )
    return STATED[name]


class Kind(enum.Enum):
    """How an op is batched."""

    SHARED = "it has no operands, so that no example differs from another"
    RULE = "by a rule of its own"
    TRAIT = "by the rule of its trait"
    FORMULA = "through its formula"
    UNROLLED = "one example after the other"


def kind_of(definition: OpDef) -> Kind | None:
    """Return how `definition` is batched; None if nothing says so.

    An op of kind None is unrolled where it is pure and refused where it is not.
    """
    if not definition.operands:
        return Kind.SHARED
    if definition in batch:
        return Kind.RULE
    if batch.reason(definition) is not None:
        return Kind.UNROLLED
    if trait_rule(definition) is not None:
        return Kind.TRAIT
    return None if definition.decompose is None else Kind.FORMULA


def rule_of(definition: OpDef) -> BatchRule | None:
    """Return the op's own rule, or that of its trait."""
    return batch.get(definition) or trait_rule(definition)


def trait_rule(definition: OpDef) -> BatchRule | None:
    """Return the rule that a trait implies."""
    if definition.has(Trait.ELEMENTWISE):
        return _aligning(definition)
    if definition.has(Trait.WINDOWED):
        return _leading(definition)
    return _shifting(definition) if definition.has(Trait.REDUCTION) else None


def shift_axes(*definitions: OpDef) -> None:
    """Register ops whose attributes `axis` or `axes` count in operand 0."""
    for definition in definitions:
        batch.register(definition, _shifting(definition))


def leading(*definitions: OpDef) -> None:
    """Register ops that look at trailing axes only and treat equal leading axes alike."""
    for definition in definitions:
        batch.register(definition, _leading(definition))


def broadcasting(definition: OpDef, *cores: int) -> None:
    """Register an op that looks at its operands' last `cores` axes and broadcasts the others."""

    def rule(at: Batching, *operands: Value, **attributes: Any) -> Batched:
        lead = max(type.rank - core for type, core in zip(at.operands, cores, strict=True))
        aligned = at.aligned(operands, [lead + core for core in cores])
        result: Value = definition(*aligned, **attributes)
        return result

    batch.register(definition, rule)


def unrolled(*definitions: OpDef, because: str) -> None:
    """Declare ops that are applied to one example after the other."""
    batch.absent(*definitions, because=because)


def shifted(axis: int, rank: int) -> int:
    """Return the position, after the batch axis, of an axis of an example of `rank`."""
    return normalize_axis(axis, rank) + 1


def _aligning(definition: OpDef) -> BatchRule:
    def rule(at: Batching, *operands: Value, **attributes: Any) -> Batched:
        ranks = [at.result.rank] * len(operands)
        result: Value = definition(*at.aligned(operands, ranks), **attributes)
        return result

    return rule


def _shifting(definition: OpDef) -> BatchRule:
    def rule(at: Batching, *operands: Value, **attributes: Any) -> Batched:
        rank = at.operands[0].rank
        if "axis" in attributes:
            attributes["axis"] = shifted(attributes["axis"], rank)
        if "axes" in attributes:
            attributes["axes"] = tuple(shifted(axis, rank) for axis in attributes["axes"])
        result: Value = definition(*at.lifted(operands), **attributes)
        return result

    return rule


def _leading(definition: OpDef) -> BatchRule:
    def rule(at: Batching, *operands: Value, **attributes: Any) -> Batched:
        results: Batched = definition(*at.lifted(operands), **attributes)
        return results

    return rule

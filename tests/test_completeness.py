"""Every op has every cell filled: meaning, kernel, derivative, batching, record; or a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rlx.passes.autodiff
import rlx.passes.vmap  # noqa: F401  (fills the batching registry)
from rlx.codegen.kernels import has_kernel
from rlx.codegen.kernels.registry import LOWERED, REASONS
from rlx.ir import ops  # noqa: F401  (declares the ops)
from rlx.ir.op import COSTS, KINDS, OPS, OpDef, Trait
from rlx.ir.reference import reference
from rlx.passes.autodiff.registry import is_covered
from rlx.passes.vmap.registry import kind_of
from tests.records import records

TESTED_WITH_THEIR_PASS = frozenset(
    {
        *("pack_panels", "stored_matmul", "stored_conv"),
        *("bytes_as_words", "map_bytes"),
        *("int8_dequant_matmul", "quantize_rows", "dequant_matmul_words"),
        *("barrier", "checkpoint", "scan", "while_loop", "switch", "cond", "custom_call"),
        *("custom_derivative", "ffi_call", "effect_call", "check", "refuse_derivative"),
        *("all_gather", "all_reduce", "all_reduce_start", "all_reduce_done", "all_to_all"),
        *("axis_index", "collective_broadcast", "collective_permute", "reduce_scatter"),
        *("selective_scan", "gated_delta_net"),
        *("scan_trajectory", "scan_backward", "scan_backward_xs"),
    }
)
"""Ops of passes, of several ranks, or with a graph: of them a record of one node says nothing."""

EVERY = list(OPS.values())


def without(fact: Callable[[OpDef], object]) -> list[str]:
    """Return the names of the ops of which a fact does not hold."""
    return [definition.name for definition in EVERY if not fact(definition)]


def is_leaf(definition: OpDef) -> bool:
    return definition.has(Trait.LEAF)


def has_meaning(definition: OpDef) -> bool:
    by_trait = is_leaf(definition) or definition.has(Trait.VIEW)
    return by_trait or definition in reference or definition.decompose is not None


def can_be_lowered(definition: OpDef) -> bool:
    if is_leaf(definition) or has_kernel(definition) or definition.name in REASONS:
        return True
    return definition.decompose is not None


def test_every_op_has_a_meaning() -> None:
    assert without(has_meaning) == [], "add a rule in rlx/ir/reference"


def test_every_op_can_be_lowered() -> None:
    assert without(can_be_lowered) == [], "add a kernel in rlx/codegen/kernels"


@pytest.mark.guarantee("Derivatives", "Every op has derivatives, or a reason why not.")
def test_every_op_has_derivatives_or_a_reason() -> None:
    missing = without(lambda op: not op.operands or is_covered(op))
    assert missing == [], "add a fact in rlx/passes/autodiff/rules"


@pytest.mark.guarantee("Derivatives", "Every op is batched by `vmap`, or says why not.")
def test_every_op_says_how_it_is_batched() -> None:
    missing = without(lambda op: kind_of(op) is not None)
    assert missing == [], "add a rule in rlx/passes/vmap/rules, or `unrolled`"


def test_every_op_has_a_doc() -> None:
    assert without(lambda op: op.doc) == [], "say what it means"


def test_every_op_says_what_its_elements_depend_on() -> None:
    assert without(lambda op: op.traits & KINDS) == [], "give it one of rlx.ir.op.KINDS"
    several = without(lambda op: len((op.traits & KINDS) - {Trait.VIEW}) <= 1)
    assert several == [], "of several kinds"


def test_every_elementwise_primitive_says_what_an_element_costs() -> None:
    def is_right(op: OpDef) -> bool:
        primitive = op.has(Trait.ELEMENTWISE) and op.decompose is None
        return len(op.traits & COSTS) == primitive

    assert without(is_right) == [], "see rlx.ir.op.COSTS"


def test_every_op_is_recorded() -> None:
    recorded = {record.op.name for record in records()}
    by_traits = {d.name for d in EVERY if is_leaf(d) or d.has(Trait.FUSED)}
    assert sorted({*OPS} - recorded - by_traits - TESTED_WITH_THEIR_PASS) == []


def test_a_reason_is_given_only_where_there_is_no_kernel() -> None:
    assert [name for name in REASONS if has_kernel(OPS[name])] == []


def test_what_others_join_is_the_anchor_of_a_kernel() -> None:
    around = {Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.GENERATED, Trait.LEAF}
    kinds = {key.partition("/")[0] for key in LOWERED}

    def is_anchor(op: OpDef) -> bool:
        fuses = op.has(Trait.EPILOGUE) or op.has(Trait.PROLOGUE)
        return not fuses or ((has_kernel(op) or op.name in kinds) and not op.traits & around)

    assert without(is_anchor) == []

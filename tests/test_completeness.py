"""Every op has every cell filled: meaning, kernel, derivative, batching, record; or a reason."""

from __future__ import annotations

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
        *("pack_bytes", "bytes_as_words", "map_bytes"),
        "conv_channels_last",
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


def names(definitions: list[OpDef]) -> list[str]:
    return [definition.name for definition in definitions]


def is_leaf(definition: OpDef) -> bool:
    return definition.has(Trait.LEAF)


def has_meaning(definition: OpDef) -> bool:
    by_trait = is_leaf(definition) or definition.has(Trait.VIEW)
    return by_trait or definition in reference or definition.decompose is not None


def can_be_lowered(definition: OpDef) -> bool:
    if is_leaf(definition) or has_kernel(definition) or definition.name in REASONS:
        return True
    return definition.decompose is not None


@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_has_a_meaning(definition: OpDef) -> None:
    assert has_meaning(definition), f"{definition.name}: add a rule in rlx/ir/reference"


@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_can_be_lowered(definition: OpDef) -> None:
    assert can_be_lowered(definition), f"{definition.name}: add a kernel in rlx/codegen/kernels"


@pytest.mark.guarantee("Derivatives", "Every op has derivatives, or a reason why not.")
@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_has_derivatives_or_a_reason(definition: OpDef) -> None:
    covered = not definition.operands or is_covered(definition)
    assert covered, f"{definition.name}: add a fact in rlx/passes/autodiff/rules"


@pytest.mark.guarantee("Derivatives", "Every op is batched by `vmap`, or says why not.")
@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_says_how_it_is_batched(definition: OpDef) -> None:
    covered = kind_of(definition) is not None
    assert covered, f"{definition.name}: add a rule in rlx/passes/vmap/rules, or `unrolled`"


@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_has_a_doc(definition: OpDef) -> None:
    assert definition.doc, f"{definition.name}: say what it means"


@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_op_says_what_its_elements_depend_on(definition: OpDef) -> None:
    kinds = definition.traits & KINDS
    assert kinds, f"{definition.name}: give it one of rlx.ir.op.KINDS"
    assert len(kinds - {Trait.VIEW}) <= 1, f"{definition.name} is of several kinds"


@pytest.mark.parametrize("definition", EVERY, ids=names(EVERY))
def test_every_elementwise_primitive_says_what_an_element_costs(definition: OpDef) -> None:
    primitive = definition.has(Trait.ELEMENTWISE) and definition.decompose is None
    assert len(definition.traits & COSTS) == primitive, f"{definition.name}: see rlx.ir.op.COSTS"


def test_every_op_is_recorded() -> None:
    recorded = {record.op.name for record in records()}
    by_traits = {d.name for d in EVERY if is_leaf(d) or d.has(Trait.FUSED)}
    assert sorted({*names(EVERY)} - recorded - by_traits - TESTED_WITH_THEIR_PASS) == []


def test_a_reason_is_given_only_where_there_is_no_kernel() -> None:
    assert [name for name in REASONS if has_kernel(OPS[name])] == []


FUSES = [d for d in EVERY if d.has(Trait.EPILOGUE) or d.has(Trait.PROLOGUE)]


@pytest.mark.parametrize("definition", FUSES, ids=names(FUSES))
def test_what_others_join_is_the_anchor_of_a_kernel(definition: OpDef) -> None:
    around = {Trait.ELEMENTWISE, Trait.MOVEMENT, Trait.GENERATED, Trait.LEAF}
    kinds = {key.partition("/")[0] for key in LOWERED}
    assert has_kernel(definition) or definition.name in kinds
    assert not definition.traits & around

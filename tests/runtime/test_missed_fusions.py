"""`rlx.missed_fusions` and `rlx.assert_fusion_clean`, as users' tests call them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, MissedFusionError
from rlx.passes.fusion.reasons import Reason

X = np.ones((8, 8), np.float32)


def product_of_exp() -> rlx.Graph:
    """`exp`, which a product reads."""
    g = rlx.Graph("g")
    x = g.input("x", (8, 8))
    g.set_outputs([g.relu(g.matmul(g.exp(x), x))])
    return g


def test_a_program_that_is_one_kernel_is_clean() -> None:
    rlx.assert_fusion_clean(rlx.jit(lambda x: rnp.tanh(x @ x) * 2.0), X)
    assert rlx.missed_fusions(rlx.jit(rnp.exp), rlx.ShapeDtypeStruct((4,), "f32")) == ()


def test_what_is_missed_has_its_ends_and_its_reason() -> None:
    (missed,) = rlx.missed_fusions(product_of_exp())
    assert missed.ops == ("exp", "matmul")
    assert missed.obstacle == Reason.STORED_OPERANDS.because("matmul")
    assert "test_missed_fusions.py:" in str(missed)


def test_the_error_lists_pairs_with_reasons() -> None:
    with pytest.raises(MissedFusionError, match="matmul reads its operands from memory") as raised:
        rlx.assert_fusion_clean(rlx.jit(lambda x: rnp.exp(x) @ x), X)
    error = raised.value
    assert isinstance(error, AssertionError)
    assert [each.ops for each in error.missed] == [("exp", "matmul")]
    assert "allow=[('exp', 'matmul')]" in str(error)
    assert str(pickle.loads(pickle.dumps(MissedFusionError("m", remedy="r")))) == "m\n  r"


def test_allowed_pairs_are_no_error() -> None:
    rlx.assert_fusion_clean(product_of_exp(), allow=[("exp", "matmul")])
    with pytest.raises(MissedFusionError):
        rlx.assert_fusion_clean(product_of_exp(), allow=[("matmul", "exp")])


def test_products_in_16_bits_are_looked_at_where_asked() -> None:
    pairs = {each.ops for each in rlx.missed_fusions(product_of_exp(), precision="bf16")}
    assert pairs
    assert ("exp", "matmul") not in pairs  # a cast is between them


@pytest.mark.parametrize(
    ("arguments", "what"),
    [((rnp.exp, X), "cannot find the fusions of a"), ((product_of_exp(), X), "no arguments")],
)
def test_what_is_no_program_is_refused(arguments: tuple[Any, ...], what: str) -> None:
    with pytest.raises(InputError, match=what):
        rlx.missed_fusions(*arguments)

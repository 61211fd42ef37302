"""NaN and infinities through quantized products: as in floats, or saturated on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import InputError

RANDOM = np.random.default_rng(5)
BACKENDS = ("reference", "c", "llvm")
WRONG = [np.nan, np.inf, -np.inf]


def weights(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("f4")


def product(w: Any, x: Any) -> Any:
    return rlx.nn.relu(x @ w["first"]) @ w["second"]


def windows(groups: int, stride: int, rank: int = 2) -> Any:
    def function(w: Any, x: Any) -> Any:
        return lax.conv_general_dilated(
            x, w["taps"], (stride,) * rank, ((2, 1),) * rank, feature_group_count=groups,
            rhs_dilation=(2, *(1,) * (rank - 1)),
        )  # fmt: skip

    return function


def results(done: Any, x: Any) -> list[Any]:
    graph, params = done.graph, done.params
    (name,) = (value.node.name for value in graph.inputs)
    feed = {str(name): x}
    return [rlx.compile(graph, params=params, backend=b).run(feed)[0] for b in BACKENDS]


PRODUCT = (product, {"first": weights(12, 8), "second": weights(8, 5)}, weights(2, 3, 12))
CASES = {
    "product": PRODUCT,
    "conv": (windows(1, 1), {"taps": weights(4, 3, 3, 3)}, weights(2, 3, 9, 8)),
    "groups": (windows(2, 2), {"taps": weights(4, 2, 3, 3)}, weights(2, 4, 9, 8)),
    "depthwise": (windows(4, 1), {"taps": weights(4, 1, 3, 3)}, weights(2, 4, 9, 8)),
    "line": (windows(1, 2, 1), {"taps": weights(4, 3, 3)}, weights(2, 3, 9)),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("case", CASES)
def test_what_reads_no_finite_number_is_nan_and_all_else_as_before(case: str, wrong: float) -> None:
    function, params, x = CASES[case]
    done = rlx.quantize(function, [x], params=params, largest_error=1.0)
    assert all(layer.is_quantized for layer in done.report.layers)
    hurt = x.copy()
    hurt[1, 2, 4] = wrong
    expected = ~np.isfinite(np.asarray(rlx.jit(function)(params, hurt)))
    if case == "product":
        expected = np.broadcast_to(expected.any(-1, keepdims=True), expected.shape)
    assert set(expected.ravel()) == {False, True}
    for before, found in zip(results(done, x), results(done, hurt), strict=True):
        np.testing.assert_array_equal(np.isnan(found), expected)
        np.testing.assert_array_equal(found[~expected], before[~expected])


@pytest.mark.parametrize("wrong", WRONG)
def test_finite_inputs_may_be_assumed(wrong: float) -> None:
    function, params, x = PRODUCT
    done = rlx.quantize(function, [x], params=params, propagate_nonfinite=False)
    hurt = x.copy()
    hurt[1, 2, 4] = wrong
    assert all(np.isfinite(found).all() for found in results(done, hurt))


def test_they_pass_through_transformations() -> None:
    function, params, x = PRODUCT
    done = rlx.quantize(function, [x], params=params)
    hurt = x.copy()
    hurt[1, 2, 4] = np.nan
    expected = np.isnan(done(hurt))
    np.testing.assert_array_equal(np.isnan(rlx.vmap(done)(hurt)), expected)
    np.testing.assert_array_equal(np.isnan(rlx.jit(done)(hurt)), expected)
    assert np.isnan(rlx.value_and_grad(lambda x: rnp.sum(done(x)))(hurt)[0])


def test_the_choice_is_true_or_false() -> None:
    function, params, x = PRODUCT
    with pytest.raises(InputError, match="propagate_nonfinite is 'no'"):
        rlx.quantize(function, [x], params=params, propagate_nonfinite="no")  # type: ignore[arg-type]

"""Calls with NumPy's and JAX's names and order of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax, nn
from rlx.errors import MutationError, RlxError

X = np.arange(6.0).reshape(2, 3)

CALLS: dict[str, tuple[Any, Any]] = {
    "arrays by NumPy's name": (lambda np: np.sum(a=X, axis=1), None),
    "out=None by position": (lambda np: np.argmax(X, 1, None, keepdims=True), None),
    "an order of elements": (lambda np: np.ravel(X, "F"), None),
    "another order": (lambda np: np.reshape(X, (3, 2), order="F"), None),
    "integers between": (lambda np: np.linspace(0, 9, 4, True, False, int), None),
    "steps": (lambda np: np.linspace(0, 1, 5, retstep=True)[1], None),
    "an axis of lines": (lambda np: np.linspace(X[0], X[1], 3, axis=1), None),
    "a copy": (lambda np: np.nan_to_num(X, True, 2.0), None),
    "chosen": (lambda np: np.choose(X.astype(int) % 2, [X, -X], None, "clip"), None),
    "joined in a type": (lambda np: np.concatenate([X, X], 0, dtype="f4", casting="unsafe"),
                         lambda: rnp.concatenate([X, X], 0, dtype="f4")),
    "sums without NaN": (lambda np: np.nansum(X, 0, where=X > 1, initial=2.0), None),
    "a mean without NaN": (lambda np: np.nanmean(X, 0, where=X < 4), None),
    "indices that wrap": (lambda np: np.take(X, [4, -1], 1, mode="wrap"), None),
    "indices that are clipped": (lambda np: np.take(X, [4, 0], 1, mode="clip"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_in_numpys_form_are_numpys(name: str) -> None:
    call, ours = CALLS[name]
    expected = np.asarray(call(np))
    found = call(rnp) if ours is None else ours()
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found.dtype == expected.dtype
    traced = rlx.jit((lambda: call(rnp)) if ours is None else ours)()
    np.testing.assert_allclose(traced, expected, rtol=1e-14)


def test_a_parameter_that_has_no_meaning_is_refused() -> None:
    total: Any = rnp.sum
    with pytest.raises(MutationError, match="out="):
        total(X, 0, None, np.zeros(3))
    with pytest.raises(TypeError, match="bogus"):
        total(X, bogus=1)


def test_running_folds_and_splits_of_lax_are_jaxs() -> None:
    """Those of NumPy flatten by default, and split at positions."""
    np.testing.assert_array_equal(lax.cumsum(X), np.cumsum(X, 0))
    np.testing.assert_array_equal(lax.cumsum(X, 1, True), np.cumsum(X[:, ::-1], 1)[:, ::-1])
    np.testing.assert_array_equal(lax.cummax(-X, axis=1, reverse=True), -X)
    assert [part.shape for part in lax.split(X, (1, 2), axis=1)] == [(2, 1), (2, 2)]
    with pytest.raises(RlxError, match="extent 3"):
        lax.split(X, (1, 1), axis=1)
    assert lax.cumsum(np.ones(3, np.int8)).dtype == np.int8


def test_softmax_and_logsumexp_leave_elements_out() -> None:
    where, full = X > 1, np.array([True, False, True])
    expected = np.exp(X[1]) / np.exp(X[1]).sum()
    np.testing.assert_allclose(nn.softmax(X, where=where), [[0, 0, 1], expected], rtol=1e-14)
    where[0] = False
    np.testing.assert_allclose(nn.softmax(X, where=where), [[0, 0, 0], expected], rtol=1e-14)
    slopes = rlx.grad(lambda x: rnp.sum(nn.softmax(x, where=where) ** 2))(X)
    np.testing.assert_array_equal(slopes[0], 0)
    assert np.isfinite(slopes).all()
    assert np.isnan(nn.softmax(np.array([np.inf, 1.0]), where=True)).all()
    chosen = np.log(np.exp(X[:, full]).sum(1))
    np.testing.assert_allclose(nn.logsumexp(X, 1, where=full), chosen, rtol=1e-14)
    found, sign = nn.logsumexp(X, 1, b=-X, return_sign=True)
    np.testing.assert_allclose(found, np.log((X * np.exp(X)).sum(1)), rtol=1e-14)
    np.testing.assert_array_equal(sign, [-1, -1])
    slope = rlx.grad(lambda x: nn.logsumexp(x, b=-X, return_sign=True)[0])(X)
    weights = X * np.exp(X)
    np.testing.assert_allclose(slope, weights / weights.sum(), rtol=1e-13)


def test_repeats_of_traced_counts_have_a_known_length() -> None:
    def repeated(counts: Any) -> Any:
        return rnp.repeat(X, counts, 0, total_repeat_length=4)

    found = rlx.jit(repeated)(np.array([1, 2]))
    np.testing.assert_array_equal(found, X[[0, 1, 1, 1]])


def test_products_are_given_in_a_wider_type() -> None:
    x = np.full((1, 4096), 1, np.float16)
    found = rnp.dot(x, x.T, preferred_element_type=np.float32)
    assert found.dtype == np.float32
    assert found == 4096


@pytest.mark.parametrize("round_", [rnp.round, rnp.rint, lambda x: x // 0.3, lambda x: x.round(1)])
def test_rounded_numbers_have_no_slope(round_: Any) -> None:
    """Forces between periodic images, x - L round(x / L), were zero: rounding passed through."""
    assert rlx.grad(round_)(1.7) == 0
    assert rlx.jit(rlx.grad(lambda x: rnp.sum(x - 6 * rnp.round(x / 6))))(2.0) == 1


def test_a_call_that_lacks_an_argument_is_pythons_own_error() -> None:
    add: Any = rnp.add
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        add(0.3)

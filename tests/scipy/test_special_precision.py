"""Special functions of f16 and bf16 are those of f32, rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.scipy import special

X = np.array([0.25, 0.9, 1.5, 2.5, 3.25])
SHARE = X / 4
CALLS: Mapping[str, tuple[Any, ...]] = {
    "bessel_jn": (X,), "beta": (X, 2.5), "betainc": (X, X, SHARE), "betaln": (X, X[::-1]),
    "boxcox": (X, 0.5), "boxcox1p": (X, X), "comb": (X + 4, X), "dawsn": (X,), "digamma": (X,),
    "entr": (X,), "erf": (X,), "erfc": (X,), "erfcx": (X,), "erfinv": (SHARE,), "exp1": (X,),
    "expi": (X,), "expit": (X,), "expn": (2, X), "factorial": (X,), "fresnel": (X,),
    "gamma": (X,), "gammainc": (X, X[::-1]), "gammaincc": (X, X[::-1]), "gammaln": (X,),
    "gammasgn": (X,), "hyp1f1": (1.5, 2.5, X), "hyp2f1": (1.5, 2.5, 3.5, SHARE), "i0": (X,),
    "i0e": (X,), "i1": (X,), "i1e": (X,), "kl_div": (X, X[::-1]), "log_ndtr": (X,),
    "log_softmax": (X,), "loggamma": (X,), "logit": (SHARE,), "logsumexp": (X,),
    "multigammaln": (X + 1, 2), "ndtr": (X,), "ndtri": (SHARE,), "owens_t": (X, X[::-1]),
    "poch": (X, 2.5), "polygamma": (1, X), "rel_entr": (X, X[::-1]), "sici": (X,), "sinc": (X,),
    "softmax": (X,), "spence": (X,), "xlog1py": (X, X), "xlogy": (X, X), "zeta": (X + 1.5, X),
}  # fmt: skip
OTHERS = {"bernoulli", "sph_harm_y", "wofz"}
"""Functions of integers, and of complex numbers, which have 32 bits in each part or more."""


def call(name: str, *args: Any) -> Any:
    how = {"v": 2} if name == "bessel_jn" else {}
    found = getattr(special, name)(*args, **how)
    return found if isinstance(found, tuple) else (found,)


def test_every_function_has_a_call() -> None:
    public = {name for name, each in vars(special).items() if callable(each) and name[0] != "_"}
    assert public == CALLS.keys() | OTHERS


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_f32_rounded_once(name: str, dtype: str) -> None:
    narrow = np.dtype(getattr(ml_dtypes, dtype, dtype))
    args = [x.astype(narrow) if isinstance(x, np.ndarray) else x for x in CALLS[name]]
    wide = [x.astype("f4") if isinstance(x, np.ndarray) else x for x in args]
    expected = [np.asarray(x).astype(narrow) for x in call(name, *wide)]
    for found, one in zip(call(name, *args), expected, strict=True):
        assert found.dtype == narrow
        np.testing.assert_array_equal(np.asarray(found), one)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_complex_results_are_those_of_f32(dtype: str) -> None:
    x = X[:2].astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    wide, one = x.astype("f4"), np.array([1, 1], np.int32)
    for found, expected in (
        (special.wofz(x), special.wofz(wide)),
        (special.sph_harm_y(one, one, x, x), special.sph_harm_y(one, one, wide, wide)),
    ):
        assert found.dtype == np.complex64
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_slopes_are_rounded_once_and_wide_numbers_stay_wide() -> None:
    narrow = np.dtype(ml_dtypes.bfloat16)

    def chance(x: Any) -> Any:
        return rnp.astype(special.gammainc(narrow.type(1.5), x), "float32")

    slope = rlx.grad(lambda x: special.gammainc(np.float32(1.5), x))(np.float32(2.5))
    assert rlx.grad(chance)(narrow.type(2.5)) == np.asarray(slope).astype(narrow)
    assert special.gammainc(np.float16(1.5), np.float32(2.5)).dtype == np.float32
    assert special.betaln(np.float16(1.5), np.int32(2)).dtype == np.float16

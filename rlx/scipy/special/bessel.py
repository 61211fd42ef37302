"""Modified Bessel functions of the first kind, from Chebyshev series on both sides of 8."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, inexact

# exp(-x) I(x) on [0, 8] at x / 4 - 1 (of I1 over x), and times sqrt(x) beyond at 16 / x - 1.
_I0_SMALL = (
    0.33839763720473803, -0.30468267234319846, 0.1716209015222087, -0.09490109704804754,
    0.04930528423967051, -0.02373741480589925, 0.010546460394594625, -0.004324309995050205,
    0.0016394756169407442, -0.0005763755745380683, 0.00018850288509510108,
    -5.754195010017655e-05, 1.6448448069798088e-05, -4.416738357605159e-06,
    1.117387537852288e-06, -2.670793843076843e-07, 6.046994867614508e-08, -1.300024885916454e-08,
    2.659821848486185e-09, -5.189780351498387e-10, 9.675592390781925e-11,
    -1.7266576264012606e-11, 2.9526758022717965e-12, -4.838702851093858e-13,
    7.437780550187004e-14, -9.944029726633678e-15, -5.689893001203927e-16,
    1.3965019616892148e-15, -2.0681868915874346e-15, 1.5519331851367366e-15,
    -2.0412243324179664e-15, 1.5796887607523655e-15, -2.185553325619237e-15,
    1.7069679003611782e-15, -2.227979705488841e-15,
)  # fmt: skip
_I0_LARGE = (
    0.4022452055070544, 0.003369116478255687, 6.889758346916968e-05, 2.8913705208207556e-06,
    2.0489185888897462e-07, 2.2666689898539943e-08, 3.396231958957049e-09, 4.940602488748447e-10,
    1.1889117824856503e-11, -3.149918048700871e-11, -1.3215939091335238e-11,
    -1.7941692468632443e-12, 7.176628209293219e-13, 3.85282287050014e-13, 1.4939481351627572e-14,
    -4.149406324904292e-14, -1.0065819988799251e-14, 3.805529060991987e-15, 9.02642146391978e-16,
    -3.598272654205242e-16, -1.4362764873047449e-15, 1.6628801204261526e-17,
    -9.099419230547619e-16, -2.1826791303634906e-17, -9.438774577980478e-16,
    3.2340997021324477e-18, -1.020191843660216e-15, -9.009715083124911e-18,
    -7.322160838717281e-16,
)  # fmt: skip
_I1_SMALL = (
    0.12629359322181682, -0.17641651835783403, 0.10264365868984705, -0.05294598120809491,
    0.024726449030626405, -0.010564084894626048, 0.0041564229443127, -0.0015135724506310404,
    0.0005122859561683162, -0.00016176081582561835, 4.781565107516794e-05,
    -1.3273163655690294e-05, 3.47025130771028e-06, -8.56872026011392e-07, 2.0032947479367966e-07,
    -4.445059069822193e-08, 9.38153669660261e-09, -1.887249032843969e-09, 3.625581849623202e-10,
    -6.663405501975258e-11, 1.173521379278191e-11, -1.9830123158616682e-12,
    3.2132763711738883e-13, -4.943172607352331e-14, 6.54134484674123e-15,
    -1.3971958510796055e-16, -8.483293432805437e-16, 8.920443748751592e-16,
    -9.425000462621418e-16, 8.671634838768634e-16, -9.35957660581315e-16, 8.844115915808613e-16,
    -1.0095099359627317e-15, 9.434417532919579e-16, -1.0213060555993739e-15,
)  # fmt: skip
_I1_LARGE = (
    0.38928811750914005, -0.009761097491361448, -0.00011058893876261073, -3.882564808877042e-06,
    -2.5122362384053203e-07, -2.6314688469166534e-08, -3.835380441016258e-09,
    -5.589743542784447e-10, -1.897499099772253e-11, 3.25260293584429e-11, 1.4125672842824309e-11,
    2.0356249554564123e-12, -7.201943379670544e-13, -4.083285556826616e-13,
    -2.1465129849299053e-14, 4.2717600239922215e-14, 9.951119029174061e-15,
    -3.802289482069658e-15, -2.721234383746716e-15, 3.452271909120502e-16,
    -8.072531078518815e-16, -9.550273084954885e-18, -9.561016196406236e-16,
    4.007569320944447e-17, -9.025848923750057e-16, 1.844250886483185e-17, -9.592640891405177e-16,
    3.209058911310345e-17, -7.409355805178481e-16,
)  # fmt: skip


def _chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """Return the value of a Chebyshev series at `t` (Clenshaw)."""
    first: Any = 0.0
    second: Any = 0.0
    for coefficient in coefficients[:0:-1]:
        first, second = 2 * t * first - second + coefficient, first
    return t * first - second + coefficients[0]


@function
def _scaled(x: Any, small: Sequence[float], large: Sequence[float], odd: bool) -> Any:
    (x,) = inexact(x)
    size = rnp.abs(x)
    near = rnp.less_equal(size, 8)
    low = _chebyshev(small, rnp.minimum(size, 8) / 4 - 1)
    far = rnp.where(near, 8, size)
    high = _chebyshev(large, 16 / far - 1) / rnp.sqrt(far)
    if not odd:
        return rnp.where(near, low, high)
    return rnp.where(near, low * x, high * rnp.sign(x))


def i0e(x: Any, /) -> Array:
    """`exp(-abs(x)) * i0(x)`."""
    return _scaled(x, _I0_SMALL, _I0_LARGE, odd=False)


def i1e(x: Any, /) -> Array:
    """`exp(-abs(x)) * i1(x)`."""
    return _scaled(x, _I1_SMALL, _I1_LARGE, odd=True)


@function
def i0(x: Any, /) -> Array:
    """The modified Bessel function of order 0."""
    return _with_series(x, i0e, order=0)


@function
def i1(x: Any, /) -> Array:
    """The modified Bessel function of order 1."""
    return _with_series(x, i1e, order=1)


def _with_series(x: Any, scaled: Callable[[Any], Any], order: int) -> Any:
    """Near 0, sum the powers of x: their derivatives, unlike those of abs, hold there too."""
    (x,) = inexact(x)
    near = rnp.less(emit(ops.abs, x), 1)  # of real numbers only
    quarter = rnp.square(rnp.where(near, x, 0)) / 4
    series: Any = 0.0
    for k in reversed(range(11)):
        series = series * quarter + 1 / (math.factorial(k) * math.factorial(k + order))
    if order == 1:
        series = series * x / 2
    far = rnp.where(near, 1, x)
    return rnp.where(near, series, rnp.exp(rnp.abs(far)) * scaled(far))

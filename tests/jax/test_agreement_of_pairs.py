"""Every function of two numbers that rlx shares with JAX: values and slopes, at pairs of edges.

The functions are found by their names and tried, as those of one number are in `test_agreement`.
Slopes are compared where there is a value and JAX has a slope. What differs on purpose is listed
here with its reason, and in `docs/reference/jax_differences.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from tests.jax.test_agreement import different, jax_of, shared

Array = NDArray[np.float64]
EDGES = np.array([-np.inf, -3, -0.5, -0.0, 0, 0.3, 1, 2.5, 40, np.inf, np.nan])
A, B = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(EDGES, EDGES, indexing="ij"))
NO_FUNCTIONS = {"isin", "array_repr", "array_str", "quantile", "percentile", "nanquantile",
                "nanpercentile"}  # of whole arrays  # fmt: skip
Where = Callable[[Array, Array], Any]


def equal(a: Array, b: Array) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def origin(a: Array, b: Array) -> Any:
    return (a == 0) & (b == 0)


def no_shape(a: Array, x: Array) -> Any:
    """Gamma functions of order 0, of infinite order, and at 0: as in SciPy, or NaN."""
    return (a <= 0) | (x == 0) | np.isinf(a)


def poles(a: Array, b: Array) -> Any:
    """Where a gamma function of the beta function has a pole or no end."""
    whole = [(x <= 0) & (x == np.floor(x)) | np.isinf(x) for x in (a, b, a + b)]
    return whole[0] | whole[1] | whole[2]


def nowhere(a: Array, _: Array) -> Any:
    return np.zeros(a.shape, bool)


OTHER_VALUES: dict[str, Where] = {
    "celu": lambda x, alpha: (x > 0) | (alpha == 0) | np.isinf(alpha),  # JAX: NaN next to x itself
    "leaky_relu": lambda x, _: x == 0,  # 0 times infinity
    **dict.fromkeys(("gammainc", "gammaincc", "igamma", "igammac"), no_shape),
    "igamma_grad_a": lambda a, x: no_shape(a, x) | np.isinf(x),  # JAX: NaN, for 0
    "polygamma": lambda n, x: (n != np.floor(n)) | (n <= 0) | (x <= 0) | np.isinf(n),
    "random_gamma_grad": lambda a, x: no_shape(a, x) | np.isinf(x),
    "rel_entr": lambda x, _: np.isinf(x),  # as in SciPy
    "zeta": lambda s, q: (s < 1) | (q <= 0), "beta": poles, "betaln": poles,  # as in SciPy
}  # fmt: skip
OTHER_SLOPES: dict[str, Where] = {
    "copysign": lambda x, _: x == 0,  # JAX looks at -0 as at a positive number
    **dict.fromkeys(("pow", "power", "float_power", "hypot"), origin),
    **dict.fromkeys(("fmax", "fmin"), equal),
    **dict.fromkeys(("logaddexp", "logaddexp2"), lambda x, y: np.isinf(x) | np.isinf(y)),
    **dict.fromkeys(("mod", "remainder", "fmod", "rem"), lambda _, y: np.isinf(y)),
    "leaky_relu": lambda x, _: x == 0,
    "squareplus": lambda x, b: x * x + b <= 0,
    **dict.fromkeys(("boxcox", "boxcox1p"), lambda x, power: (power == 0) | (x <= 0)),
}  # fmt: skip


def of_pairs(function: Any) -> Any:
    """What a function gives for all pairs if it works pair by pair, else nothing."""
    try:
        found = np.asarray(function(A.copy(), B.copy()))
        again = np.asarray(function(A[::-1].copy(), B[::-1].copy()))
        shape = np.shape(function(A[0], B[0]))
    except Exception:  # whatever JAX says to operands that it does not take
        return None
    if found.shape != A.shape or shape != () or different(found, again[::-1]).any():
        return None
    return found


def slopes(home: Any, function: Any) -> list[Any]:
    """Tangents and gradients by each operand; nothing where there are none."""
    one, zero = np.ones_like(A), np.zeros_like(A)
    found: list[Any] = []
    for tangents in ((one, zero), (zero, one)):
        found.append(tried(lambda: home.jvp(function, (A, B), tangents)[1]))  # noqa: B023  # at once
    gradients = tried(lambda: home.vjp(function, A, B)[1](one))
    return [*found, *(gradients or (None, None))]


def tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception:  # JAX has no derivative
        return None


def differences(name: str, own: Any, other: Any, expected: Any) -> Iterator[str]:
    short = name.rpartition(".")[2]
    other_value = OTHER_VALUES.get(short, nowhere)(A, B)
    found = np.asarray(own(A, B))
    if found.dtype != expected.dtype:
        yield f"{name}: {found.dtype}, not {expected.dtype}"
    compared = [("value", found, expected, other_value)]
    compared += [("vmap", rlx.vmap(own)(A, B), found, np.zeros(A.shape, bool))]
    if expected.dtype == np.float64:
        open_ = other_value | ~np.isfinite(expected)
        open_ = open_ | OTHER_SLOPES.get(short, nowhere)(A, B)
        for what, theirs, mine in zip(("jvp 0", "jvp 1", "vjp 0", "vjp 1"),
                                      slopes(jax_of(), other), slopes(rlx, own),
                                      strict=True):  # fmt: skip
            if theirs is not None and mine is None:
                yield f"{name}: no {what}"
            elif theirs is not None:
                compared.append((what, mine, theirs, open_ | ~np.isfinite(np.asarray(theirs))))
    for what, mine, theirs, is_open in compared:
        bad = different(mine, theirs) & ~is_open
        if bad.any():
            rows = zip(A[bad], B[bad], np.asarray(mine)[bad], np.asarray(theirs)[bad], strict=True)
            yield f"{name}: {what}: {[tuple(float(x) for x in row) for row in rows][:8]}"


@pytest.mark.slow
def test_functions_of_two_numbers_agree_with_jax() -> None:
    wrong: list[str] = []
    seen: set[int] = set()
    with jax_of().enable_x64(True), np.errstate(all="ignore"):
        for name, own, other in shared():
            if id(own) in seen or name.rpartition(".")[2] in NO_FUNCTIONS:
                continue
            expected = of_pairs(other)
            if expected is not None:
                seen.add(id(own))
                try:
                    wrong += differences(name, own, other, expected)
                except Exception as error:  # any is a difference
                    wrong.append(f"{name}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert len(seen) > 50

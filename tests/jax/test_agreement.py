"""Every elementwise function that rlx shares with JAX: values and slopes, at edges and between.

The functions are found by their names and tried: what JAX maps number by number is compared. What
differs on purpose is listed here with its reason, and in `docs/reference/jax_differences.md`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx

Array = NDArray[np.float64]
MODULES = ("numpy", "nn", "lax", "scipy.special")
EDGES = np.array([-np.inf, -1e3, -3, -2.5, -1, -0.62, -0.5, -0.0, 0, 0.3, 0.5, 1, 1.5, 2, 3, 6, 40,
                  np.inf, np.nan])  # fmt: skip
NO_FUNCTIONS = {"empty_like", "from_dlpack", "save", "savez", "load", "fromfile", "frombuffer",
                "jit", "spacing", "trim_zeros", "flip", "softmax",
                "log_softmax"}  # fmt: skip

Where = Callable[..., Any]


def whole_below(x: Any) -> Any:
    """Zero and the negative integers, where gamma functions have poles, and -inf."""
    return (x <= 0) & (x == np.floor(x))


def at_zero(x: Any) -> Any:
    return (x == 0) | np.isnan(x)


def at_poles(x: Any) -> Any:
    return whole_below(x) | ~np.isfinite(x)


def at_ends(x: Any) -> Any:
    return np.abs(x) == 3


OTHER_VALUES: dict[str, Where] = {
    **dict.fromkeys(("gelu", "silu", "swish", "mish"), lambda x: x == -np.inf),  # the limit; NaN
    "digamma": at_zero, "gammasgn": lambda x: whole_below(x) | np.isnan(x),  # as in SciPy
    "exp1": np.isinf, "expi": lambda x: np.isinf(x) | (x == 0),  # as in SciPy
    "loggamma": lambda x: x <= 0, "spence": np.isinf,
}  # fmt: skip
OTHER_SLOPES: dict[str, Where] = {
    **dict.fromkeys(("abs", "absolute", "fabs", "angle", "leaky_relu", "i0"), at_zero),
    **dict.fromkeys(("sqrt", "rsqrt"), lambda x: ~(x > 0)),  # 0, as the docs say
    **dict.fromkeys(("acosh", "arccosh"), lambda x: x <= -1),  # NaN, as the value is
    **dict.fromkeys(("hard_sigmoid", "hard_silu", "hard_swish"), at_ends),
    **dict.fromkeys(("digamma", "lgamma", "gammaln", "gamma", "factorial", "gammasgn"), at_poles),
    **dict.fromkeys(("bessel_i1e", "i1e"), np.isnan),  # JAX has numbers there
    "loggamma": lambda x: (x <= 0) | ~np.isfinite(x), "log1mexp": lambda x: x <= 0,
    "entr": lambda x: x < 0, "exp1": lambda x: (x < 0) | np.isinf(x),
    "ndtri": lambda x: (x == 0) | (x == 1),
    "sparse_plus": np.isinf,  # 0 and 1; JAX's is NaN in reverse mode
    "spence": lambda x: x <= 2,  # JAX's is NaN in reverse mode; ours is log(x) / (1 - x)
}  # fmt: skip


def different(found: Any, expected: Any) -> Any:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return np.ones(expected.shape, bool)
    return ~np.isclose(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True)


def shared() -> Iterator[tuple[str, Any, Any]]:
    """Return all functions by name, ours and JAX's."""
    for module in MODULES:
        ours, theirs = (importlib.import_module(f"{home}.{module}") for home in ("rlx.jax", "jax"))
        for name in sorted(set(dir(theirs)) & set(dir(ours)) - NO_FUNCTIONS):
            own, other = getattr(ours, name), getattr(theirs, name)
            if callable(other) and not name.startswith("_") and not inspect.isclass(other):
                yield f"{module}.{name}", own, other


def mapped(function: Any) -> Any:
    """Return what a function gives for `EDGES` if it works number by number, else nothing."""
    try:
        found = np.asarray(function(EDGES))
        again = np.asarray(function(EDGES[::-1].copy()))
        shape = np.shape(function(EDGES[0]))
    except Exception:  # whatever JAX says to operands that it does not take
        return None
    if found.dtype != np.float64 or found.shape != EDGES.shape or shape != ():
        return None
    return None if different(found, again[::-1]).any() else found


def slopes(home: Any, function: Any) -> list[Any]:
    """Return tangents and gradients."""
    ones = np.ones_like(EDGES)
    return [home.jvp(function, (EDGES,), (ones,))[1], home.vjp(function, EDGES)[1](ones)[0]]


def differences(name: str, own: Any, other: Any, expected: Any) -> Iterator[str]:
    """Say where results differ but where they are stated to."""
    short = name.rpartition(".")[2]
    found = own(EDGES)
    compared = [("value", found, expected, OTHER_VALUES), ("vmap", rlx.vmap(own)(EDGES), found, {})]
    modes = zip(("forward", "reverse"), slopes(rlx, own), slopes(jax_of(), other), strict=True)
    compared += [(mode, mine, theirs, OTHER_SLOPES) for mode, mine, theirs in modes]
    for what, mine, theirs, stated in compared:
        bad = different(mine, theirs) & ~stated.get(short, np.zeros_like)(EDGES).astype(bool)
        if bad.any():
            yield f"{name}: {what} at {EDGES[bad].tolist()}"


def jax_of() -> Any:
    return pytest.importorskip("jax")


@pytest.mark.slow
def test_functions_of_numbers_agree_with_jax() -> None:
    wrong: list[str] = []
    count = 0
    with jax_of().enable_x64(True), np.errstate(all="ignore"):
        for name, own, other in shared():
            expected = mapped(other)
            if expected is not None:
                count += 1
                try:
                    wrong += differences(name, own, other, expected)
                except Exception as error:  # any is a difference
                    wrong.append(f"{name}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert count > 100

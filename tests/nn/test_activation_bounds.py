"""The errors of activations against the bounds that the documentation states."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx import nn
from rlx.ir.dtype import DType
from tests.codegen.loops.test_math import REFERENCE, Exact, needs_long_double

special = pytest.importorskip("scipy.special")

Array = NDArray[Any]
PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"

EXACT: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, x * np.longdouble(0.01)),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sigmoid": lambda x: 1 / (1 + np.exp(-np.maximum(x, -2e3))),
    "log_sigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))
    ),
    "gelu": lambda x: gelu(np.maximum(x, -50)),
    "gelu (approximate)": REFERENCE["gelu_approx"],
    "silu": REFERENCE["silu"],
    "mish": REFERENCE["mish"],
}  # fmt: skip


def gelu(x: Array) -> Array:
    """SciPy's erfc is f64; scaled it hardly depends on how its argument is rounded."""
    argument = np.abs(x) / np.sqrt(np.longdouble(2))
    tail = special.erfcx(argument.astype(np.float64)) * np.exp(-(argument**2)) / 2
    result: Array = np.where(x < 0, x * tail, x * (1 - tail))
    return result


def function_of(name: str) -> Callable[[Any], Any]:
    if name.startswith("gelu"):
        return lambda x: nn.gelu(x, approximate=name != "gelu")
    function: Callable[[Any], Any] = getattr(nn, name)
    return function


def stated_bounds() -> dict[str, tuple[float, float, float]]:
    """Return the rows of the table of the documentation: f32, f64, 16-bit floats."""
    rows = re.findall(r"^\| `(.+?)` \| (\S+) \| (\S+) \| (\S+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (float(a), float(b), float(c)) for name, a, b, c in rows}


def arguments(dtype: DType) -> Array:
    """Return all values of a 16-bit float; else every exponent, and densely where it matters."""
    if dtype.is_low_precision:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    rng = np.random.default_rng(3)
    range_ = np.finfo(dtype.numpy)
    spread = np.ldexp(rng.uniform(1, 2, 20000), rng.integers(range_.minexp, range_.maxexp, 20000))
    usual = [rng.uniform(-reach, reach, 20000) for reach in (1.0, 8.0, 40.0, 110.0)]
    return np.concatenate([spread, -spread, *usual]).astype(dtype.numpy)


def test_every_activation_states_its_bounds() -> None:
    assert set(stated_bounds()) == set(EXACT)


@needs_long_double
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
def test_activations_hold_their_bounds(dtype: DType) -> None:
    x = arguments(dtype)
    names = sorted(EXACT)
    found = rlx.jit(lambda x: [function_of(name)(x) for name in names], backend="llvm")(x)
    column = {DType.F32: 0, DType.F64: 1}.get(dtype, 2)
    # SciPy's erfcx errs itself; test_math measures f64 against arbitrary precision.
    margin = 5.0 if dtype is DType.F64 else 0.0
    bounds = stated_bounds()
    with np.errstate(all="ignore"):
        wide = (
            x.astype(np.float32).astype(np.longdouble) if column == 2 else x.astype(np.longdouble)
        )
        for name, actual in zip(names, found, strict=True):
            errors = ulps(np.asarray(actual), EXACT[name](wide))
            worst = int(np.argmax(errors))
            bound = bounds[name][column] + (margin if name == "gelu" else 0.0)
            assert errors[worst] <= bound, f"{name}({x[worst]!r}): {errors[worst]} ulp"


def ulps(actual: Array, exact: Array) -> Array:
    if actual.dtype.kind == "f":
        return Exact(exact, actual.dtype).errors_in_ulp(actual)
    return bf16_errors(actual, exact)


def bf16_errors(actual: Array, exact: Array) -> Array:
    """Distance in units of the last place of bf16, which NumPy does not have."""
    exponent = np.maximum(np.frexp(np.where(np.isfinite(exact), exact, 1))[1] - 8, -133)
    plain = actual.astype(np.float32)
    error = np.abs(plain - exact) / np.ldexp(np.longdouble(1), exponent)
    rounded = exact.astype(np.float32).astype(actual.dtype).astype(np.float32)
    same = (plain == rounded) | (np.isnan(plain) & np.isnan(exact))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(error), np.inf, error))

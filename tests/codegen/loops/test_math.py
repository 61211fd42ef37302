"""Measured errors of the math library against its stated bounds, and its special values.

Every function has two forms: with fused multiply-adds, and for targets that lack them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import evaluate_function, numpy_dtype
from rlx.codegen.loops.expr import call
from rlx.codegen.loops.math import MATH_FUNCTIONS, build_function
from rlx.codegen.loops.nodes import Function, Prim
from rlx.codegen.loops.passes.separate_multiply_adds import separate_function
from rlx.codegen.loops.verify import verify_function
from tests.codegen.llvm import native as native_calls
from tests.codegen.llvm.native import same_bits

special = pytest.importorskip("scipy.special")

Array = NDArray[Any]
CUBIC = np.longdouble("0.044715")
PI = np.longdouble("3.14159265358979323846264338327950288")


def from_below(x: Array, least: float) -> Array:
    """Return x from where the exponential of it is surely zero: infinity times zero is NaN."""
    return np.maximum(x, least)


def normal_distribution(x: Array) -> Array:
    distribution: Array = special.erfc(-from_below(x, -50) * np.sqrt(0.5)) / 2
    return distribution


def gated(x: Array, slope: Array) -> Array:
    """`x` times the sigmoid of `slope * x`, in a form whose tail is exact."""
    exponent = np.clip((slope * x).astype(x.dtype), -2e3, 2e3)
    bounded = np.maximum(x, -2e3)
    tail = bounded * np.exp(exponent) / (1 + np.exp(exponent))
    result: Array = np.where(x < 0, tail, bounded / (1 + np.exp(-exponent)))
    return result


def inverse_erf(x: Array) -> Array:
    """SciPy's, which loses the sign of -0 and takes long for arguments out of its domain."""
    inside = np.copysign(special.erfinv(np.clip(x, -1, 1)), x)
    return np.where(np.abs(x) > 1, np.nan, inside)


REFERENCE: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp_weight": lambda x: np.where(x < (-87 if x.dtype == np.float64 else -708), 0, np.exp(x)),
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": special.erf, "erfc": special.erfc, "erf_inv": inverse_erf,
    "gelu": lambda x: np.longdouble(1) * from_below(x, -50) * normal_distribution(x),
    "gelu_approx": lambda x: gated(x, np.sqrt(x.dtype.type(8) / PI) * (1 + CUBIC * x * x)),
    "silu": lambda x: gated(x, x.dtype.type(1)),
    "mish": lambda x: from_below(x, -2e3) * np.tanh(np.log1p(np.exp(from_below(x, -2e3)))),
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "atan2": np.arctan2, "pow": np.power,
}  # fmt: skip
ONE_ARGUMENT = sorted(name for name, f in MATH_FUNCTIONS.items() if len(f.parameters) == 1)
BOTH = (Prim.F32, Prim.F64)
FORMS = ("fused", "separate")


def function_in(form: str, name: str, prim: Prim) -> Function:
    """Return a function as targets with, or without, multiply-adds compute it."""
    function = build_function(name, prim)
    return function if form == "fused" else separate_function(function, frozenset(BOTH))


class Exact:
    """More precise results, and what is needed of them to measure errors in `dtype`."""

    def __init__(self, values: Array, dtype: Any) -> None:
        info = np.finfo(dtype)
        bits, least = info.nmant + 1, int(info.minexp) - info.nmant
        with np.errstate(all="ignore"):
            self.rounded = values.astype(dtype)
            finite = np.where(np.isfinite(values), values, 1)
            exponent = np.maximum(np.frexp(finite)[1] - bits, least)
            self.ulp = np.ldexp(values.dtype.type(1), exponent)
        self.values = values
        self.overflows = ~np.isfinite(self.rounded)
        self.is_nan = np.isnan(values)

    def errors_in_ulp(self, actual: Array) -> Array:
        """Return distances of `actual`, in units of the last place of its type.

        Zero where both are the same infinity or NaN, infinite where only one is.
        """
        with np.errstate(all="ignore"):
            error = np.abs(actual.astype(self.values.dtype) - self.values) / self.ulp
        same = (actual == self.rounded) & self.overflows | (self.is_nan & np.isnan(actual))
        return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def assert_within_bound(
    name: str, prim: Prim, actual: Array, exact: Array | Exact, *args: Array, form: str = "fused"
) -> None:
    exact = exact if isinstance(exact, Exact) else Exact(exact, actual.dtype)
    errors = exact.errors_in_ulp(actual)
    worst = int(np.argmax(errors))
    declared = MATH_FUNCTIONS[name]
    bound = (declared.bounds if form == "fused" else declared.separate)[prim]
    at = ", ".join(repr(arg[worst]) for arg in args)
    assert errors[worst] <= bound, f"{name}({at}) = {actual[worst]!r}: {errors[worst]:.3f} ulp"


def f32_arguments(count: int) -> Array:
    """Evenly spread bit patterns (every exponent, subnormals, NaNs) and the usual ranges."""
    patterns = np.linspace(0, 2**32 - 1, count).astype(np.uint64).astype(np.uint32)
    rng = np.random.default_rng(7)
    usual = np.concatenate([rng.uniform(-1, 1, count // 4), rng.uniform(-110, 100, count // 4)])
    return np.concatenate([patterns.view(np.float32), usual.astype(np.float32)])


def in_domain(name: str, x: Array) -> Array:
    """Leave out what a function is not made for."""
    return x[~(x > 0)] if name == "exp_weight" else x


def in_pieces(arguments: Array) -> list[Array]:
    """Some at a time: what is between stays in the second-level cache."""
    return np.array_split(arguments, max(1, arguments.size >> 15))


def exact_f32(name: str, x: Array) -> Exact:
    with np.errstate(all="ignore"):
        return Exact(REFERENCE[name](x.astype(np.float64)), np.float32)


@pytest.mark.whole
@pytest.mark.guarantee(
    "Results",
    "The math library is within its documented error over all exponents of f32.",
)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_f32_error_is_below_its_bound_over_all_exponents(name: str, form: str) -> None:
    function = function_in(form, name, Prim.F32)
    for x in in_pieces(in_domain(name, f32_arguments(1 << 16))):
        actual = evaluate_function(function, x)
        assert_within_bound(name, Prim.F32, actual, exact_f32(name, x), x, form=form)


LANES = 16


def compiled(function: Function) -> Callable[[Array], Array]:
    """Return a function of arrays of f32 through LLVM; their size is a multiple of `LANES`."""
    k = KernelBuilder("sweep")
    x, y = k.argument("x", Prim.F32), k.argument("y", Prim.F32, writable=True)
    count = k.scalar("count", Prim.I64)
    with k.loop("i", count, step=LANES) as i:
        k.store(y, i, call(function, k.load(x, i, LANES)))
    native = native_calls.load(k.build())

    def apply(arguments: Array) -> Array:
        result, header = np.zeros_like(arguments), np.zeros(8, np.int64)
        assert native_calls.call(native, header, [arguments, result], [arguments.size]) == 0
        return result

    return apply


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_f32_error_of_compiled_functions_is_below_its_bound_over_a_dense_sweep(name: str) -> None:
    """Both forms, against the same more precise results: computing these takes most of the time."""
    functions = {form: function_in(form, name, Prim.F32) for form in FORMS}
    native = {form: compiled(function) for form, function in functions.items()}
    pieces = in_pieces(in_domain(name, f32_arguments(1 << 22)))
    for x in (piece[: piece.size // LANES * LANES] for piece in pieces):
        exact = exact_f32(name, x)
        for form in FORMS:
            assert_within_bound(name, Prim.F32, native[form](x), exact, x, form=form)
    for form in FORMS:
        assert same_bits(native[form](x), evaluate_function(functions[form], x))


def f64_arguments(count: int) -> Array:
    rng = np.random.default_rng(11)
    spread = rng.choice([-1.0, 1.0], count) * rng.uniform(1, 2, count)
    spread = np.ldexp(spread, rng.integers(-1074, 1024, count))
    usual = [rng.uniform(-1, 1, count), rng.uniform(-20, 20, count), rng.uniform(-750, 710, count)]
    return np.concatenate([spread, *usual])


LONG = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant + 8
needs_long_double = pytest.mark.skipif(not LONG, reason="long double is no wider than double")


BY_MPMATH: dict[str, Callable[..., Any]] = {
    "erf": lambda mpmath, x: mpmath.erf(x),
    "erfc": lambda mpmath, x: mpmath.erfc(x),
    "erf_inv": lambda mpmath, x: mpmath.erfinv(x),
    "gelu": lambda mpmath, x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
}
"""What NumPy has in f64 only."""


@needs_long_double
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in ONE_ARGUMENT if name not in BY_MPMATH])
def test_f64_error_is_below_its_bound_against_long_double(name: str, form: str) -> None:
    x = in_domain(name, f64_arguments(5000))
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(np.longdouble))
    actual = evaluate_function(function_in(form, name, Prim.F64), x)
    assert_within_bound(name, Prim.F64, actual, exact, x, form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BY_MPMATH)
def test_f64_error_is_below_its_bound_against_arbitrary_precision(name: str, form: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    least = {"gelu": -38.5}.get(name, -6.5)
    x = np.concatenate([np.linspace(least, 6.5, 1999), [1e-300, 5e-324, 1e-9], [26.1, 8.0]])
    if name == "erf_inv":
        x = np.concatenate([np.linspace(-1, 1, 201)[1:-1], 1 - 2.0 ** -np.arange(2, 53)])
    with mpmath.workdps(40):
        exact = [BY_MPMATH[name](mpmath, mpmath.mpf(float(value))) for value in x]
        actual = evaluate_function(function_in(form, name, Prim.F64), x)
        ulps = [
            abs(mpmath.mpf(float(a)) - e) / mpmath.ldexp(1, max(mpmath.frexp(e)[1] - 53, -1074))
            for a, e in zip(actual, exact, strict=True)
            if e
        ]
    assert max(ulps) <= MATH_FUNCTIONS[name].bounds[Prim.F64]


def pow_arguments(count: int, dtype: Any) -> tuple[Array, Array]:
    """Bases and exponents whose powers are mostly finite, near 1 and far from it."""
    rng = np.random.default_rng(13)
    largest = np.log(np.finfo(dtype).max)
    x = np.concatenate(
        [
            np.exp(rng.uniform(-80, 80, count)),
            rng.uniform(0.5, 2, count),
            rng.uniform(0.99, 1.01, count),
        ]
    ).astype(dtype)
    y = rng.uniform(-1.05, 1.05, 3 * count) * largest / np.abs(np.log(x.astype(np.float64)))
    integers = rng.integers(-9, 10, count)
    bases = rng.uniform(-10, 10, count)
    return np.concatenate([x, bases]).astype(dtype), np.concatenate([y, integers]).astype(dtype)


@pytest.mark.parametrize(
    ("prim", "wide", "count"),
    [
        (Prim.F32, np.float64, 20000),
        pytest.param(Prim.F64, np.longdouble, 3000, marks=needs_long_double),
    ],
)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_error_of_two_arguments_is_below_its_bound(
    name: str, form: str, prim: Prim, wide: Any, count: int
) -> None:
    x, y = pow_arguments(count, numpy_dtype(prim).type)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(wide), y.astype(wide))
    actual = evaluate_function(function_in(form, name, prim), x, y)
    assert_within_bound(name, prim, actual, exact, x, y, form=form)


@pytest.mark.parametrize("prim", BOTH)
def test_sin_and_cos_are_right_next_to_multiples_of_half_pi(prim: Prim) -> None:
    dtype = numpy_dtype(prim)
    multiples = np.round(np.exp(np.linspace(0, 30, 3000)))
    wide = np.longdouble if LONG else np.float64
    x = (multiples * np.pi / 2).astype(dtype)
    for name in ("sin", "cos"):
        exact = REFERENCE[name](x.astype(np.float64 if prim is Prim.F32 else wide))
        actual = evaluate_function(build_function(name, prim), x)
        assert_within_bound(name, prim, actual, exact, x)


# Special values

EDGES = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 3.0, -3.0, 1e30, -1e30,
]  # fmt: skip


def assert_same_special(actual: Array, expected: Array, where: str) -> None:
    """Equal NaNs and infinities, and zeros of equal sign."""
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected), where)
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(actual[infinite], expected[infinite], where)
    zero = expected == 0
    np.testing.assert_array_equal(actual[zero], 0, where)
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]), where)


@pytest.mark.whole
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prim", BOTH)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_special_values_are_those_of_annex_f(name: str, prim: Prim, form: str) -> None:
    dtype = numpy_dtype(prim)
    info = np.finfo(dtype)
    limits = [info.smallest_subnormal, -info.smallest_subnormal, info.max, -info.max]
    x = in_domain(name, np.array([*EDGES, *limits], dtype))
    with np.errstate(all="ignore"):
        expected = REFERENCE[name](x)
    assert_same_special(evaluate_function(function_in(form, name, prim), x), expected, name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prim", BOTH)
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_special_values_of_two_arguments_are_those_of_annex_f(
    name: str, prim: Prim, form: str
) -> None:
    edges = np.array([*EDGES, 1e-40, 16777217.0, 9007199254740993.0], numpy_dtype(prim))
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        expected = REFERENCE[name](x, y)
    assert_same_special(evaluate_function(function_in(form, name, prim), x, y), expected, name)


@pytest.mark.parametrize("prim", BOTH)
def test_a_softmax_weight_is_normal_or_zero(prim: Prim) -> None:
    dtype = numpy_dtype(prim)
    x = np.concatenate([np.linspace(-800, 0, 4001), [-1e9, -1e30, -np.inf]]).astype(dtype)
    weight = evaluate_function(build_function("exp_weight", prim), x)
    assert ((weight == 0) | (weight >= np.finfo(dtype).tiny)).all()
    assert (weight[-3:] == 0).all()


@pytest.mark.parametrize("prim", BOTH)
def test_exp_underflows_gradually(prim: Prim) -> None:
    dtype = numpy_dtype(prim)
    x = np.linspace(-103.5, -87.5, 999) if prim is Prim.F32 else np.linspace(-744.9, -708.5, 999)
    actual = evaluate_function(build_function("exp", prim), x.astype(dtype))
    assert np.all(actual > 0)
    assert np.all(actual < np.finfo(dtype).smallest_normal)
    assert np.all(np.diff(actual) >= 0)


def test_log2_of_powers_of_two_is_exact() -> None:
    exponents = np.arange(-1074, 1024)
    actual = evaluate_function(build_function("log2", Prim.F64), np.ldexp(1.0, exponents))
    np.testing.assert_array_equal(actual, exponents)


@pytest.mark.whole
@pytest.mark.parametrize("name", sorted(MATH_FUNCTIONS))
@pytest.mark.parametrize("prim", BOTH)
def test_every_function_verifies_and_states_its_bound(name: str, prim: Prim) -> None:
    function = build_function(name, prim)
    verify_function(function)
    assert f"Error below {MATH_FUNCTIONS[name].bounds[prim]:g} ulp" in function.doc

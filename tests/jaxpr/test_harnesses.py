"""JAX's own uses of its primitives, `jax._src.internal_test_util.test_harnesses`, against JAX.

Values, both derivatives and batches. There are 7,400, half of them of scatter: at most `_OF_EACH`
of a kind are drawn from as other cases are. RLX_HARNESSES=all takes all of them.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, NoRuleError, UnsupportedError

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")
pytest.importorskip("absl.testing", reason="JAX's harnesses need absl-py")

with jax.enable_x64(True):
    from jax._src.internal_test_util import test_harnesses

Array = np.ndarray[Any, Any]
HARNESSES = {h.fullname: h for h in test_harnesses.all_harnesses if h.filter("cpu")}
_OF_EACH = 4
_TAKES_ALL = os.environ.get("RLX_HARNESSES") == "all"


def _taken() -> list[str]:
    """Return the names of the harnesses that tests draw from."""
    if _TAKES_ALL:
        return list(HARNESSES)
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in sorted(HARNESSES, key=lambda name: zlib.crc32(name.encode())):
        kinds["_".join(name.split("_")[:2])].append(name)
    return [name for names in kinds.values() for name in names[:_OF_EACH]]


NAMES = _taken()
REFUSED = {
    r"^rng_bit_generator.*(RNG_)?DEFAULT": (UnsupportedError, "JAX does not define"),
    r"^rng_uniform": (NoRuleError, "hidden state"),
    r"^scatter_(min|max)_.*complex": (DTypeError, "has dtype c"),
    r"^random_.*rbg": (UnsupportedError, "JAX does not define"),
}
"""What is refused: a pattern of names, the error, and what it says."""
UNDEFINED = {
    "out_of_bounds.*PROMISE_IN_BOUNDS": "JAX defines no result",
    "^conv.*int8.*preferred_int8": "XLA's CPU saturates sums that do not fit, others wrap",
    "^top_k_sort_inf_nan": "XLA sorts NaN by its sign bit",
}
"""What is computed and not compared: a pattern of names, and why."""
UNDEFINED_SLOPES = {
    "isstable_False": "ties have any order",
    "^eig_": "values have any order",
    "^eigh_": "JAX's are of half of what is outside of the diagonal of the triangle it is given",
    "^sign.*complex": "JAX's is 0, as if the phase did not turn",
    "^gather_(op|batchdims)": "places out of bounds that JAX is promised are none",
    "^cholesky_shape_.*_200_200": "ill conditioned",
    "^digamma": "JAX's overflows from -9 down",
    "^acosh.*complex": "JAX's has the other sign where the real part is below 0",
}
LONG_SLOPES = {
    "^(igamma|regularized|random_gamma)": "each steps a loop often; `primitives` has shorter ones"
}
UNDEFINED_BATCHES = {
    "^rng_bit_generator": "JAX draws from the first key, rlx for each",
    "^cholesky_shape_.*_200_200": "ill conditioned",
}
TOLERANCES = {
    "float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 4e-5,
    "complex128": 1e-10,
}  # fmt: skip


class Case:
    """A harness: its function, its operands, and those of them that have derivatives."""

    def __init__(self, name: str) -> None:
        harness = HARNESSES[name]
        self.name, self.function = name, harness.dyn_fun
        self.group = name.partition("_")[0]
        self.operands = harness.dyn_args_maker(np.random.RandomState(42))
        self.numbers = np.random.RandomState(3)

    def is_any(self, patterns: dict[str, Any]) -> bool:
        return any(re.search(pattern, self.name) for pattern in patterns)

    def of(self, places: list[int], keep: Callable[[Any], bool] = lambda _: True) -> Any:
        """Return the function of the operands at `places`: its results that are kept, a list."""

        def function(*xs: Any) -> list[Any]:
            given = list(self.operands)
            for place, x in zip(places, xs, strict=True):
                given[place] = _hermitian(x) if self.group in ("cholesky", "eigh") else x
            results = jax.tree_util.tree_leaves(self.function(*given))
            return [x for x in self._values(results) if keep(x)]

        return function

    def moves(self, xs: list[Any]) -> list[Array]:
        """Return a tangent or cotangent of each array."""
        return [self._drawn(np.shape(x), x.dtype) for x in xs]

    def _drawn(self, shape: tuple[int, ...], dtype: Any) -> Array:
        parts = [self.numbers.standard_normal(shape) for _ in range(2)]
        found = parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]
        return np.asarray(found).astype(dtype)

    def compare(self, mine: Any, theirs: Any, loose: int = 1, where: Sequence[Any] = ()) -> None:
        """Compare arrays, except where one of `where` of the same shape has no value."""
        a, b = (list(map(_plain, jax.tree_util.tree_leaves(xs))) for xs in (mine, theirs))
        assert [(x.dtype, x.shape) for x in a] == [(x.dtype, x.shape) for x in b]
        if self.is_any(UNDEFINED):
            return
        pairs = zip(self._defined(a), self._defined(b), strict=True)
        for found, expected in pairs:
            for value in where:
                if np.shape(value) == found.shape:
                    found, expected = (np.where(np.isnan(value), 0, x) for x in (found, expected))
            _close(found, expected, loose * self._tolerance(found.dtype))

    def _tolerance(self, dtype: Any) -> float:
        """Return that of the narrowest float among the result and the operands, 0 for integers."""
        if dtype.name not in TOLERANCES:
            return 0
        dtypes = [str(getattr(x, "dtype", "")) for x in self.operands]
        return max(TOLERANCES.get(name, 0) for name in [dtype.name, *dtypes])

    def _defined(self, results: list[Array]) -> list[Array]:
        """Return what JAX defines: vectors have any phase, ties any order."""
        if self.group == "cholesky":
            return [np.tril(x) for x in results]
        if self.group == "eig":
            return [np.sort_complex(np.round(np.asarray(results[0]), 3))]
        if "isstable_False" in self.name and (keys := re.search(r"num_keys_(\d+)", self.name)):
            return results[: int(keys[1])]
        return results

    def _values(self, results: list[Any]) -> list[Any]:
        """Leave out vectors, which have any phase."""
        if self.group not in ("svd", "eigh"):
            return results
        return [min((x for x in results if x.dtype.kind == "f"), key=np.ndim)]


def _hermitian(x: Any) -> Any:
    """Return the Hermitian part, so that both triangles have the same derivatives in both."""
    turned = jax.numpy.conj(jax.numpy.swapaxes(x, -1, -2))
    return ((x + turned) / 2).astype(x.dtype)


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, np.inexact)


def _is_key(x: Any) -> bool:
    return bool(jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key))


def _plain(x: Any) -> Array:
    return np.asarray(jax.random.key_data(x) if _is_key(x) else x)


def _close(a: Array, b: Array, tolerance: float) -> None:
    if tolerance:
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0)) if tolerance else 1
    np.testing.assert_allclose(a, b, tolerance, tolerance * max(1.0, scale))


@pytest.mark.parametrize("name", NAMES)
def test_a_harness_gives_jaxs_results(name: str) -> None:
    with jax.enable_x64(True):
        case = Case(name)
        for pattern, (error, words) in REFUSED.items():
            if re.search(pattern, name):
                with pytest.raises(error, match=words):
                    rlx.from_jax(case.function)(*case.operands)
                return
        found = rlx.from_jax(case.function)(*case.operands)
        expected = jax.jit(case.function)(*case.operands)
        mine, theirs = (case._values(jax.tree_util.tree_leaves(x)) for x in (found, expected))
        case.compare(mine, theirs)


def _without_pattern(patterns: dict[str, Any]) -> list[str]:
    left_out = [*patterns, *REFUSED]
    return [name for name in NAMES if not any(re.search(p, name) for p in left_out)]


@pytest.mark.parametrize(
    "name", _without_pattern(UNDEFINED | UNDEFINED_SLOPES | ({} if _TAKES_ALL else LONG_SLOPES))
)
def test_derivatives_of_a_harness_are_jaxs(name: str) -> None:
    """Where the function has a value, and JAX a derivative."""
    with jax.enable_x64(True):
        case = Case(name)
        places = [i for i, x in enumerate(case.operands) if _is_float(x)]
        function, xs = case.of(places, _is_float), [np.asarray(case.operands[i]) for i in places]
        values = jax.eval_shape(function, *xs)
        if not (xs and values):
            return  # no operand or no result has derivatives
        tangents, cotangents = case.moves(xs), case.moves(values)

        @jax.jit  # type: ignore[untyped-decorator]  # JAX may be missing
        def expected(xs: Any, tangents: Any, cotangents: Any) -> Any:
            moved = jax.jvp(function, tuple(xs), tuple(tangents))
            return *moved, jax.vjp(function, *xs)[1](cotangents)

        try:
            values, moved, pulled = expected(xs, tangents, cotangents)
        except (NotImplementedError, TypeError, ValueError):
            return  # JAX has none
        mine = rlx.from_jax(function)
        where = [x for x in map(np.asarray, values) if np.isnan(x).any()]
        case.compare(rlx.jvp(mine, tuple(xs), tuple(tangents))[1], moved, 10, where)
        case.compare(rlx.vjp(mine, *xs)[1](cotangents), pulled, 10, where)


@pytest.mark.parametrize("name", _without_pattern(UNDEFINED_BATCHES))
def test_batches_of_a_harness_are_jaxs(name: str) -> None:
    with jax.enable_x64(True):
        case = Case(name)
        places = [i for i, x in enumerate(case.operands) if hasattr(x, "shape")]
        function = case.of(places)
        if not places:
            return  # nothing is batched
        given = [case.operands[i] for i in places]
        batches = [
            jax.numpy.stack([x, x]) if _is_key(x) else np.stack([np.asarray(x)] * 2) for x in given
        ]
        mine = rlx.vmap(rlx.from_jax(function))(*batches)
        case.compare(mine, jax.jit(jax.vmap(function))(*batches), 2)

"""JAX's own uses of its primitives, `jax._src.internal_test_util.test_harnesses`, against JAX.

There are 7,400. One in 8 of them, by their names, is drawn from as other cases are;
RLX_HARNESSES=all takes all of them.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, NoRuleError, UnsupportedError

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")
pytest.importorskip("absl.testing", reason="JAX's harnesses need absl-py")

with jax.enable_x64(True):
    from jax._src.internal_test_util import test_harnesses

HARNESSES = {h.fullname: h for h in test_harnesses.all_harnesses if h.filter("cpu")}
NAMES = [
    name
    for name in HARNESSES
    if os.environ.get("RLX_HARNESSES") == "all" or zlib.crc32(name.encode()) % 8 == 0
]
REFUSED = {
    r"^rng_bit_generator.*(RNG_)?DEFAULT": (UnsupportedError, "JAX does not define"),
    r"^rng_uniform": (NoRuleError, "hidden state"),
    r"^scatter_(min|max)_.*complex": (DTypeError, "has dtype c"),
    r"^random_.*rbg": (UnsupportedError, "JAX does not define"),
}
"""What is refused: a pattern of names, the error, and what it says."""
UNDEFINED = r"out_of_bounds.*PROMISE_IN_BOUNDS"
"""What JAX defines no result of."""
TOLERANCES = {
    "float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 4e-5,
    "complex128": 1e-10,
}  # fmt: skip


def defined(name: str, results: list[Any]) -> list[Any]:
    """Return the part of results that JAX defines: vectors have any phase, ties any order."""
    group = name.partition("_")[0]
    if group == "cholesky":
        return [np.tril(results[0])]
    if group in ("svd", "eigh"):
        values = [x for x in results if np.asarray(x).dtype.kind == "f"]
        return [min(values, key=np.ndim)]
    if group == "eig":
        return [np.sort_complex(np.round(np.asarray(results[0]), 3))]
    if "isstable_False" in name and (keys := re.search(r"num_keys_(\d+)", name)):
        return results[: int(keys[1])]
    return results


@pytest.mark.parametrize("name", NAMES)
def test_a_harness_gives_jaxs_results(name: str) -> None:
    harness = HARNESSES[name]
    with jax.enable_x64(True):
        args = harness.dyn_args_maker(np.random.RandomState(42))
        for pattern, (error, words) in REFUSED.items():
            if re.search(pattern, name):
                with pytest.raises(error, match=words):
                    rlx.from_jax(harness.dyn_fun)(*args)
                return
        expected = jax.tree_util.tree_leaves(jax.jit(harness.dyn_fun)(*args))
        found = jax.tree_util.tree_leaves(rlx.from_jax(harness.dyn_fun)(*args))
        mine, theirs = ([plain(x) for x in xs] for xs in (found, expected))
    assert [(x.dtype, x.shape) for x in mine] == [(x.dtype, x.shape) for x in theirs]
    if re.search(UNDEFINED, name):
        return
    for a, b in zip(defined(name, mine), defined(name, theirs), strict=True):
        close(a, b)


def plain(x: Any) -> np.ndarray[Any, Any]:
    is_key = jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    tolerance = TOLERANCES.get(str(a.dtype), 0)
    if tolerance:
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0)) if tolerance else 1
    np.testing.assert_allclose(a, b, tolerance, tolerance * max(1.0, scale))

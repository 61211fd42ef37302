"""Bits of every generator that JAX defines are JAX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import UnsupportedError

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

from jax import lax  # noqa: E402  after JAX is known to be there

from rlx.jaxpr.internals import lowered_primitives  # noqa: E402

STATE = np.array([0x12345678, 0x9ABCDEF0, 0xFFFFFFFE, 0x11111111], "uint32")
LAST = np.array([0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF], "uint32")
GENERATORS = ("threefry2x32", "philox2x32", "philox4x32", "threefry4x32")
SHAPES = ((5,), (2, 3), (3, 2), (4,), (), (3, 5), (0,), (3, 3, 3))


def equal(found: Any, expected: Any) -> None:
    mine, theirs = (jax.tree_util.tree_leaves(x) for x in (found, expected))
    for a, b in zip(mine, theirs, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX"])
def test_rng_bit_generator_gives_xlas_bits(algorithm: str, dtype: str, shape: Any) -> None:
    with jax.enable_x64(True):
        for state in (STATE, STATE.view("uint64"), LAST):

            def draw(state: Any) -> Any:
                return lax.rng_bit_generator(
                    state, shape, dtype, algorithm=lax.RandomAlgorithm[algorithm]
                )

            equal(rlx.from_jax(draw)(state), draw(state))


@pytest.mark.parametrize("name", GENERATORS)
def test_keys_of_every_generator_give_jaxs_bits(name: str) -> None:
    if name != GENERATORS[0] and name not in lowered_primitives():
        pytest.skip(f"this version of JAX has no generator {name!r}")

    def draws(key: Any, n: Any) -> Any:
        a, b = jax.random.split(jax.random.fold_in(key, n))
        bits = [jax.random.bits(a, (5,), f"uint{width}") for width in (8, 16, 32)]
        return bits, jax.random.uniform(b, (2, 2)), jax.random.randint(jax.random.key(n), (), 0, 99)

    key = jax.random.key(3, impl=name)
    equal(rlx.from_jax(draws)(key, 7), draws(key, 7))
    keys = jax.random.split(key, 3)
    batched: Any = jax.vmap(lambda k: jax.random.bits(k, (2,)))
    equal(rlx.from_jax(batched)(keys), batched(keys))
    equal(rlx.vmap(rlx.from_jax(lambda k: jax.random.bits(k, (2,))))(keys), batched(keys))


@pytest.mark.parametrize("name", ["rbg", "unsafe_rbg"])
def test_generators_without_defined_bits_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match="rbg") as caught:
        rlx.from_jax(jax.random.uniform)(jax.random.key(0, impl=name))
    assert caught.value.remedy is not None

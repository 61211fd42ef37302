"""Draws wherever programs run, known without JAX: known words, threads, loops and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
import rlx.random as rr
from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate


def test_threefry_gives_the_known_words_of_its_authors() -> None:
    """Random123's known answers for threefry2x32, 20 rounds."""
    known = {
        (0, 0, 0, 0): (0x6B200159, 0x99BA4EFE),
        (2**32 - 1,) * 4: (0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3): (0xC4923A9C, 0x483DF7A0),
    }
    for given, expected in known.items():
        graph = Graph("words")
        values = [graph.constant(np.uint32(each)) for each in given]
        outputs = [ops.threefry2x32(*values, word=word) for word in ("first", "second")]
        graph.set_outputs(outputs)
        assert tuple(int(each) for each in evaluate(graph, {})) == expected


@pytest.mark.guarantee("Random numbers", "Draws have the same bits at any number of threads.")
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_compiled_draws_have_the_bits_of_the_reference_at_any_number_of_threads(
    backend: str,
) -> None:
    def draw(key: Any) -> Any:
        return rr.uniform(key, (3000, 7)), rr.bits(key, (501,), "u64"), rr.randint(key, (9,), 0, 9)

    key = rr.key(1)
    expected = draw(key)
    for threads in (1, 2):
        for a, b in zip(
            rlx.jit(draw, backend=backend, threads=threads)(key), expected, strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_draws_in_a_scan_are_those_of_the_same_keys_outside() -> None:
    def step(key: Any, _: Any) -> Any:
        key, noise = rr.split(key)
        return key, rr.normal(noise, (3,))

    key = rr.key(2)
    _, rows = rlx.jit(lambda key: rlx.scan(step, key, None, length=4))(key)
    for row in rows:
        key, noise = rr.split(key)
        np.testing.assert_allclose(row, rr.normal(noise, (3,)), rtol=1e-6)


def test_a_gradient_passes_by_parameters_and_not_into_the_key() -> None:
    def loss(scale: Any, key: Any) -> Any:
        return rnp.sum(scale * rr.normal(key, (5,)))

    key = rr.key(3)
    gradient = rlx.jit(rlx.grad(loss))(np.float32(2.0), key)
    np.testing.assert_allclose(gradient, np.sum(rr.normal(key, (5,))), rtol=1e-5)


def test_seeds_of_any_width_make_keys() -> None:
    assert rr.key(2**32 + 5).tolist() == [1, 5]
    assert rr.key(-1).tolist() == [2**32 - 1, 2**32 - 1]
    assert rr.key(np.int32(-1)).tolist() == [0, 2**32 - 1]
    assert rlx.jit(rr.key)(np.int64(-1)).tolist() == [2**32 - 1, 2**32 - 1]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normals_have_half_the_variance_in_each_part(dtype: str) -> None:
    drawn = np.asarray(rlx.jit(lambda key: rr.normal(key, (100_000,), dtype))(rr.key(4)))
    assert drawn.dtype == dtype
    assert abs(np.mean(drawn)) < 0.01
    parts = np.stack([drawn.real, drawn.imag])
    np.testing.assert_allclose(np.cov(parts), np.eye(2) / 2, atol=0.01)


def test_normals_have_mean_zero_and_variance_one() -> None:
    drawn = rlx.jit(lambda key: rr.normal(key, (100_000,)))(rr.key(4))
    assert abs(float(np.mean(drawn))) < 0.01
    assert abs(float(np.var(drawn)) - 1) < 0.02


def test_what_is_no_key_is_refused() -> None:
    with pytest.raises(InputError, match="the key is 0; it must be an array"):
        rr.normal(0, (3,))
    with pytest.raises(DTypeError, match="the key has dtype i32"):
        rr.normal(np.zeros(2, np.int32), (3,))
    with pytest.raises(ShapeError, match=r"one key has shape \(2,\)"):
        rr.normal(rr.split(rr.key(0), 3), (3,))


def test_dtypes_and_shapes_that_do_not_fit_are_refused() -> None:
    key = rr.key(0)
    with pytest.raises(DTypeError, match="normal: dtype is i32"):
        rr.normal(key, (3,), "i32")
    with pytest.raises(DTypeError, match="random bits are unsigned"):
        rr.bits(key, (3,), "i32")
    with pytest.raises(ShapeError, match="does not broadcast to the shape"):
        rr.bernoulli(key, np.zeros((4, 3), np.float32), (3,))


# Philox by seed and key


def test_philox_has_known_words() -> None:
    assert rr.bits(rr.key(0, impl="philox4x32"), (4,)).tolist() == [
        *(0xAB45D93F, 0x7D18EB7F, 0x4BA0FF59, 0x6AF5BCC1)
    ]
    compiled = rlx.jit(lambda key: rr.bits(key, (5,)))(rr.key(42, impl="philox4x32"))
    assert compiled[:4].tolist() == [0x6F7F8F0F, 0x3ABA8BE4, 0xE86385DE, 0x11F82253]


def test_uniform_and_normal_numbers_of_philox_are_known() -> None:
    expected = [0.43554014, 0.22940892, 0.90776855, 0.07019246]
    np.testing.assert_allclose(rr.philox.uniform(42, 0, (4,)), expected, rtol=2e-7)
    mixed = [0.65406901, 0.78046864, 0.47089911, 0.06777549]
    np.testing.assert_allclose(rr.philox.uniform(42, 1, (4,)), mixed, rtol=2e-7)
    normals = [0.1663436, 0.3978269, 0.957598, -0.6915805]
    np.testing.assert_allclose(rr.philox.normal(42, 0, (4,)), normals, rtol=1e-6)
    assert abs(float(np.mean(rr.philox.normal(123, 0, (10_000,))))) < 0.1


def test_keys_of_philox_split_and_fold_like_others() -> None:
    key = rr.key(5, impl="philox4x32")
    children = rr.split(key, 3)
    assert children.shape == (3, 4)
    known = {tuple(each) for each in [*children.tolist(), rr.fold_in(key, 0).tolist()]}
    assert len(known) == 4
    drawn = rlx.jit(rlx.vmap(lambda key: rr.normal(key, (2,))))(children)
    np.testing.assert_allclose(drawn[1], rr.normal(children[1], (2,)), rtol=1e-6)


@pytest.mark.slow
def test_gamma_numbers_change_with_their_shape_as_their_distribution_does() -> None:
    """By differences at a fixed value of the distribution function."""
    special = pytest.importorskip("scipy.special")
    key, alpha = rr.key(6), 2.5
    drawn = float(rr.gamma(key, alpha, dtype="f64"))
    slope = float(rlx.jit(rlx.grad(lambda a: rr.gamma(key, a, (), "f64")))(np.float64(alpha)))
    level, step = special.gammainc(alpha, drawn), 1e-5
    ends = [special.gammaincinv(alpha + side, level) for side in (-step, step)]
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


def test_more_than_there_are_cannot_be_drawn_without_replacement() -> None:
    with pytest.raises(ShapeError, match="4 elements are drawn from 3 without replacement"):
        rr.choice(rr.key(0), 3, (4,), replace=False)
    with pytest.raises(ShapeError, match="4 positions are drawn without replacement from 3"):
        rr.categorical(rr.key(0), np.zeros(3, np.float32), shape=(4,), replace=False)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_endless_trials_end(chance: float) -> None:
    """Rejection never accepts where the moments are NaN: infinitely many trials are not drawn."""
    drawn = rr.binomial(rr.key(0), np.array([np.inf, 3.0]), chance)
    assert np.asarray(drawn)[0] == np.inf
    assert 0 <= np.asarray(drawn)[1] <= 3

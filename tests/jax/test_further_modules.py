"""`odeint`, `image`, meshes of one device and small parts of JAX without a test elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.jax as jax
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import UnsupportedError
from rlx.jax.experimental.ode import odeint
from rlx.jax.sharding import PartitionSpec

TIMES = np.linspace(0.0, 2.0, 5)


def decay(y: Any, t: Any, rate: Any) -> Any:
    del t
    return {"a": -rate * y["a"], "b": y["a"]}


@pytest.mark.slow
def test_solutions_of_trees_and_their_adjoint_are_exact_to_the_tolerance() -> None:
    start = {"a": np.ones(2), "b": np.zeros(2)}

    def end(rate: Any) -> Any:
        return rnp.sum(odeint(decay, start, TIMES, rate)["a"][-1])

    solved = rlx.jit(lambda rate: odeint(decay, start, TIMES, rate))(1.5)
    fall = np.exp(-1.5 * TIMES)[:, None] * np.ones(2)
    np.testing.assert_allclose(solved["a"], fall, rtol=1e-6)
    np.testing.assert_allclose(solved["b"], (1 - fall) / 1.5, atol=1e-6)
    value, slope = rlx.jit(rlx.value_and_grad(end))(1.5)
    np.testing.assert_allclose([value, slope], [2 * np.exp(-3), -4 * np.exp(-3)], rtol=1e-6)


@pytest.mark.slow
def test_what_a_slope_reads_from_a_closure_has_a_gradient() -> None:
    def end(rate: Any) -> Any:
        return odeint(lambda y, _: -rate * y, np.float64(1), TIMES)[-1]

    np.testing.assert_allclose(rlx.jit(rlx.grad(end))(1.5), -2 * np.exp(-3), rtol=1e-6)


def test_a_mesh_of_one_device_is_the_whole() -> None:
    mesh = jax.make_mesh((1,), ("i",))
    x = np.arange(6.0).reshape(2, 3)
    spec = PartitionSpec("i")
    shifted = jax.shard_map(lambda x: x - lax.psum(x, "i") / 2, mesh=mesh, in_specs=spec,
                            out_specs=spec)  # fmt: skip
    np.testing.assert_array_equal(rlx.jit(shifted)(x), x / 2)
    np.testing.assert_array_equal(jax.pmap(lambda x: lax.psum(x, "b"), "b")(x), [x.sum(0)] * 2)
    with pytest.raises(UnsupportedError, match="there is one device"):
        jax.make_mesh((2,), ("i",))


def test_a_custom_gradient_is_the_one_returned() -> None:
    @jax.custom_gradient
    def f(x: Any) -> Any:
        return x**2, lambda cotangent: 7 * cotangent

    assert rlx.grad(f)(3.0) == 7


def test_groups_of_rows_multiply_their_matrices() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 4))
    expected = np.concatenate([x[:2] @ w[0], x[2:4] @ w[1], np.zeros((1, 4))])
    sizes = np.array([2, 2], np.int32)
    np.testing.assert_allclose(rlx.jit(lax.ragged_dot)(x, w, sizes), expected, rtol=1e-12)
    whole = lax.ragged_dot((10 * x).astype(int), (10 * w).astype(int), sizes)
    np.testing.assert_array_equal(whole[:2], (10 * x[:2]).astype(int) @ (10 * w[0]).astype(int))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64"])
def test_words_are_counted_multiplied_and_cut(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 1, 0, 37], dtype)
    bits = limits.bits
    expected = [bits - (int(v) & ((1 << bits) - 1)).bit_length() for v in x]
    np.testing.assert_array_equal(lax.clz(x), expected)
    products = [(int(a) * int(b)) >> bits for a, b in zip(x, x[::-1], strict=True)]
    np.testing.assert_array_equal(lax.mulhi(x, x[::-1]), np.array(products).astype(dtype))
    np.testing.assert_array_equal(lax.bitcast_convert_type(x, "uint8").ravel(), x.view("uint8"))
    back = lax.bitcast_convert_type(lax.bitcast_convert_type(x, "uint8"), dtype)
    np.testing.assert_array_equal(np.ravel(back), x)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic", "lanczos3", "lanczos5",
                                    "cubic-pytorch", "area"])  # fmt: skip
@pytest.mark.parametrize("shape", [(5, 9, 2), (3, 4, 2), (11, 3, 2)])
@pytest.mark.parametrize("antialias", [True, False])
def test_images_are_resized_as_in_jax(method: str, shape: Any, antialias: bool) -> None:
    theirs = pytest.importorskip("jax")
    x = np.random.default_rng(1).standard_normal((6, 7, 2)).astype(np.float32)
    with theirs.enable_x64(True):
        expected = theirs.image.resize(x.astype(np.float64), shape, method, antialias)
    found = jax.image.resize(x, shape, method, antialias)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=4e-7)


def test_bicubic_images_are_pytorchs() -> None:
    functional = pytest.importorskip("torch.nn.functional")
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).standard_normal((1, 1, 4, 5)).astype(np.float32)
    expected = functional.interpolate(torch.tensor(x), size=(9, 7), mode="bicubic")
    found = jax.image.resize(x, (1, 1, 9, 7), "cubic-pytorch", antialias=False)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_rank_counts_values_above_a_number_as_in_jax() -> None:
    """Whether the module was imported by itself or is an attribute of `rlx.jax.numpy`."""
    linalg: Any = jax.numpy.linalg
    assert linalg.matrix_rank(np.diag([10.0, 1.0, 0.3]), 0.5) == 2
    assert rlx.numpy.linalg.matrix_rank(np.diag([10.0, 1.0, 0.3]), rtol=0.5) == 1
    with pytest.raises(rlx.RlxError, match="one limit"):
        linalg.matrix_rank(np.eye(2), 0.5, tol=0.5)


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_images_of_few_digits_are_rounded_once(dtype: str, method: str) -> None:
    x = rlx.numpy.asarray(np.random.default_rng(1).standard_normal((6, 7, 2)), dtype)
    wide, shape = rlx.numpy.astype(x, "float32"), (5, 9, 2)
    moves: Any = (shape, (0, 1), np.array([0.8, 1.3], "f4"), np.array([0.3, -0.2], "f4"), method)
    found, expected = (jax.image.resize(each, shape, method) for each in (x, wide))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, rlx.numpy.astype(expected, dtype))
    # In f32, which the positions have
    found, expected = (jax.image.scale_and_translate(each, *moves) for each in (x, wide))
    np.testing.assert_array_equal(found, expected)


def test_draws_have_64_bits_where_a_program_asks_for_them() -> None:
    key = rlx.random.PRNGKey(0)
    drawn = rlx.jit(rlx.random.normal)
    assert rlx.random.normal(key).dtype == drawn(key).dtype == np.float32
    with jax.enable_x64(True):
        assert rlx.random.normal(key).dtype == drawn(key).dtype == np.float64
        assert rlx.random.randint(key, (), 0, 5).dtype == np.int64
        assert rlx.random.bits(key).dtype == np.uint64
    assert rlx.random.normal(key).dtype == np.float32

"""Matrix products against NumPy and JAX."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rlx.ir import ops
from tests.ir.reference.running import run


def test_integer_products_wrap() -> None:
    a = np.full((1, 2), 100, np.int8)
    np.testing.assert_array_equal(run(ops.matmul, a, a.T), [[np.int8(20000 % 256)]])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_accumulate_in_f32(dtype: type[np.generic]) -> None:
    ones = np.ones((1, 4096), dtype)  # a sum kept in f16 would stop at 2048, in bf16 at 256
    np.testing.assert_array_equal(run(ops.matmul, ones, ones.T).astype(np.float64), [[4096]])


def test_complex_products_do_not_conjugate() -> None:
    z = np.array([[1j]], np.complex64)
    np.testing.assert_array_equal(run(ops.matmul, z, z), [[-1]])


def test_a_product_over_nothing_is_zero() -> None:
    product = run(ops.matmul, np.ones((2, 0)), np.ones((0, 3)))
    np.testing.assert_array_equal(product, np.zeros((2, 3)))


def test_dot_general_orders_its_axes_as_jax_does() -> None:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(11)
    a = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    b = rng.standard_normal((4, 6, 2, 3)).astype(np.float32)
    expected = jax.lax.dot_general(a, b, (((1, 2), (3, 0)), ((0,), (2,))))
    product = run(
        ops.dot_general, a, b, lhs_contracting=(1, 2), rhs_contracting=(3, 0), lhs_batch=(0,),
        rhs_batch=(2,),
    )  # fmt: skip
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-5)

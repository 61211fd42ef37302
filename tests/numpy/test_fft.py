"""Transforms as NumPy has them; known values of lengths, axes and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import as_dtype
from rlx.ir.graph import Graph
from rlx.ir.ops.fourier import prime_factors
from rlx.ir.reference import evaluate
from rlx.passes.rewrites.decompose import decompose

Array = NDArray[Any]
RNG = np.random.default_rng(3)
X8 = np.array([1, 0.5, -2, 0.25, 0, 1.5, -0.75, 3]) + 1j * np.array(
    [0.5, -1, 0, 2, -0.5, 0.25, 1, -1.5]
)
Y8 = np.array(
    [
        *(3.5 + 0.75j, 2.828427 + 1.542893j, 2.5 + 0.25j, 2.353553 + 5.760408j),
        *(-7 + 1.25j, -2.828427 + 2.957107j, 5 - 2.25j, 1.646447 - 6.260408j),
    ]
)


def numbers(*shape: int) -> Array:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def by_formula(x: Array, **attributes: Any) -> Array:
    """Evaluate the formula of the op, which its meaning in NumPy does not use."""
    graph = Graph("transform")
    given = graph.input("x", x.shape, as_dtype(x.dtype))
    graph.set_outputs([ops.fft(given, **attributes)])
    return np.asarray(evaluate(decompose()(graph), {"x": x})[0])


def planes(x: Array) -> Array:
    return np.concatenate([x.real, x.imag], axis=-1)


def test_of_fft_x8() -> None:
    np.testing.assert_allclose(rnp.fft.fft(X8.astype(np.complex64)), Y8, atol=5e-6)
    found = by_formula(planes(X8))
    np.testing.assert_allclose(found, planes(np.fft.fft(X8)), atol=1e-9)
    np.testing.assert_allclose(found, planes(Y8), atol=1e-6)


@pytest.mark.parametrize("n", [1, 3, 5, 6, 7, 10, 12, 13, 15, 16, 17, 100, 1000, 67, 134])
def test_of_fft_round_trip(n: int) -> None:
    x = RNG.standard_normal((2, 2 * n))
    back = by_formula(by_formula(x), inverse=True, scale=1 / n)
    np.testing.assert_allclose(back, x, atol=1e-9)
    re, im = np.split(x, 2, axis=-1)
    np.testing.assert_allclose(by_formula(x), planes(np.fft.fft(re + 1j * im)), atol=1e-9)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 61), 1),
        ((2, 67), 1),
        ((3, 2048), 1),
        ((2, 4096), 1),
        ((17, 15, 19), 1),
        ((4, 60, 3), 1),
    ],
)
def test_compiled_transforms_of_any_length(shape: tuple[int, ...], axis: int, backend: Any) -> None:
    """Rows and columns that fill no vector, loops of primes, lengths that are taken apart."""
    x = numbers(*shape)
    found = rlx.jit(lambda x: rnp.fft.fft(x, axis=axis), backend=backend)(x)
    np.testing.assert_allclose(found, np.fft.fft(x, axis=axis), rtol=1e-4, atol=1e-4)


def test_a_batched_transform_is_one_along_the_next_axis() -> None:
    x = numbers(3, 5, 8)
    found = rlx.jit(rlx.vmap(lambda x: rnp.fft.ifft(x, axis=0)))(x)
    np.testing.assert_allclose(found, np.fft.ifft(x, axis=1), rtol=1e-4, atol=1e-5)


def test_of_fft_vjp_and_limit_16() -> None:
    """The derivative of sum(re(fft x)**2) is the transform of (2 re, 0), in any dtype."""

    def loss(x: Any) -> Any:
        return rnp.sum(rnp.real(rnp.fft.fft(x)) ** 2)

    for n in (6, 8):
        x = numbers(n)
        gradient = rlx.jit(rlx.grad(loss))(x)
        spectrum = np.fft.fft(x)
        expected = np.fft.fft(2 * spectrum.real)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["fft2", "irfft2"])
def test_transforms_along_several_axes_are_numpys(name: str) -> None:
    x = numbers(3, 4, 5)
    np.testing.assert_allclose(
        getattr(rnp.fft, name)(x), getattr(np.fft, name)(x), rtol=1e-4, atol=1e-5
    )
    given = {"s": (4, 2), "axes": (2, 0)}
    np.testing.assert_allclose(
        getattr(rnp.fft, name)(x, **given), getattr(np.fft, name)(x, **given), rtol=1e-4, atol=1e-5
    )


def test_real_transforms_return_for_any_length_and_batch() -> None:
    for n in (8, 13):
        x = RNG.standard_normal((2, 3, n)).astype(np.float32)
        back = rlx.jit(lambda x, n=n: rnp.fft.irfft(rnp.fft.rfft(x), n))(x)
        np.testing.assert_allclose(back, x, atol=1e-5)


def test_compiled_transforms_agree_under_vmap_and_in_both_backends() -> None:
    x = numbers(4, 67)
    expected = np.fft.fft(x)
    for backend in ("c", "llvm"):
        found = rlx.jit(rlx.vmap(rnp.fft.fft), backend=backend)(x)
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("n", [8, 100, 67])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_transforms_of_f64_are_complex128_and_exact_to_it(n: int, backend: str) -> None:
    x = RNG.standard_normal((3, n))
    spectrum = rlx.jit(rnp.fft.fft, backend=backend)(x)
    assert spectrum.dtype == np.complex128
    np.testing.assert_allclose(spectrum, np.fft.fft(x), atol=1e-12)
    back = rlx.jit(lambda x: rnp.fft.irfft(rnp.fft.rfft(x), n), backend=backend)(x)
    np.testing.assert_allclose(back, x, atol=1e-14)


def test_of_prime_factors() -> None:
    assert prime_factors(12) == [2, 2, 3]
    assert prime_factors(7) == [7]
    assert prime_factors(1) == []


def test_what_has_no_transform_is_refused() -> None:
    with pytest.raises(DTypeError, match="complex numbers are given"):
        rnp.fft.rfft(np.zeros(4, np.complex64))
    with pytest.raises(InputError, match="norm is 'both'"):
        rnp.fft.fft(np.zeros(4, np.float32), norm="both")
    with pytest.raises(ShapeError, match="needs at least one"):
        rnp.fft.fft(np.zeros(4, np.float32), 0)
    with pytest.raises(ShapeError, match="as many imaginary as real parts"):
        ops.fft(Graph("odd").input("x", (3,), "f32"))


REAL_SHAPES = [((40, 64), 1), ((5, 6), 1), ((3, 40, 20), 1), ((2, 17), 1)]
"""Rows and columns that fill vectors and do not, and an odd count."""


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_compiled_transforms_of_reals_of_any_length(backend: Any) -> None:
    xs = [RNG.standard_normal(shape).astype(np.float32) for shape, _ in REAL_SHAPES]

    def both(xs: list[Any]) -> Any:
        spectra = [rnp.fft.rfft(x, axis=axis) for x, (_, axis) in zip(xs, REAL_SHAPES, strict=True)]
        back = [
            rnp.fft.irfft(spectrum, shape[axis], axis=axis)
            for spectrum, (shape, axis) in zip(spectra, REAL_SHAPES, strict=True)
        ]
        return spectra, back

    spectra, back = rlx.jit(both, backend=backend)(xs)
    for x, (_, axis), spectrum, returned in zip(xs, REAL_SHAPES, spectra, back, strict=True):
        np.testing.assert_allclose(spectrum, np.fft.rfft(x, axis=axis), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(returned, x, atol=1e-5)


@pytest.mark.parametrize("n", [7, 8, 512])
def test_no_columns_have_no_transforms(n: int) -> None:
    x = np.zeros((n, 0), np.float32)

    def there_and_back(x: Any) -> Any:
        half = rnp.fft.rfft(x, axis=0)
        return rnp.fft.fft(x, axis=0), half, rnp.fft.irfft(half, n, axis=0)

    shapes = [found.shape for found in rlx.jit(there_and_back)(x)]
    assert shapes == [(n, 0), (n // 2 + 1, 0), (n, 0)]


def test_an_even_count_of_reals_is_transformed_as_half_as_many_points() -> None:
    x = RNG.standard_normal((20, 64)).astype(np.float32)
    source = rlx.jit(rnp.fft.rfft, backend="c").c_source(x)
    assert "dft_of_reals" in source
    source = rlx.jit(rnp.fft.irfft, backend="c").c_source(np.fft.rfft(x))
    assert "dft_to_reals" in source


@pytest.mark.parametrize("n", [7, 8, 512])
def test_inverse_transforms_to_reals_do_not_read_imaginary_parts_of_real_bins(n: int) -> None:
    half = numbers(2, n // 2 + 1)
    clean = half.copy()
    clean.imag[:, 0] = 0
    if n % 2 == 0:
        clean.imag[:, -1] = 0
    found = [rlx.jit(lambda z, n=n: rnp.fft.irfft(z, n))(z) for z in (half, clean)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], np.fft.irfft(half, n), atol=1e-5)
    half.imag[:, 0] = np.nan
    np.testing.assert_array_equal(rlx.jit(lambda z: rnp.fft.irfft(z, n))(half), found[0])


@pytest.mark.parametrize("n", [7, 8])
def test_gradients_of_transforms_of_reals_are_their_transposes(n: int) -> None:
    """The gradient of sum(w x) is the matrix of the transform times w."""
    x = RNG.standard_normal(n)
    w = RNG.standard_normal(n // 2 + 1) + 1j * RNG.standard_normal(n // 2 + 1)
    rows = np.fft.rfft(np.eye(n))
    found = rlx.grad(lambda x: rnp.sum(rnp.real(rnp.fft.rfft(x) * w)))(x)
    np.testing.assert_allclose(found, (rows @ w).real, atol=1e-12)
    v = RNG.standard_normal(n)
    half = np.fft.rfft(x)
    units = np.eye(n // 2 + 1)
    by_re, by_im = (np.fft.irfft(unit * units, n) @ v for unit in (1, 1j))
    found = rlx.grad(lambda z: rnp.sum(rnp.fft.irfft(z, n) * v))(half)
    np.testing.assert_allclose(found, by_re - 1j * by_im, atol=1e-12)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("shape", [(20, 71), (3, 83, 20)])
def test_transforms_of_prime_length_are_convolved_in_scratch(
    shape: tuple[int, ...], backend: Any
) -> None:
    """70 has small factors; 82 has none, so that its convolution is padded."""
    x = numbers(*shape).astype(np.complex128)
    run = rlx.jit(lambda x: (rnp.fft.fft(x, axis=1), rnp.fft.ifft(x, axis=1)), backend=backend)
    forward, back = run(x)
    np.testing.assert_allclose(forward, np.fft.fft(x, axis=1), atol=1e-12)
    np.testing.assert_allclose(back, np.fft.ifft(x, axis=1), atol=1e-14)
    if backend == "c":
        assert "dft_of_prime" in run.c_source(x)


def test_a_transform_of_prime_length_refuses_other_lengths() -> None:
    graph = Graph("prime")
    table, order = graph.input("t", (2, 8), "f32"), graph.input("o", (9,), "i32")
    x = graph.input("x", (1, 9, 1), "c64")
    with pytest.raises(ShapeError, match="prime length n"):
        ops.dft_of_prime(x, table, table, order, order, inverse=False, scale=1.0)

"""Cosine transforms compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.scipy import fft

X = np.random.default_rng(4).standard_normal((3, 8, 5))


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("name", ["dct", "idct"])
def test_transforms_along_an_axis(name: str, norm: str | None) -> None:
    scipy: Any = pytest.importorskip("scipy.fft")
    for axis, n in ((-1, None), (1, None), (1, 5), (0, 4), (-1, 1)):
        expected = getattr(scipy, name)(X, 2, n, axis, norm)
        found = getattr(fft, name)(X, 2, n, axis, norm)
        np.testing.assert_allclose(found, expected, atol=1e-13)
    assert getattr(fft, name)(X.astype(np.float32)).dtype == np.float32
    found = getattr(fft, name)(X + 2j * X)
    np.testing.assert_allclose(found, (1 + 2j) * getattr(scipy, name)(X), atol=1e-13)


def test_transforms_along_several_axes() -> None:
    scipy: Any = pytest.importorskip("scipy.fft")
    for options in ({}, {"s": (4, 6)}, {"axes": (0, 2), "norm": "ortho"}):
        found = fft.dctn(X, **options)
        np.testing.assert_allclose(found, scipy.dctn(X, **options), atol=1e-12)
        options.pop("s", None)
        np.testing.assert_allclose(fft.idctn(fft.dctn(X, **options), **options), X, atol=1e-13)


def test_the_slope_is_the_transpose_and_others_are_refused() -> None:
    x = X[0, 0]
    slope = rlx.grad(lambda x: rnp.sum(rnp.square(fft.dct(x, norm="ortho"))))(x)
    np.testing.assert_allclose(slope, 2 * x, atol=1e-13)
    with pytest.raises(InputError, match="type is 3"):
        fft.dct(x, 3)


OPTIONS: Any = [{}, {"s": (4, 6)}, {"axes": (0, 2), "norm": "ortho"}, {"norm": "forward"}]


@pytest.mark.parametrize("options", OPTIONS)
def test_real_spectra_along_several_axes(options: Any) -> None:
    scipy: Any = pytest.importorskip("scipy.fft")
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(fft.hfftn(z, **options), scipy.hfftn(z, **options), atol=1e-11)
    np.testing.assert_allclose(fft.ihfftn(X, **options), scipy.ihfftn(X, **options), atol=1e-12)
    np.testing.assert_allclose(fft.hfft2(z), scipy.hfft2(z), atol=1e-11)
    np.testing.assert_allclose(fft.ihfft2(X), scipy.ihfft2(X), atol=1e-12)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_real_spectra_are_inverted_mapped_and_have_slopes(backend: Any) -> None:
    """There and back without a scale, the signal is as many times itself as it has elements."""
    back = rlx.jit(lambda x: fft.hfftn(fft.ihfftn(x), x.shape), backend=backend)(X)
    np.testing.assert_allclose(back, X, atol=1e-12)

    def energy(x: Any) -> Any:
        return rnp.sum(fft.hfft2(fft.ihfft2(x, norm="forward"), x.shape) ** 2)

    slopes = rlx.jit(rlx.vmap(rlx.grad(energy)), backend=backend)(X)
    np.testing.assert_allclose(slopes, 2 * (8 * 5) ** 2 * X, rtol=1e-10, atol=1e-8)

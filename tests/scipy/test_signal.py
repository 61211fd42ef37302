"""Convolutions and spectra beside SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.scipy import signal

scipy = pytest.importorskip("scipy.signal")

RANDOM = np.random.default_rng(0)
IMAGE, SMALL = RANDOM.normal(size=(9, 8)), RANDOM.normal(size=(3, 4))
LONG, SHORT = RANDOM.normal(size=30), RANDOM.normal(size=6)
SOUNDS = RANDOM.normal(size=(2, 300)).astype("f4")


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions(mode: str) -> None:
    found = signal.convolve(IMAGE, SMALL, mode)
    np.testing.assert_allclose(found, scipy.convolve(IMAGE, SMALL, mode), rtol=1e-12, atol=1e-12)
    found = signal.correlate(LONG, SHORT, mode)
    np.testing.assert_allclose(found, scipy.correlate(LONG, SHORT, mode), rtol=1e-12, atol=1e-12)
    found = signal.fftconvolve(IMAGE.astype("f4"), SMALL.astype("f4"), mode)
    np.testing.assert_allclose(found, scipy.convolve(IMAGE, SMALL, mode), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_matrices(mode: str) -> None:
    for kind in ("convolve2d", "correlate2d"):
        found = getattr(signal, kind)(IMAGE, SMALL, mode)
        expected = getattr(scipy, kind)(IMAGE, SMALL, mode)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        with pytest.raises(UnsupportedError, match="boundary is 'wrap'"):
            getattr(signal, kind)(IMAGE, SMALL, mode, "wrap")


def test_long_signals_of_f64_are_convolved_in_f64() -> None:
    a, b = RANDOM.normal(size=400), RANDOM.normal(size=300)
    np.testing.assert_allclose(signal.convolve(a, b), scipy.convolve(a, b), atol=1e-11)


def test_valid_needs_an_array_that_covers_the_other() -> None:
    with pytest.raises(ShapeError, match="neither of"):
        signal.convolve(IMAGE, SMALL.T @ SMALL @ np.ones((4, 20)), "valid")
    with pytest.raises(InputError, match="method is 'slow'"):
        signal.convolve(IMAGE, SMALL, method="slow")


@pytest.mark.parametrize("type", ["linear", "constant"])
def test_detrend(type: str) -> None:
    for axis in (0, 1):
        expected = scipy.detrend(IMAGE, axis, type)
        np.testing.assert_allclose(signal.detrend(IMAGE, axis, type), expected, atol=1e-12)


@pytest.mark.parametrize("size", [64, 63])
def test_spectra_over_time_and_their_mean(size: int) -> None:
    for one, other in zip(
        signal.stft(SOUNDS, 2.0, nperseg=size), scipy.stft(SOUNDS, 2.0, nperseg=size), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    for one, other in zip(
        signal.welch(SOUNDS, 2.0, nperseg=size), scipy.welch(SOUNDS, 2.0, nperseg=size), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [64, 63])
def test_cross_densities(size: int) -> None:
    other = RANDOM.normal(size=(2, 250)).astype("f4")
    expected = scipy.csd(SOUNDS, other, 2.0, nperseg=size)
    for one, found in zip(expected, signal.csd(SOUNDS, other, 2.0, nperseg=size), strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("size", "overlap"), [(64, None), (63, 40), (32, 24)])
def test_a_signal_comes_back_from_its_spectra(size: int, overlap: int | None) -> None:
    x = SOUNDS.astype("f8")
    _, _, spectra = scipy.stft(x, 2.0, nperseg=size, noverlap=overlap)
    how: dict[str, Any] = {"nperseg": size, "noverlap": overlap}
    times, found = rlx.jit(lambda z: signal.istft(z, 2.0, **how))(spectra)
    np.testing.assert_allclose(found, scipy.istft(spectra, 2.0, **how)[1], atol=1e-12)
    np.testing.assert_array_equal(times, np.arange(found.shape[-1]) / 2)
    np.testing.assert_allclose(found[:, : x.shape[-1]], x, atol=1e-12)


def test_unknown_modes_and_windows_are_told() -> None:
    with pytest.raises(ShapeError, match="mode is 'half'"):
        signal.convolve(LONG, SHORT, "half")
    with pytest.raises(ShapeError, match="window is 'tent'"):
        signal.stft(SOUNDS, window="tent")

"""Convolutions, spectra and cosine transforms compared with SciPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.scipy import fft, signal

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


def test_unknown_modes_and_windows_are_reported() -> None:
    with pytest.raises(ShapeError, match="mode is 'half'"):
        signal.convolve(LONG, SHORT, "half")
    with pytest.raises(ShapeError, match="window is 'tent'"):
        signal.stft(SOUNDS, window="tent")


KEYWORDS: tuple[dict[str, Any], ...] = (
    {"nperseg": 32},
    {"nperseg": 31, "noverlap": 10},
    {"nperseg": 16, "nfft": 40, "window": "flattop"},
    {"nperseg": 17, "nfft": 21, "window": ("kaiser", 4.0)},
    {"window": np.hamming(20), "nperseg": None},
    {"window": "bartlett"},
    {"nperseg": 32, "return_onesided": False},
)
REAL = RANDOM.normal(size=(3, 300))
KINDS = {"real": REAL, "complex": REAL + 1j * REAL[:, ::-1]}


def same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Input data is complex")
@pytest.mark.parametrize("trend", [False, "constant", "linear"])
@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_keywords_of_spectra_are_scipys(kind: str, axis: int, trend: Any) -> None:
    x = np.moveaxis(KINDS[kind], -1, axis)
    shorter = x[:, :280] if axis else x[:280]
    for given in KEYWORDS:
        how = {**given, "detrend": trend, "axis": axis}
        for boundary in ("zeros", "even", "odd", "constant", None):
            at = {**how, "boundary": boundary, "padded": boundary != "odd"}
            same(signal.stft(x, 2.0, **at), scipy.stft(x, 2.0, **at))
        for scaling, average in (("density", "mean"), ("spectrum", "median")):
            at = {**how, "scaling": scaling, "average": average}
            same(signal.welch(x, 2.0, **at), scipy.welch(x, 2.0, **at))
            same(signal.csd(x, shorter, 2.0, **at), scipy.csd(x, shorter, 2.0, **at))


@pytest.mark.parametrize("kind", KINDS)
def test_keywords_of_inverse_spectra_are_scipys(kind: str) -> None:
    for given in ({"nperseg": 31, "noverlap": 20}, {"nperseg": 16, "nfft": 40}):
        spectra = scipy.stft(KINDS[kind], 2.0, return_onesided=kind == "real", **given)[2]
        for time, frequency in ((-1, -2), (0, -1), (1, 0)):
            turned = np.moveaxis(spectra, (-1, -2), (time, frequency))
            how: dict[str, Any] = {**given, "input_onesided": kind == "real", "boundary": time != 0}
            how |= {"time_axis": time, "freq_axis": frequency}
            found, expected = signal.istft(turned, 2.0, **how), scipy.istft(turned, 2.0, **how)
            same(found[1:], expected[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_taken_off_between_breaks(kind: str) -> None:
    for breaks in (0, [50], [10, 100]):
        for type in ("linear", "constant"):
            expected = scipy.detrend(KINDS[kind], -1, type, breaks)
            same([signal.detrend(KINDS[kind], -1, type, breaks)], [expected])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_parts_of_few_elements_lose_the_line_through_them(size: int) -> None:
    x = np.array([[1.0, 3, 10, 20, 35, 50], [2, -1, 4, 0, 7, 5]])
    same([signal.detrend(x[:, :size])], [scipy.detrend(x[:, :size])])
    for breaks in ([size], [6 - size], [1, 1 + size]):
        same([signal.detrend(x, bp=breaks)], [scipy.detrend(x, bp=breaks)])


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_spectra_convolve_along_some_axes(mode: str) -> None:
    a, b = RANDOM.normal(size=(4, 5, 6)), RANDOM.normal(size=(1, 2, 3))
    for axes in ((1, 2), 2, None):
        if axes == 2:
            b = b[:, :1]
        same([signal.fftconvolve(a, b, mode, axes)], [scipy.fftconvolve(a, b, mode, axes)])


def test_segments_that_do_not_fit_are_reported() -> None:
    for how, words in (
        ({"noverlap": 64, "nperseg": 64}, "noverlap is 64"),
        ({"nfft": 10, "nperseg": 64}, "nfft is 10"),
        ({"boundary": "mirror"}, "boundary is 'mirror'"),
        ({"scaling": "loud"}, "scaling is 'loud'"),
    ):
        with pytest.raises(InputError, match=words):
            signal.stft(SOUNDS, **how)
    with pytest.raises(InputError, match="average is 'mode'"):
        signal.welch(SOUNDS, average="mode")
    with pytest.raises(ShapeError, match="the window has 20"):
        signal.stft(SOUNDS, window=np.hamming(20), nperseg=10)


def test_axes_that_are_not_there_are_reported() -> None:
    x = LONG
    calls: tuple[Callable[[], Any], ...] = (
        lambda: signal.detrend(x, axis=3),
        lambda: signal.detrend(x, -2, "constant"),
        lambda: signal.stft(x, axis=2),
        lambda: signal.welch(x, axis=-2),
        lambda: signal.csd(x, x, axis=2),
        lambda: signal.stft(np.float64(3)),
        lambda: signal.welch(np.float64(3)),
    )
    for call in calls:
        with pytest.raises(ShapeError, match="out of range for rank"):
            call()


@pytest.mark.parametrize("window", [np.float64(3), 3.0, np.ones((2, 4))])
def test_windows_that_are_no_vectors_are_reported(window: Any) -> None:
    for call in (signal.welch, signal.stft):
        with pytest.raises(ShapeError, match="a window of shape"):
            call(LONG, window=window)


def test_a_window_is_named_by_a_tuple_too() -> None:
    for name in ("hann", "boxcar", "bartlett"):
        how: dict[str, Any] = {"window": (name,), "nperseg": 8}
        same(signal.welch(LONG, **how), scipy.welch(LONG, **how))


def test_breaks_come_in_an_array_too() -> None:
    for breaks in (np.array([10, 20]), np.int64(10)):
        same([signal.detrend(LONG, bp=breaks)], [scipy.detrend(LONG, bp=breaks)])


def test_densities_have_the_names_of_scipy() -> None:
    spectra = scipy.stft(LONG, nperseg=8)[2]
    same(signal.stft(LONG, nperseg=8, scaling="psd"), scipy.stft(LONG, nperseg=8, scaling="psd"))
    for call, x, name, remedy in (
        (signal.welch, LONG, "psd", "use density"),
        (signal.stft, LONG, "density", "use psd"),
        (signal.istft, spectra, "density", "use psd"),
    ):
        with pytest.raises(InputError, match=rf"(?s)scaling is '{name}'.*{remedy}"):
            call(x, scaling=name)


def test_a_trend_of_no_name_is_reported() -> None:
    with pytest.raises(InputError, match="detrend is True"):
        signal.stft(LONG, detrend=True)
    with pytest.raises(ShapeError, match="type is 'cubic'"):
        signal.welch(LONG, detrend="cubic")


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

"""Names of NumPy, at once and compiled, against NumPy's own; a row per use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, RlxError, ShapeError

RNG = np.random.default_rng(11)
V = RNG.standard_normal(9)
M = RNG.standard_normal((4, 5))
T = RNG.standard_normal((2, 3, 4))
GAPS = np.where(RNG.random((4, 6)) < 0.3, np.nan, RNG.standard_normal((4, 6)))
I = RNG.integers(-5, 6, (3, 7))  # noqa: E741  as in mathematics
N = RNG.integers(0, 6, 20)
KEYS = np.stack([N % 3, N % 2, -N])
LONG = np.sort(RNG.standard_normal(200)).round(1)
UP = np.array([0.0, 1.0, 2.5, 4.0])

SIGNED = (np.int8, np.int16, np.int32, np.int64)
USES: dict[str, Callable[[Any, Any], Any]] = {
    # bits
    "nextafter": lambda n, _: (
        n.nextafter(V, 1.0), n.nextafter(np.array([0.0, -0.0, 1.0, np.inf, 2.0]), -np.inf),
        n.nextafter(V.astype("f4"), V[::-1].astype("f4")), n.nextafter(np.nan, V),
    ),
    "spacing": lambda n, _: n.spacing(V),
    "packbits": lambda n, _: (
        n.packbits(M > 0), n.packbits(M > 0, axis=1), n.packbits(M > 0, 0, bitorder="little"),
    ),
    "unpackbits": lambda n, _: (
        n.unpackbits(N.astype("u1")), n.unpackbits(N.astype("u1")[None], 1, bitorder="little"),
        n.unpackbits(N.astype("u1"), count=13), n.unpackbits(N.astype("u1"), count=-3),
    ),
    # polynomials and products
    "poly": lambda n, _: n.poly(V[:4]),
    "polydiv": lambda n, _: (n.polydiv(V, M[0, :3])[0], n.polydiv(V, M[0, :3])[1][-2:]),
    "polyfit": lambda n, _: (
        n.polyfit(V, V**2 - V, 3), n.polyfit(V, np.stack([V, V**3], 1), 3, w=V**2 + 1),
    ),
    "matvec": lambda n, _: (n.matvec(T, M[0, :4]), n.matvec(1j * T, 1j * T[:, 0])),
    "vecmat": lambda n, _: (n.vecmat(M[0, :3], T), n.vecmat(1j * T[:, :, 0], T)),
    "unwrap": lambda n, _: (
        n.unwrap(9 * M), n.unwrap(9 * M, axis=0, period=4.0), n.unwrap(3 * V, 4.5),
    ),
    "histogram2d": lambda n, _: (
        *n.histogram2d(LONG, LONG[::-1], 4), *n.histogram2d(LONG, LONG**2, [3, UP], density=True),
    ),
    "histogramdd": lambda n, _: n.histogramdd(
        M[:, :3], (2, 3, 4), ((-1, 1), (-2, 2), (0, 1)), weights=np.arange(4.0)
    ),
    # running
    "cumprod": lambda n, _: n.cumprod(M, 1),
    "cumulative_sum": lambda n, _: n.cumulative_sum(M, axis=1, include_initial=True),
    "cumulative_prod": lambda n, _: n.cumulative_prod(V, include_initial=True),
    "nancumsum": lambda n, _: n.nancumsum(GAPS, 1),
    "nancumprod": lambda n, _: n.nancumprod(GAPS, 0),
    "diff": lambda n, _: n.diff(M, 2, axis=0, prepend=0.0, append=M[:1]),
    "ediff1d": lambda n, _: n.ediff1d(M, to_end=np.ones(2), to_begin=0.0),
    "trapezoid": lambda n, _: (n.trapezoid(M, dx=0.5), n.trapezoid(T, UP[:3], axis=1)),
    "gradient": lambda n, _: n.gradient(M, 0.5, axis=1),
    "gradient uneven": lambda n, _: n.gradient(M, UP, axis=0),
    "gradient of all axes": lambda n, _: tuple(n.gradient(M)),
    # order
    "sort": lambda n, _: n.sort(T, 1),
    "argsort": lambda n, _: n.argsort(I, 0, stable=True),
    "lexsort": lambda n, _: n.lexsort(KEYS),
    "searchsorted": lambda n, _: n.searchsorted(LONG, M, "right"),
    "searchsorted left": lambda n, _: n.searchsorted(LONG, LONG),
    "searchsorted sorter": lambda n, _: n.searchsorted(V, M, sorter=np.argsort(V)),
    "digitize": lambda n, _: (n.digitize(M, UP), n.digitize(M, UP[::-1], right=True)),
    "partition": lambda n, _: n.partition(V, 3)[3],
    # statistics
    "quantile": lambda n, _: n.quantile(M, np.array([0.1, 0.5]), axis=1, keepdims=True),
    "quantile nearest": lambda n, _: n.quantile(V, 0.3, method="nearest"),
    "quantile over axes": lambda n, _: n.quantile(T, 0.3, axis=(0, 2)),
    "quantile of NaN": lambda n, _: n.quantile(GAPS, 0.3, axis=1),
    "nanquantile": lambda n, _: n.nanquantile(GAPS, 0.3, axis=1),
    "percentile": lambda n, _: n.percentile(M, 30),
    "nanpercentile": lambda n, _: n.nanpercentile(GAPS, 30, axis=0),
    "nanmedian": lambda n, _: n.nanmedian(GAPS, 1),
    "median": lambda n, _: n.median(T, (0, 2)),
    "nanstd": lambda n, _: n.nanstd(GAPS, 1),
    "nanvar": lambda n, _: n.nanvar(GAPS, 0, ddof=1),
    "nanprod": lambda n, _: n.nanprod(GAPS, 1),
    "nanargmax": lambda n, _: (n.nanargmax(GAPS, 1), n.nanargmin(GAPS)),
    "cov": lambda n, _: n.cov(M),
    "cov of weights": lambda n, _: n.cov(M, fweights=np.arange(5), aweights=np.ones(5) / 2),
    "cov of two": lambda n, _: n.cov(V, V**2, bias=True),
    "corrcoef": lambda n, _: n.corrcoef(M, rowvar=False),
    "interp": lambda n, _: (n.interp(M, UP, V[:4]), n.interp(M, UP, V[:4], left=-9, right=9)),
    "interp periodic": lambda n, _: n.interp(3 * M, UP[::-1], V[:4], period=3.0),
    "folds over masks": lambda n, _: (
        n.sum(M, 1, where=M > 0, initial=1.0), n.prod(M, 0, where=M > 0),
        n.max(M, 1, where=M < 0, initial=-9.0), n.all(M, 1, where=M > 0), n.any(M, where=M > 9),
    ),
    "average": lambda n, _: n.average(M, 1, np.arange(5.0)),
    # counts
    "bincount": lambda n, size: n.bincount(N, **size(length=6)),
    "bincount of weights": lambda n, size: n.bincount(N, np.sqrt(N), **size(length=6)),
    "histogram": lambda n, _: n.histogram(M, 7, (-1.0, 2.0), density=True),
    "histogram edges": lambda n, _: n.histogram(M, UP),
    "histogram_bin_edges": lambda n, _: n.histogram_bin_edges(M, 5),
    # sets
    "unique": lambda n, size: n.unique(I, True, True, True, **size(size=len(np.unique(I)))),
    "union1d": lambda n, size: n.union1d(N, I, **size(size=len(np.union1d(N, I)))),
    "intersect1d": lambda n, size: n.intersect1d(N, I, **size(size=len(np.intersect1d(N, I)))),
    "setdiff1d": lambda n, size: n.setdiff1d(I, N, **size(size=len(np.setdiff1d(I, N)))),
    "setxor1d": lambda n, size: n.setxor1d(I, N, **size(size=len(np.setxor1d(I, N)))),
    "isin": lambda n, _: (n.isin(I, N), n.isin(I, N, invert=True), n.isin(I, np.ones(0))),
    "nonzero": lambda n, size: n.nonzero(I > 1, **size(size=int((I > 1).sum()))),
    "flatnonzero": lambda n, size: n.flatnonzero(I, **size(size=int((I != 0).sum()))),
    "argwhere": lambda n, size: n.argwhere(I, **size(size=int((I != 0).sum()))),
    "extract": lambda n, size: n.extract(M > 0, M, **size(size=int((M > 0).sum()))),
    "compress": lambda n, size: n.compress(np.array([True, False, True]), M, 1, **size(size=2)),
    # numbers
    "divmod": lambda n, _: n.divmod(I, 3),
    "modf": lambda n, _: n.modf(np.array([1.5, -2.25, np.inf, -0.0])),
    "copysign": lambda n, _: n.copysign(V, -1.0),
    "heaviside": lambda n, _: n.heaviside(np.array([-1.0, 0.0, 2.0, np.nan]), 0.5),
    "frexp": lambda n, _: n.frexp(np.array([0.0, 1.0, -3.5, 1e300, 5e-324, np.inf, 0.5, 8.0])),
    "ldexp": lambda n, _: n.ldexp(V, np.arange(-4, 5) * 100),
    "logaddexp2": lambda n, _: n.logaddexp2(V, 2 * V),
    "gcd": lambda n, _: (n.gcd(I * 6, 15), n.lcm(I, 4)),
    "bitwise_count": lambda n, _: (
        n.bitwise_count(np.array([0, 1, 255, 1 << 62, -7])),
        *(n.bitwise_count(np.array([np.iinfo(t).min, -1, np.iinfo(t).max], t)) for t in SIGNED),
    ),
    # comparisons
    "allclose": lambda n, _: (n.allclose(V, V + 1e-9), n.array_equal(V, M), n.array_equiv(V, V)),
    "isposinf": lambda n, _: (n.isposinf(GAPS / 0), n.isneginf(GAPS / 0)),
    # positions
    "unravel_index": lambda n, _: n.unravel_index(N, (2, 3)),
    "ravel_multi_index": lambda n, _: n.ravel_multi_index((N, N), (4, 5), mode="wrap"),
    "tril_indices": lambda n, _: (*n.tril_indices(3, 1), *n.triu_indices_from(M)),
    "ix_": lambda n, _: n.ix_(np.arange(2), np.arange(3)),
    "indices": lambda n, _: n.indices((2, 3)),
    # edits
    "append": lambda n, _: (n.append(M, V), n.append(M, M, 1)),
    "unstack": lambda n, _: n.unstack(T, axis=1),
    "dstack": lambda n, _: (n.dstack([M, M]), *n.hsplit(M, [2]), *n.vsplit(M, 2), *n.dsplit(T, 2)),
    "atleast_3d": lambda n, _: (n.atleast_3d(V), n.atleast_3d(M), n.rollaxis(T, 2)),
    "resize": lambda n, _: n.resize(M, (3, 9)),
    "delete": lambda n, _: (n.delete(M, [0, 2], 1), n.delete(V, slice(1, 4))),
    "insert": lambda n, _: (n.insert(M, 1, V[:4], 1), n.insert(V, [1, 3], np.array([7.0, 8.0]))),
    "diagflat": lambda n, _: n.diagflat(V[:3], 1),
    "choose": lambda n, _: n.choose(N % 3, [V[:1], N * 1.0, np.zeros(20)]),
    "select": lambda n, _: n.select([V > 1, V > 0], [V, V**2], -1.0),
    "piecewise": lambda n, _: n.piecewise(V, [V < 0, V > 1], [lambda x: -x, lambda x: x * x, 0.5]),
    "apply_along_axis": lambda n, _: n.apply_along_axis(lambda x: x[:2] * 2, 1, T),
    # polynomials
    "polyval": lambda n, _: (n.polyval(V[:4], M), n.polyadd(V[:2], V[:4]), n.polysub(V, V[:2])),
    "polymul": lambda n, _: (n.polymul(V[:3], V[:4]), n.polyder(V, 2), n.polyint(V[:4], 2, [1, 2])),
    "vander": lambda n, _: (n.vander(V[:3], 4), n.vander(V[:3], increasing=True)),
    "convolve": lambda n, _: tuple(
        n.convolve(a, b, mode=mode)
        for a, b in [(V, V[:4]), (V[:3], V), (V, V[:1])] for mode in ("full", "same", "valid")
    ),
    "correlate": lambda n, _: tuple(
        n.correlate(a, b, mode=mode)
        for a, b in [(V, V[:4]), (V[:3], V), (V[:4], V)] for mode in ("full", "same", "valid")
    ),
    "windows": lambda n, _: (n.hanning(5), n.hamming(5), n.blackman(5), n.bartlett(5)),
    "kaiser": lambda n, _: n.kaiser(5, 3),
    "geomspace": lambda n, _: n.geomspace(1.0, 1000.0, 4),
}  # fmt: skip


def sized(**how: int) -> dict[str, int]:
    return how


def unsized(**_: int) -> dict[str, int]:
    return {}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", USES)
def test_name_is_numpys(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = USES[name](np, unsized)
        same(USES[name](rnp, unsized), expected)
        same(rlx.jit(lambda: USES[name](rnp, sized))(), expected)


TRACED: dict[str, Callable[[Any], Any]] = {
    "quantile": lambda x: rnp.quantile(x, 0.3, axis=0),
    "interp": lambda x: rnp.interp(rnp.sin(x), UP - 1, V[:4] * 2),
    "cumlogsumexp": lambda x: rnp.cumlogsumexp(x, 0),
    "cummax": lambda x: rnp.cummax(x, 0) * rnp.cummin(x, 0, reverse=True),
    "searchsorted": lambda x: rnp.searchsorted(LONG, x) * x,
    "unique": lambda x: rnp.unique(x, size=4),
    "nonzero": lambda x: x[rnp.nonzero(x > 0, size=4)[0]],
    "sort descending": lambda x: rnp.sort(x, descending=True) * np.arange(5),
    "top_k": lambda x: rnp.top_k(x, 3)[0],
    "correlate": lambda x: rnp.correlate(x, x[:2], "full"),
}


@pytest.mark.parametrize("name", TRACED)
def test_rows_are_mapped_and_differentiated(name: str) -> None:
    body = TRACED[name]
    batched = rlx.jit(rlx.vmap(body))(M)
    same(batched, np.stack([body(row) for row in M]))

    def loss(row: Any) -> Any:
        return rnp.sum(body(row) ** 2)

    slopes = rlx.jit(rlx.vmap(rlx.grad(loss)))(M)
    for row, slope in zip(M, slopes, strict=True):
        steps = 1e-6 * np.eye(5)
        expected = [(loss(row + step) - loss(row - step)) / 2e-6 for step in steps]
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["unique", "nonzero", "bincount"])
def test_what_needs_a_size_says_so_while_tracing(name: str) -> None:
    with pytest.raises(RlxError, match=r"size=|length="):
        rlx.jit(lambda x: getattr(rnp, name)(x))(N)


def test_too_few_and_too_many_places() -> None:
    x = np.array([3, 1, 3, 2])
    same(rlx.jit(lambda x: rnp.unique(x, size=5, fill_value=9))(x), [1, 2, 3, 9, 9])
    same(rlx.jit(lambda x: rnp.unique(x, size=2))(x), [1, 2])
    same(rlx.jit(lambda x: rnp.nonzero(x > 2, size=3, fill_value=-1)[0])(x), [0, 2, -1])


def test_kinds_of_types() -> None:
    assert rnp.result_type(np.int8, np.uint8) == np.int16
    assert rnp.result_type(np.float32(1), 2.5) == np.float32
    assert rnp.promote_types("bfloat16", np.float16) == np.float32
    assert rnp.issubdtype(rnp.bfloat16, rnp.floating)
    assert not rnp.issubdtype(rnp.int32, rnp.floating)
    assert rnp.isdtype(np.dtype("u1"), ("unsigned integer", "bool"))
    assert rnp.finfo(rnp.bfloat16).bits == 16
    assert rnp.can_cast("i16", "i32")


@pytest.mark.parametrize("bins", [[3, 4], [-1, 0, 0.5, 2], np.linspace(-1, 1, 4), 3])
def test_bins_of_two_axes(bins: Any) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    for found, wanted in zip(rnp.histogram2d(x, y, bins), np.histogram2d(x, y, bins), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_grid_has_bins_for_each_axis_of_the_sample() -> None:
    sample = np.random.default_rng(0).normal(size=30)
    (counts, (ends,)) = rnp.histogramdd(sample, 4)
    np.testing.assert_array_equal(counts, np.histogramdd(sample, 4)[0])
    np.testing.assert_allclose(ends, np.histogramdd(sample, 4)[1][0], rtol=1e-12)
    with pytest.raises(ShapeError, match="bins for 3 axes are given; the sample has 1"):
        rnp.histogramdd(sample, np.array([3, 4, 5]))
    with pytest.raises(ShapeError, match="number of bins"):
        rnp.histogramdd(np.ones((4, 2)), np.array([3, 4]))


def test_bits_are_no_fractions_and_bytes_are_unpacked() -> None:
    with pytest.raises(DTypeError, match="packbits takes bools and integers"):
        rnp.packbits(np.ones(3))
    with pytest.raises(DTypeError, match="unpackbits takes u8"):
        rnp.unpackbits(np.array([256, 257]))


def test_parts_of_complex_numbers_become_finite() -> None:
    z = np.array([complex(np.nan, 1), complex(2, np.inf), 3 - 4j])
    np.testing.assert_array_equal(rnp.nan_to_num(z), np.nan_to_num(z))


def test_no_angles_are_unwrapped_to_none() -> None:
    assert rnp.unwrap(np.zeros((2, 0))).shape == (2, 0)

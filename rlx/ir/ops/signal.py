"""The discrete Fourier transform of any length along any axis, and formulas over spectra."""

from __future__ import annotations

import math

from rlx.errors import DTypeError, ShapeError, SymbolicExtentError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import complex, imag, log, maximum, ne, real, where
from rlx.ir.ops.fourier import reals_of_spectrum, spectrum_of_reals, transformed
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import reduce_max
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.ops.shape import concat, narrow, reshape, transpose
from rlx.ir.shape import normalize_axis, product
from rlx.ir.types import TensorType


@composite("signal", Trait.ALL_ELEMENTS, Trait.LINEAR)
def fft(x: Value, *, axis: int = -1, inverse: bool = False, scale: float = 1.0) -> Value:
    """Discrete Fourier transform along `axis`, times `scale`.

    Complex numbers, or a last axis of floats with all real parts before all imaginary parts. The
    sign of the exponent is -1, for the inverse +1; neither divides by the length.
    """
    place = normalize_axis(axis, x.rank)
    n = transform_length(x.type, place)
    if not x.dtype.is_complex:
        planes = reshape(x, shape=(-1, 2, n, 1))
        parts = (reshape(narrow(planes, axis=1, start=i, length=1), shape=(-1, n)) for i in (0, 1))
        found = fft(complex(*parts), inverse=inverse, scale=scale)
        both = [reshape(part, shape=(-1, 1, n)) for part in (real(found), imag(found))]
        return reshape(concat(*both, axis=1), shape=x.shape)
    found = transformed(_along_second(x, place), inverse=inverse, scale=scale)
    return reshape(found, shape=x.shape)


def transform_length(type: TensorType, axis: int = -1) -> int:
    """Return how many complex numbers a row has."""
    if not (type.dtype.is_complex or type.dtype.value in ("f32", "f64")):
        raise DTypeError(
            f"operand has dtype {type.dtype}; it must be complex, f32 or f64",
            remedy="convert it first",
        )
    require_rank(type, 1)
    if not type.dtype.is_complex and normalize_axis(axis, type.rank) != type.rank - 1:
        raise ShapeError(
            f"floats are transformed along axis {axis} of {type.describe_shape()}; their real and "
            "imaginary parts are along the last one",
            remedy="convert them to complex numbers",
        )
    extent = _extent_of(type, axis)
    length = extent if type.dtype.is_complex else extent // 2
    if not type.dtype.is_complex and extent % 2:
        raise ShapeError(
            f"axis {axis} of {type.describe_shape()} holds no transform; it needs as many "
            "imaginary as real parts",
            remedy="put the imaginary parts after the real ones",
        )
    return length


@composite("signal", Trait.ALL_ELEMENTS, Trait.LINEAR)
def rfft(x: Value, *, axis: int = -1, scale: float = 1.0) -> Value:
    """Lower half of the spectrum of reals along `axis`, times `scale`.

    Of n reals these are n // 2 + 1 bins, 0 to half of the sampling rate.
    """
    place = normalize_axis(axis, x.rank)
    require_dtype(x.type, "f32 f64")
    n = _extent_of(x.type, place)
    found = spectrum_of_reals(_along_second(x, place), scale=scale)
    return reshape(found, shape=(*x.shape[:place], n // 2 + 1, *x.shape[place + 1 :]))


@composite("signal", Trait.ALL_ELEMENTS, Trait.LINEAR)
def irfft(x: Value, *, n: int, axis: int = -1, scale: float = 1.0) -> Value:
    """The n reals whose spectrum has the lower half `x` along `axis`: unscaled, times `scale`.

    The imaginary part of bin 0 is not read, nor that of the last bin where n is even.
    """
    place = normalize_axis(axis, x.rank)
    require_dtype(x.type, "complex")
    bins = _extent_of(x.type, place)
    if n < 1 or bins != n // 2 + 1:
        raise ShapeError(
            f"a spectrum of {bins} bins is given for {n} reals; it must have n // 2 + 1 of them",
            remedy="cut the spectrum or fill it with zeros",
        )
    found = reals_of_spectrum(_along_second(x, place), n, scale=scale)
    return reshape(found, shape=(*x.shape[:place], n, *x.shape[place + 1 :]))


def _along_second(x: Value, axis: int) -> Value:
    """Return `x` as three axes, of which `axis` is the second one."""
    outer, inner = product(x.shape[:axis]), product(x.shape[axis + 1 :])
    return reshape(x, shape=(outer, x.shape[axis], inner))


def _extent_of(type: TensorType, axis: int) -> int:
    """Return the length of a transform, which must be a number."""
    extent = type.shape[axis]
    if not isinstance(extent, int):
        raise SymbolicExtentError(
            f"axis {axis} of {type.describe_shape()} is symbolic; the length of a transform "
            "must be a number",
            remedy="build the graph for one length, or pad to one",
        )
    if extent < 1:
        raise ShapeError(
            f"axis {axis} of {type.describe_shape()} holds no transform; it needs an element",
            remedy="pass at least one element",
        )
    return extent


# Formulas over spectra


@composite("signal", Trait.ALL_ELEMENTS)
def fft_butterfly_stage(
    state: Value, gate: Value, rev: Value, tw_re: Value, tw_im: Value, *, stage: int, n_fft: int
) -> Value:
    """One stage of a transform of radix 2, whose pairs may be left alone or exchanged.

    `state` holds `n_fft` complex numbers per row, each its real and its imaginary part. Pair
    number b is (i, i + 2**stage); it becomes sum and difference of the first and the second
    times the twiddle b, where `gate` b is not 0, and changes places where `rev` b is 1/2 or more.
    """
    stride = _stride(state.type, stage, n_fft)
    rows = reshape(state, shape=(-1, n_fft // 2 // stride, 2, stride, 2))
    pair = (n_fft // 2 // stride, stride)
    gate, rev, w_re, w_im = (reshape(each, shape=pair) for each in (gate, rev, tw_re, tw_im))
    parts = []
    (a_re, a_im), (b_re, b_im) = (_parts_of(rows, side) for side in (0, 1))
    t_re, t_im = w_re * b_re - w_im * b_im, w_re * b_im + w_im * b_re
    for first, second, turned in ((a_re, b_re, t_re), (a_im, b_im, t_im)):
        total, difference = first + turned, first - turned
        exchanged, active = rev >= 0.5, ne(gate, 0.0)
        top = where(active, where(exchanged, difference, total), first)
        bottom = where(active, where(exchanged, total, difference), second)
        sides = [reshape(each, shape=(-1, pair[0], 1, stride, 1)) for each in (top, bottom)]
        parts.append(concat(*sides, axis=2))
    return reshape(concat(*parts, axis=4), shape=state.shape)


def _stride(state: TensorType, stage: int, n_fft: int) -> int:
    fits = n_fft >= 2 and n_fft & (n_fft - 1) == 0 and 0 <= stage < n_fft.bit_length() - 1
    if not fits or state.shape[-1:] != (2 * n_fft,):
        raise ShapeError(
            f"stage {stage} of a transform of {n_fft} points on {state.describe_shape()}; the "
            "points are a power of two, their logarithm exceeds the stage, and rows hold two "
            "numbers for each point",
            remedy="give n_fft, stage and state that fit each other",
        )
    return 1 << stage


def _parts_of(rows: Value, side: int) -> tuple[Value, Value]:
    """Return the real and the imaginary parts of one number of each pair."""
    groups, stride = rows.shape[1], rows.shape[3]
    numbers = narrow(rows, axis=2, start=side, length=1)
    real_part, imaginary_part = (
        reshape(narrow(numbers, axis=4, start=part, length=1), shape=(-1, groups, stride))
        for part in (0, 1)
    )
    return real_part, imaginary_part


@composite("signal", Trait.ALL_ELEMENTS)
def log_mel(spec: Value, filters: Value) -> Value:
    """Logarithms of the energy in bands, at most 8 below the largest of a row, scaled.

    `spec` has rows of real parts and then imaginary parts, `filters` a row of weights per band
    for the first half of the spectrum and one more.
    """
    require_dtype(spec.type, "f32", "spec")
    n_fft = transform_length(spec.type)
    bins = n_fft // 2 + 1
    if filters.rank != 2 or filters.shape[1] != bins:
        raise ShapeError(
            f"filters have shape {filters.type.describe_shape()}; rows of {n_fft} points have "
            f"{bins} bins, so it must be (bands, {bins})",
            remedy="give one weight for each bin",
        )
    re, im = (narrow(spec, axis=-1, start=start, length=bins) for start in (0, n_fft))
    power = reshape(re * re + im * im, shape=(-1, bins))
    energy = matmul(power, transpose(filters, perm=(1, 0)))
    levels = log(maximum(energy, 1e-10)) * (1.0 / math.log(10.0))
    floor = reduce_max(levels, axes=(1,), keepdims=True) - 8.0
    scaled = (maximum(levels, floor) + 4.0) * 0.25
    return reshape(scaled, shape=(*spec.shape[:-1], filters.shape[0]))

"""Spectra of real signals as pairs of real tensors, of lengths that are powers of two.

These are the helpers of the op `fft` for graphs without complex numbers; `rlx.numpy.fft` has
NumPy's functions. `norm` says what is divided: nothing (`"backward"`, as the op itself), the
inverse by the length (`"forward"`), both directions by its root (`"ortho"`).
"""

from __future__ import annotations

import math

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Value

Spectrum = tuple[Value, Value]
"""Real and imaginary parts."""


def next_pow2(n: int) -> int:
    """The smallest power of two that is at least `n`; 1 for less than 1."""
    return 1 << max(n - 1, 0).bit_length()


def bit_reverse(x: int, bits: int) -> int:
    """The lowest `bits` bits of `x` in reverse order."""
    return sum(((x >> place) & 1) << (bits - 1 - place) for place in range(bits))


def fft_scale(n: int, norm: str, *, inverse: bool) -> float:
    """The factor of a transform of `n` numbers."""
    scales = {"backward": 1.0, "forward": 1 / n if inverse else 1.0, "ortho": 1 / math.sqrt(n)}
    if norm not in scales:
        raise InputError(
            f"norm is {norm!r}; it must be 'backward', 'forward' or 'ortho'",
            remedy="leave norm out for 'backward'",
        )
    return scales[norm]


def split_spectrum(spectrum: Value) -> Spectrum:
    """The halves of a last axis that holds all real parts before all imaginary parts."""
    n = _extent(spectrum) // 2
    re = ops.narrow(spectrum, axis=-1, start=0, length=n)
    return re, ops.narrow(spectrum, axis=-1, start=n, length=n)


def pad_last_axis_to_pow2(x: Value) -> Value:
    """`x` padded with zeros at its end to a power of two."""
    return _padded(x, next_pow2(_extent(x)))


def fft_real(x: Value, norm: str = "backward") -> Spectrum:
    """The whole spectrum of real numbers, padded to a power of two."""
    x = pad_last_axis_to_pow2(x)
    n = _extent(x)
    return split_spectrum(ops.fft(_padded(x, 2 * n), scale=fft_scale(n, norm, inverse=False)))


def rfft(x: Value, norm: str = "backward") -> Spectrum:
    """The first half of `fft_real` and one more: `n / 2 + 1` numbers."""
    re, im = fft_real(x, norm)
    length = _extent(re) // 2 + 1
    return _first(re, length), _first(im, length)


def ifft_spectrum(re: Value, im: Value, norm: str = "backward") -> Value:
    """The real part of the inverse transform of a whole spectrum."""
    scale = fft_scale(_extent(re), norm, inverse=True)
    planes = ops.fft(ops.concat(re, im, axis=-1), inverse=True, scale=scale)
    return split_spectrum(planes)[0]


def irfft(re: Value, im: Value, n: int, norm: str = "backward") -> Value:
    """The first `n` real numbers whose padded spectrum begins with `n / 2 + 1` given ones."""
    whole = next_pow2(n)
    if _extent(re) != whole // 2 + 1:
        raise ShapeError(
            f"a spectrum of {_extent(re)} numbers is given for {n} samples; it must have "
            f"{whole // 2 + 1}",
            remedy="pass the result of rfft of as many samples",
        )
    rest = max(whole // 2 - 1, 0)
    mirrored = [ops.narrow(part, axis=-1, start=1, length=rest) for part in (re, im)]
    back = [ops.reverse(part, axes=(-1,)) for part in mirrored]
    full = (ops.concat(re, back[0], axis=-1), ops.concat(im, ops.neg(back[1]), axis=-1))
    return _first(ifft_spectrum(*full, norm), n)


def psd(re: Value, im: Value, divisor: int | None = None) -> Value:
    """Squared magnitudes over the number of bins, or over `divisor`."""
    return (re * re + im * im) * (1.0 / (divisor or _extent(re)))


def psd_real(x: Value, norm: str = "backward", divisor: int | None = None) -> Value:
    """`psd` of `rfft`; the divisor is the number of bins unless another is given."""
    return psd(*rfft(x, norm), divisor)


def stft(x: Value, frame_len: int, hop: int, norm: str = "backward") -> Value:
    """Spectra of frames along a new first axis, real before imaginary parts; no window."""
    samples = _extent(x)
    if frame_len < 1 or hop < 1 or samples < frame_len:
        raise ShapeError(
            f"frames of {frame_len} samples, {hop} apart, do not fit into {samples} samples",
            remedy=f"give a frame length from 1 to {samples}, and a hop of 1 or more",
        )
    starts = range(0, samples - frame_len + 1, hop)
    frames = [ops.narrow(x, axis=-1, start=start, length=frame_len) for start in starts]
    rows = [ops.concat(*rfft(frame, norm), axis=-1) for frame in frames]
    return ops.concat(*(ops.reshape(row, shape=(1, *row.shape)) for row in rows), axis=0)


def fft_conv1d(a: Value, b: Value, n_fft: int = 1, norm: str = "forward") -> Value:
    """The convolution of the last axes by transforms of at least `n_fft` numbers.

    Only with `norm="forward"` is it the sum of products; `"backward"` multiplies by the length,
    `"ortho"` divides by its root.
    """
    length = _extent(a) + _extent(b) - 1
    size = next_pow2(max(n_fft, length))
    (ar, ai), (br, bi) = (rfft(_padded(each, size), norm) for each in (a, b))
    return _first(irfft(ar * br - ai * bi, ar * bi + ai * br, size, norm), length)


def _first(x: Value, length: int) -> Value:
    return ops.narrow(x, axis=-1, start=0, length=length)


def _padded(x: Value, n: int) -> Value:
    missing = n - _extent(x)
    return ops.pad(x, low=(0,) * x.rank, high=(*(0,) * (x.rank - 1), missing)) if missing else x


def _extent(x: Value) -> int:
    extent = x.shape[-1] if x.shape else None
    if not isinstance(extent, int):
        raise ShapeError(
            f"the last axis of {x.type.describe_shape()} has no known extent; transforms need one",
            remedy="build the graph for one length",
        )
    return extent

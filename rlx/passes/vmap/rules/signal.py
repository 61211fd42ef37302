"""The Fourier transform has its axis as an attribute."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import shift_axes, unrolled

shift_axes(ops.fft, ops.rfft, ops.irfft)
unrolled(
    *(ops.dft, ops.dft_of_prime, ops.dft_of_reals, ops.dft_to_reals),
    because="the formula of fft, rfft or irfft makes it, which is batched as one",
)

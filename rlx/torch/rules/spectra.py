"""Fourier transforms by PyTorch's modes of scaling: 0 none, 1 by the root of n, 2 by n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.numpy import fft
from rlx.torch.registry import rule

_FORWARD = {0: "backward", 1: "ortho", 2: "forward"}
_INVERSE = {0: "forward", 1: "ortho", 2: "backward"}


@rule("_fft_c2c")
def complex_transform(x: Any, axes: Sequence[int], scaling: int, forward: bool) -> Any:
    if not axes:
        return x
    if forward:
        return fft.fftn(x, axes=tuple(axes), norm=_FORWARD[scaling])
    return fft.ifftn(x, axes=tuple(axes), norm=_INVERSE[scaling])


@rule("_fft_r2c")
def real_transform(x: Any, axes: Sequence[int], scaling: int, onesided: bool) -> Any:
    if onesided:
        found = fft.rfft(x, axis=axes[-1], norm=_FORWARD[scaling])
        return complex_transform(found, axes[:-1], scaling, True)
    return fft.fftn(x, axes=tuple(axes), norm=_FORWARD[scaling])


@rule("_fft_c2r")
def to_real(x: Any, axes: Sequence[int], scaling: int, size: int) -> Any:
    *others, last = axes
    if others:
        x = complex_transform(x, others, scaling, False)
    return fft.irfft(x, n=size, axis=last, norm=_INVERSE[scaling])


@rule("fft_fftfreq", typed=True)
def fftfreq(result: Any, count: int, spacing: float = 1.0, **_: Any) -> Any:
    del result
    return rnp.asarray(fft.fftfreq(count, spacing))

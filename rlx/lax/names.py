"""Names of `jax.lax` that programs mention, whose choice makes no difference here."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from rlx.errors import InputError
from rlx.numpy import fft as transforms
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function


class Precision(enum.Enum):
    """Products are of the operands' precision."""

    DEFAULT, HIGH, HIGHEST = "default", "high", "highest"


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO, TO_NEAREST_EVEN = 0, 1


class GatherScatterMode(enum.Enum):
    """What is read and written where an index is out of range."""

    CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS, ONE_HOT = range(4)


class FftType(enum.IntEnum):
    """The transforms of `fft`."""

    FFT, IFFT, RFFT, IRFFT = range(4)


@function
def fft(x: Any, fft_type: FftType | str, fft_lengths: Any) -> Array:
    """The transform over the last axes, as many as there are lengths."""
    kind = fft_type if isinstance(fft_type, FftType) else FftType[str(fft_type).upper()]
    lengths = tuple(fft_lengths)
    axes = tuple(range(-len(lengths), 0))
    named = {FftType.FFT: transforms.fftn, FftType.IFFT: transforms.ifftn,
             FftType.RFFT: transforms.rfftn, FftType.IRFFT: transforms.irfftn}  # fmt: skip
    return named[kind](x, lengths, axes)


def optimization_barrier(operand: Any) -> Array:
    """`operand` itself."""
    return operand


@function
def stage(x: Any) -> Array:
    """`x` as an array."""
    return as_tracer(x)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Let `val` be computed for nothing: what is not returned is left out."""
    del val


def create_token(_: Any = None) -> tuple[()]:
    """Return nothing: effects keep their order without tokens."""
    return ()


def after_all(*operands: Any) -> tuple[()]:
    """Return nothing: effects keep their order without tokens."""
    del operands
    return ()


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`: there is one device."""
    return x


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """`decomposition` itself."""
    return decomposition


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The function for `cpu`, or the default, of the arguments."""
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise InputError(
            f"platform_dependent has functions for {', '.join(per_platform)} alone",
            remedy="give one for cpu, or a default",
        )
    return chosen(*args)

"""Results in arrays of the caller: checks, and copies where a run cannot write there itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlx.errors import InputError
from rlx.runtime.signature import Argument, Array, Signature, checked


def checked_buffers(signature: Signature, out: Sequence[Array | None]) -> tuple[Array | None, ...]:
    """Return `out` if it has a writable array of the right type, or None, for every output."""
    if len(out) != len(signature.outputs):
        raise InputError(
            f"{signature.name}: out= has {len(out)} entries; the graph has "
            f"{len(signature.outputs)} outputs",
            remedy="give an array or None for each output",
        )
    for position, (buffer, type) in enumerate(zip(out, signature.outputs, strict=True)):
        if buffer is None:
            continue
        if not isinstance(buffer, np.ndarray):
            raise InputError(
                f"{signature.name}: out[{position}] is a {buffer.__class__.__name__}; it must be "
                "a NumPy array",
                remedy=f"make one with np.empty(shape, {type.dtype.numpy.name!r})",
            )
        checked(Argument(f"out[{position}]", type), buffer, what="buffer")
        if not buffer.flags.writeable:
            raise InputError(
                f"{signature.name}: out[{position}] is read-only", remedy="pass a writable array"
            )
    return tuple(out)


def check_extents(
    signature: Signature, out: Sequence[Array | None], views: Sequence[Array]
) -> None:
    """Check buffers against the extents of this run, which symbols leave open."""
    for position, (buffer, view) in enumerate(zip(out, views, strict=False)):
        if buffer is not None and buffer.shape != view.shape:
            raise InputError(
                f"{signature.name}: out[{position}] has shape {buffer.shape}; this run gives "
                f"{view.shape}",
                remedy="pass a buffer of the result's shape",
            )


def filled(out: Sequence[Array | None], results: Sequence[Array]) -> tuple[Array, ...]:
    """Copy results to their buffers, where they are not yet; to new arrays where there is none."""
    return tuple(_settle(buffer, result) for buffer, result in zip(out, results, strict=True))


def _settle(buffer: Array | None, result: Array) -> Array:
    if buffer is None:
        return result.copy()
    if buffer is not result:
        buffer[...] = result
    return buffer

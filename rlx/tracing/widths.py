"""Whether arrays may hold 64-bit numbers, or 32 bits take their place, as in JAX by default.

rlx has 64-bit types, as NumPy has. Programs written for JAX expect that they are asked for
(`jax_enable_x64`): without, every array that is made or given is of 32 bits at most.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from rlx.ir.dtype import DType

P = ParamSpec("P")
R = TypeVar("R")

_HALF = {
    DType.F64: DType.F32,
    DType.I64: DType.I32,
    DType.U64: DType.U32,
    DType.C128: DType.C64,
}


class _OfThread(threading.local):
    is_wide = False
    """Inside `wide_types`."""


class _OfProcess:
    is_narrow = False
    draws_wide = False
    """Random draws of no named dtype have 64 bits: a program has asked for such types."""


_of_thread = _OfThread()
PROCESS = _OfProcess()
"""What is asked for each array looks here first, which costs no call."""
_on_change: list[Callable[[], None]] = []


def are_narrow() -> bool:
    """Return whether 32 bits take the place of 64."""
    return PROCESS.is_narrow and not _of_thread.is_wide


def canonical(dtype: DType) -> DType:
    """Return the dtype that an array has for which `dtype` is asked."""
    return _HALF.get(dtype, dtype) if are_narrow() else dtype


def enable_64_bit_types(enabled: bool, draws: bool = False) -> None:
    """Let arrays of the process have 64-bit types, which is the default, or not.

    With `draws`, random draws have them where no dtype is named, too.
    """
    before, now = (PROCESS.is_narrow, PROCESS.draws_wide), (not enabled, draws)
    if before != now:
        PROCESS.is_narrow, PROCESS.draws_wide = now
        for forget in _on_change:
            forget()


def when_widths_change(forget: Callable[[], None]) -> Callable[[], None]:
    """Call `forget` whenever the process changes its mind: it drops what was made before."""
    _on_change.append(forget)
    return forget


def with_wide_types(function: Callable[P, R]) -> Callable[P, R]:
    """Let types be what they are inside a function: positions count elements."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not PROCESS.is_narrow:
            return function(*args, **kwargs)
        with wide_types():
            return function(*args, **kwargs)

    return call


@contextmanager
def wide_types() -> Iterator[None]:
    """Let types be what they are inside: a model from a file names them."""
    before, _of_thread.is_wide = _of_thread.is_wide, True
    try:
        yield
    finally:
        _of_thread.is_wide = before

"""Whether arrays may hold 64-bit numbers, as not in JAX by default, and the default float.

rlx has 64-bit types, as NumPy has. Programs written for JAX expect that they are asked for
(`jax_enable_x64`): without, every array that is made or given is of 32 bits at most.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from rlx.errors import DTypeError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.source_lines import calling_source

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
    default_float = DType.F64
    """The dtype of floats for which none is named."""
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


def natural(dtype: DType) -> DType:
    """Return the dtype of numbers for which none is named: `dtype`, but for the default float."""
    chosen = PROCESS.default_float
    if chosen is not DType.F64 and not _of_thread.is_wide:
        if dtype is DType.F64:
            return canonical(chosen)
        if dtype is DType.C128:
            return DType.C64
    return canonical(dtype)


def width_rules() -> tuple[bool, bool, DType]:
    """Return all that the dtypes of a trace depend on, its arguments apart."""
    return are_narrow(), PROCESS.draws_wide, natural(DType.F64)


def are_usual() -> bool:
    """Return whether 64-bit types may be used and are the default, in all threads."""
    return not PROCESS.is_narrow and PROCESS.default_float is DType.F64


class default_dtype:  # noqa: N801  called as a function
    """Let floats for which no dtype is named have this one: f64 at first, f16, bf16 or f32.

    Such are Python's numbers, lists of them, and what `zeros`, `eye`, `linspace` and the like
    return without `dtype`; arrays keep theirs. Complex numbers have as many bits, 64 at least. It
    holds for the process, in `jit`, eagerly and for exports, or within a `with` statement:

        rlx.default_dtype("f32")

    Raises:
        DTypeError: `dtype` is no float of 16, 32 or 64 bits.
    """

    def __init__(self, dtype: Any) -> None:
        found = as_dtype(dtype)
        if found not in (DType.F16, DType.BF16, DType.F32, DType.F64):
            raise DTypeError(
                f"default_dtype: {found} is not a float of 16, 32 or 64 bits",
                source=calling_source(),
                remedy="choose 'f16', 'bf16', 'f32' or 'f64'",
            )
        self._before = PROCESS.default_float
        _choose_float(found)

    def __enter__(self) -> None:
        """Do nothing: the dtype is chosen."""

    def __exit__(self, *_: object) -> None:
        _choose_float(self._before)


def _choose_float(dtype: DType) -> None:
    if PROCESS.default_float is not dtype:
        PROCESS.default_float = dtype
        for forget in _on_change:
            forget()


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
        if are_usual():
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

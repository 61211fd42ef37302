"""`jax.config`: settings that programs make. One counts here: whether there are 64-bit types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rlx.tracing.widths import PROCESS, are_narrow, enable_64_bit_types


class Config:
    """Takes every setting and keeps it."""

    @property
    def jax_enable_x64(self) -> bool:
        """Whether arrays have 64-bit types; where not, 32 bits take their place."""
        return not are_narrow()

    @jax_enable_x64.setter
    def jax_enable_x64(self, value: Any) -> None:
        enable_64_bit_types(bool(value), draws=bool(value))

    def update(self, name: str, value: Any) -> None:
        """Make a setting; nothing here depends on others than `jax_enable_x64`."""
        setattr(self, name, value)

    def read(self, name: str) -> Any:
        """Return a setting that was kept, None for others."""
        return getattr(self, name, None)


config = Config()


def _setting(name: str, default: Any) -> Callable[..., AbstractContextManager[None]]:
    """Return the context in which setting `name` has another value; all threads see it."""

    @contextmanager
    def setting(new_val: Any = default) -> Iterator[None]:
        before = config.read(name)
        config.update(name, new_val)
        try:
            yield
        finally:
            config.update(name, before)

    setting.__name__ = setting.__qualname__ = name.removeprefix("jax_")
    setting.__doc__ = f"Let `{name}` have another value inside."
    return setting


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """Let arrays have 64-bit types inside, or not; all threads see it."""
    before, drawn = config.jax_enable_x64, PROCESS.draws_wide
    config.jax_enable_x64 = new_val
    try:
        yield
    finally:
        enable_64_bit_types(before, drawn)


default_device = _setting("jax_default_device", None)
default_matmul_precision = _setting("jax_default_matmul_precision", None)
numpy_rank_promotion = _setting("jax_numpy_rank_promotion", "allow")
debug_nans, debug_infs = _setting("jax_debug_nans", True), _setting("jax_debug_infs", True)
log_compiles, check_tracer_leaks = (
    _setting("jax_log_compiles", True),
    _setting("jax_check_tracer_leaks", True),
)
checking_leaks = check_tracer_leaks
transfer_guard = _setting("jax_transfer_guard", "allow")

"""`jax.config`: settings that programs make. One counts here: whether there are 64-bit types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlx.tracing.widths import are_narrow, enable_64_bit_types


class Config:
    """Takes every setting and keeps it."""

    @property
    def jax_enable_x64(self) -> bool:
        """Whether arrays have 64-bit types; where not, 32 bits take their place."""
        return not are_narrow()

    @jax_enable_x64.setter
    def jax_enable_x64(self, value: Any) -> None:
        enable_64_bit_types(bool(value))

    def update(self, name: str, value: Any) -> None:
        """Make a setting; nothing here depends on others than `jax_enable_x64`."""
        setattr(self, name, value)

    def read(self, name: str) -> Any:
        """Return a setting that was kept, None for others."""
        return getattr(self, name, None)


config = Config()


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """Let arrays have 64-bit types inside, or not; all threads see it."""
    before = config.jax_enable_x64
    config.jax_enable_x64 = new_val
    try:
        yield
    finally:
        config.jax_enable_x64 = before

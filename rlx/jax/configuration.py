"""`jax.config`: settings that programs make. 64-bit types are always there."""

from __future__ import annotations

from typing import Any


class Config:
    """Takes every setting and keeps it."""

    def __init__(self) -> None:
        self.jax_enable_x64 = True

    def update(self, name: str, value: Any) -> None:
        """Keep a setting; nothing here depends on it."""
        setattr(self, name, value)

    def read(self, name: str) -> Any:
        """Return a setting that was kept, None for others."""
        return getattr(self, name, None)


config = Config()

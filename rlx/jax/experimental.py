"""What of `jax.experimental` is there: `io_callback`, `enable_x64`, `disable_x64`."""

from contextlib import AbstractContextManager

from rlx import io_callback as io_callback
from rlx.jax.configuration import enable_x64 as enable_x64

__all__ = ["disable_x64", "enable_x64", "io_callback"]


def disable_x64() -> AbstractContextManager[None]:
    """Let 32 bits take the place of 64-bit types inside."""
    return enable_x64(False)

"""What of `jax.experimental` is there: `io_callback`."""

from rlx import io_callback as io_callback

__all__ = ["io_callback"]

"""`jax.ffi`: `rlx.ffi`."""

from rlx.ffi import *  # noqa: F403

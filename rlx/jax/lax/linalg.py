"""`jax.lax.linalg`: `rlx.lax.linalg`."""

from rlx.lax.linalg import *  # noqa: F403

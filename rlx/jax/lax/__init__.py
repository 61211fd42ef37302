"""`jax.lax`: `rlx.lax`."""

from rlx.lax import *  # noqa: F403

"""`jax.random`: `rlx.random`."""

from rlx.random import *  # noqa: F403

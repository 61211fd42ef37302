"""`jax.debug`: `rlx.debug`."""

from rlx.debug import *  # noqa: F403

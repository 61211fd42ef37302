"""`jax.scipy.stats`: `rlx.scipy.stats`."""

from rlx.scipy.stats import *  # noqa: F403

"""`jax.scipy.special`: `rlx.scipy.special`."""

from rlx.scipy.special import *  # noqa: F403

"""`jax.scipy.optimize`: `rlx.scipy.optimize`."""

from rlx.scipy.optimize import *  # noqa: F403

"""`jax.scipy.linalg`: `rlx.scipy.linalg`."""

from rlx.scipy.linalg import *  # noqa: F403

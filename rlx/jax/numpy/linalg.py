"""`jax.numpy.linalg`: `rlx.numpy.linalg`."""

from rlx.numpy.linalg import *  # noqa: F403

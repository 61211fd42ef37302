"""`jax.scipy.sparse.linalg`: `rlx.scipy.sparse.linalg`."""

from rlx.scipy.sparse.linalg import *  # noqa: F403

"""`jax.numpy`: `rlx.numpy`."""

from rlx.numpy import *  # noqa: F403
from rlx.numpy import linalg as linalg

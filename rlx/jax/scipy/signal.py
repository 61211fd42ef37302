"""`jax.scipy.signal`: `rlx.scipy.signal`."""

from rlx.scipy.signal import *  # noqa: F403

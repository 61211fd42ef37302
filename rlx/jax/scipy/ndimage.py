"""`jax.scipy.ndimage`: `rlx.scipy.ndimage`."""

from rlx.scipy.ndimage import *  # noqa: F403

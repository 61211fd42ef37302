"""`jax.scipy.fft`: `rlx.scipy.fft`."""

from rlx.scipy.fft import *  # noqa: F403

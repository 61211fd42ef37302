"""`jax.numpy.fft`: `rlx.numpy.fft`."""

from rlx.numpy.fft import *  # noqa: F403

"""`jax.numpy.fft`: `rlx.numpy.fft`."""

from rlx.numpy.fft import *  # noqa: F403
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

"""`jax.scipy.signal`: `rlx.scipy.signal`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.signal import *  # noqa: F403

__dir__ = _names_of(__name__)

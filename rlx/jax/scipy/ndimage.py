"""`jax.scipy.ndimage`: `rlx.scipy.ndimage`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.ndimage import *  # noqa: F403

__dir__ = _names_of(__name__)

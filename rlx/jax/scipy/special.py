"""`jax.scipy.special`: `rlx.scipy.special`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.special import *  # noqa: F403

__dir__ = _names_of(__name__)

"""`jax.scipy.optimize`: `rlx.scipy.optimize`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.optimize import *  # noqa: F403

__dir__ = _names_of(__name__)

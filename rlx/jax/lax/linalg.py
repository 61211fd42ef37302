"""`jax.lax.linalg`: `rlx.lax.linalg`."""

from rlx.lax.linalg import *  # noqa: F403
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

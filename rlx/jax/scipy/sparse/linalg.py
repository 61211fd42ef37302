"""`jax.scipy.sparse.linalg`: `rlx.scipy.sparse.linalg`."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.sparse.linalg import *  # noqa: F403

__dir__ = _names_of(__name__)

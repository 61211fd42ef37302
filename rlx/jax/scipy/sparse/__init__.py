"""`jax.scipy.sparse`: Krylov methods."""

from rlx.jax.scipy.sparse import linalg as linalg
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

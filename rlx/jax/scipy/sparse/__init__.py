"""`jax.scipy.sparse`: Krylov methods."""

from rlx.jax.scipy.sparse import linalg as linalg

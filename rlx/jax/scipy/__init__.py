"""`jax.scipy`: special functions and linear algebra."""

from rlx.jax.scipy import linalg as linalg
from rlx.jax.scipy import special as special

"""Names of SciPy that JAX has, too: special functions and linear algebra."""

from rlx.scipy import linalg as linalg
from rlx.scipy import special as special

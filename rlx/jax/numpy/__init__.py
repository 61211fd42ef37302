"""`jax.numpy`: `rlx.numpy`."""

import rlx
from rlx.jax import arrays
from rlx.numpy import *  # noqa: F403
from rlx.numpy import fft as fft
from rlx.numpy import linalg as linalg
from rlx.scipy.special import i0 as i0

ndarray = arrays.Array  # type: ignore[misc, assignment]  # of traced arrays, too
vectorize = rlx.vectorize

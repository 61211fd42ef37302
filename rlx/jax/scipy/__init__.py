"""`jax.scipy`: `rlx.scipy`."""

from rlx.jax.scipy import fft as fft
from rlx.jax.scipy import integrate as integrate
from rlx.jax.scipy import linalg as linalg
from rlx.jax.scipy import ndimage as ndimage
from rlx.jax.scipy import optimize as optimize
from rlx.jax.scipy import signal as signal
from rlx.jax.scipy import sparse as sparse
from rlx.jax.scipy import special as special
from rlx.jax.scipy import stats as stats
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

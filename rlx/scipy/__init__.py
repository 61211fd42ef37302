"""Names of SciPy that JAX has, too."""

from rlx.public_names import names_of as _names_of
from rlx.scipy import fft as fft
from rlx.scipy import linalg as linalg
from rlx.scipy import ndimage as ndimage
from rlx.scipy import optimize as optimize
from rlx.scipy import signal as signal
from rlx.scipy import sparse as sparse
from rlx.scipy import special as special
from rlx.scipy import stats as stats

__dir__ = _names_of(__name__)

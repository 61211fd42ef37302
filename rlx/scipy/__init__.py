"""Names of SciPy that JAX has, too."""

from rlx.scipy import fft as fft
from rlx.scipy import linalg as linalg
from rlx.scipy import ndimage as ndimage
from rlx.scipy import optimize as optimize
from rlx.scipy import signal as signal
from rlx.scipy import sparse as sparse
from rlx.scipy import special as special
from rlx.scipy import stats as stats

# Last, as it is about all of the above
from rlx.numpy.call_forms import attach as _attach  # isort: skip
from rlx.scipy import call_forms as _call_forms  # isort: skip

for _forms, _module in (
    (_call_forms.SPECIAL, special), (_call_forms.LINALG, linalg), (_call_forms.STATS, stats),
):  # fmt: skip
    _attach(_forms, vars(_module))

"""`jax.experimental.jet`: Taylor series of functions of series."""

from rlx.public_names import names_of as _names_of
from rlx.transforms.taylor import jet as jet

__dir__ = _names_of(__name__)
